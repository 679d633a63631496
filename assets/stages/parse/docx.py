"""Parse a Word document into headings, paragraphs, lists and tables in document order."""

import io
import re
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table
from resources.core.errors import SkipDocumentError

_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop) ?(\d)", re.IGNORECASE)
_NESTING = 5
"""Maximum depth of nested tables that are read."""
_REPEATED = 200
"""Characters of a cell that are repeated in each row that it spans."""
_MAX_LEVEL = 8


def _cell_text(cell: Any, depth: int) -> str:
    """Return the text of a cell (`w:tc`), including nested tables."""
    texts = [paragraph.text for paragraph in cell.p_lst]
    if depth < _NESTING:
        texts += [text for nested in cell.tbl_lst for row in _rows(nested, depth + 1) for text in row]
    return " ".join(text for text in texts if text)


def _rows(grid: Any, depth: int = 0) -> list[list[str]]:
    """Return the cells of a table (`w:tbl`): a cell that spans columns appears once in its row, one that spans rows in each of them.

    The cells are read from the XML. python-docx's `cells` returns a merged cell once for every column that it claims to
    span, and a file may claim a hundred million.
    """
    rows: list[list[str]] = []
    above: dict[int, str] = {}
    for row in grid.tr_lst:
        cells: list[str] = []
        column = row.grid_before
        spanning: dict[int, str] = {}
        for cell in row.tc_lst:
            continues = cell.vMerge == "continue"
            cells.append(above.get(column, "") if continues else _cell_text(cell, depth))
            spanning[column] = cells[-1][:_REPEATED]
            column += cell.grid_span
        rows.append(cells)
        above = spanning
    return rows


def _list_level(paragraph: Any, style: str) -> int | None:
    """Return a list item's depth, or None if the paragraph is not a list item."""
    properties = paragraph._p.pPr
    numbering = properties.numPr if properties is not None else None
    if numbering is not None:
        level = numbering.ilvl.val if numbering.ilvl is not None else 0
        return None if numbering.numId is not None and numbering.numId.val == 0 else min(level, _MAX_LEVEL)
    return 0 if style.startswith("list ") and not style.startswith("list paragraph") else None


def _drafts(document: Any) -> Iterator[BlockDraft]:
    items: list[str] = []
    names: dict[Any, str] = {}
    for item in document.iter_inner_content():
        if hasattr(item, "rows"):
            if items:
                yield BlockDraft(kind="list", text="\n".join(items))
                items = []
            rows = _rows(item._tbl)
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
            yield BlockDraft(kind="list", text="\n".join(items))
            items = []
        if heading or style == "title":
            yield BlockDraft(kind="heading", text=text, level=int(heading.group(1)) if heading else 1)
        else:
            yield BlockDraft(kind="paragraph", text=text)
    if items:
        yield BlockDraft(kind="list", text="\n".join(items))


def parse(data: bytes) -> Parsed:
    """Return the blocks of a DOCX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
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
