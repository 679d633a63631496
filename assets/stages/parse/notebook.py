"""Parse a Jupyter notebook: its texts as Markdown, its programs as code, and the text of their output."""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.decoding import decode
from assets.stages.parse.html import html
from assets.stages.parse.markdown import markdown
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError
from resources.core.json import is_object

_OUTPUT = 4_000
"""Characters of a cell's output that are indexed: programs print tables and logs without end."""
_PLACEHOLDER = re.compile(r"<Figure [^<>]*>|[\[(]?(?:<[^<>]*(?: object| at 0x[0-9a-f]+)>[,\s]*)+[\])]?", re.DOTALL)
"""The plain text of what is displayed otherwise: `<IPython.core.display.HTML object>`, `[<matplotlib.lines.Line2D at 0x7f3a>]`."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def parse(data: bytes) -> Parsed:
    """Return the cells of a notebook. Raises `SkipDocumentError` if the file is not one. Source: nbformat 4.5"""
    text, warnings = decode(data)
    try:
        book = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SkipDocumentError(f"The file is not a notebook: {error}.") from None
    if not is_object(book):
        raise SkipDocumentError("The file is not a notebook: it has no cells.")
    cells = book.get("cells")
    if cells is None:  # version 3 has worksheets of cells
        sheets = _list(book.get("worksheets"))
        cells = [cell for sheet in sheets if is_object(sheet) for cell in _list(sheet.get("cells"))]
    parsed = Parsed(drafts=[], warnings=warnings)
    drafts: list[BlockDraft] = []
    for cell in _list(cells):
        if is_object(cell):
            drafts += _cell(cell, parsed)
    parsed.drafts = drafts
    return parsed


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _cell(cell: dict[str, Any], parsed: Parsed) -> Iterator[BlockDraft]:
    source = _text(cell.get("source", cell.get("input")))
    match cell.get("cell_type"):
        case "markdown":
            found = markdown(source, whole=False)
            parsed.title = parsed.title or found.title
            yield from found.drafts
        case "heading":
            level = cell.get("level")
            yield BlockDraft(
                kind="heading", text=source, level=level if isinstance(level, int) and 0 < level < 10 else 1
            )
        case "code" | "raw":
            yield BlockDraft(kind="code", text=clean(source))
            for output in _list(cell.get("outputs")):
                if is_object(output):
                    yield from _output(output)
        case _:
            pass


def _output(output: dict[str, Any]) -> Iterator[BlockDraft]:
    data = output.get("data")
    displayed = is_object(data) or "html" in output
    data = data if is_object(data) else {"text/plain": output.get("text"), "text/html": output.get("html")}
    shown = _text(data.get("text/plain"))
    if "traceback" in output:
        shown = f"{output.get('ename')}: {output.get('evalue')}"
    elif not shown.strip() or (displayed and _PLACEHOLDER.fullmatch(shown.strip())):
        yield from _displayed(_text(data.get("text/markdown")), _text(data.get("text/html")))
        return
    if shown.strip():
        yield BlockDraft(kind="code", text=clean(_COLOURS.sub("", shown[:_OUTPUT])))


def _displayed(text: str, page: str) -> Iterator[BlockDraft]:
    """Yield what a cell displays as Markdown or else as HTML."""
    drafts = (
        markdown(text[:_OUTPUT], whole=False).drafts if text.strip() else html(page, []).drafts if page.strip() else ()
    )
    left = _OUTPUT
    for draft in drafts:
        if left > 0:
            yield msgspec.structs.replace(draft, text=draft.text[:left])
        left -= len(draft.text)


def _text(value: Any) -> str:
    """Return text that may be stored as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(one for one in _list(value) if isinstance(one, str))
