"""A Word document enters; headings, paragraphs, lists and tables leave in the order they stand in."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import Draft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table
from resources.errors import SkipDocumentError

_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop) ?(\d)", re.IGNORECASE)
_NESTING = 5
"""Tables within tables are read to this depth."""


def _cell_text(cell: Any, depth: int = 0) -> str:
    texts = [paragraph.text for paragraph in cell.paragraphs]
    if depth < _NESTING:
        texts += [_cell_text(inner, depth + 1) for nested in cell.tables for row in nested.rows for inner in row.cells]
    return " ".join(text for text in texts if text)


def _rows(grid: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in grid.rows:
        cells: list[str] = []
        last = None
        for cell in row.cells:
            if cell._tc is not last:  # merged cells are handed out once for each column they span
                cells.append(_cell_text(cell))
            last = cell._tc
        rows.append(cells)
    return rows


def _list_level(paragraph: Any, style: str) -> int | None:
    """Return a list item's depth, or None for what is no list item."""
    properties = paragraph._p.pPr
    numbering = properties.numPr if properties is not None else None
    if numbering is not None:
        level = numbering.ilvl.val if numbering.ilvl is not None else 0
        return None if numbering.numId is not None and numbering.numId.val == 0 else level
    return 0 if style.startswith("list ") and not style.startswith("list paragraph") else None


def _drafts(document: Any) -> Iterator[Draft]:
    items: list[str] = []
    names: dict[Any, str] = {}
    for item in document.iter_inner_content():
        if hasattr(item, "rows"):
            if items:
                yield Draft(kind="list", text="\n".join(items))
                items = []
            rows = _rows(item)
            yield from table(rows[1:], header=rows[0]) if len(rows) > 1 else table(rows)
            continue
        text = item.text
        if not text.strip():
            continue
        key = item._p.style
        if key not in names:
            names[key] = (item.style.name or "").lower() if item.style is not None else ""
        style = names[key]
        level = _list_level(item, style)
        heading = _HEADING.match(style)
        if level is not None and not heading:
            marker = "1." if "number" in style else "-"
            items.append(f"{'  ' * level}{marker} {one_line(text)}")
            continue
        if items:
            yield Draft(kind="list", text="\n".join(items))
            items = []
        if heading or style == "title":
            yield Draft(kind="heading", text=text, level=int(heading.group(1)) if heading else 1)
        else:
            yield Draft(kind="paragraph", text=text)
    if items:
        yield Draft(kind="list", text="\n".join(items))


def parse(data: bytes) -> Parsed:
    """Return the blocks of a DOCX file. Raises `SkipDocumentError` for bombs, protected and damaged files."""
    check(data, part="word/", kind="DOCX")
    from docx import Document
    from docx.opc.exceptions import OpcError
    from lxml.etree import XMLSyntaxError

    try:
        document = Document(io.BytesIO(data))
        drafts = list(_drafts(document))
        properties = document.core_properties
        title, author = properties.title, properties.author
    except (OpcError, XMLSyntaxError, KeyError, ValueError) as error:
        raise SkipDocumentError(f"The DOCX file is damaged: {one_line(str(error))[:160]}.") from None
    return Parsed(
        drafts=drafts, title=one_line(title) or None, author=author if author and author != "python-docx" else None
    )
