"""Read the tables of a page: each value under its header, spans repeated, one row a line, whatever its cells hold."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assets.stages.normalize import one_line
from assets.stages.parse.alt_text import described
from assets.stages.parse.marks import STRUCK, STRUCK_TAGS, apart, raised
from assets.stages.parse.visibility import is_hidden

_GROUPS = frozenset({"thead", "tbody", "tfoot"})
_CELLS = frozenset({"td", "th"})
_MAX_SPAN = 1_000
"""Source: https://html.spec.whatwg.org/multipage/tables.html, colspan"""
_FREE_CELLS = 20_000
"""Cells that spans may fill in any table, besides three for each cell of the page."""
_MAX_CELL = 3_000
"""Characters of a cell above which a table without header cells is there for its layout."""
_SILENT = frozenset(
    {
        "script",
        "style",
        "template",
        "noscript",
        "head",
        "svg",
        "select",
        "textarea",
        "iframe",
        "object",
        "canvas",
        "rt",
        "rp",
        "rtc",
    }
)
_DISPLAYED = re.compile(r"^ \{\\displaystyle (.*)\} $")
"""What MediaWiki puts around each formula."""
_PARTS = frozenset({"li", "tr", "dd", "dt", "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote"})


class Grid(msgspec.Struct, kw_only=True):
    """A table with its spans filled in."""

    caption: str = ""
    header: list[str] | None = None
    rows: list[list[str]] = []


class _Row(msgspec.Struct):
    cells: list[Any]
    head: bool


def inline_text(node: Any) -> str:
    """Return the text of an element in one line; parts (items, rows, paragraphs) of a longer text are separated by semicolons."""
    pieces: list[str] = []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        tag = item.tag
        if tag == "-text":
            pieces.append(item.text_content or "")
            continue
        if tag in _SILENT or tag.startswith(("-", "!")) or (item is not node and is_hidden(tag, item.attributes)):
            continue
        if tag == "img":
            pieces.append(f" {described(item.attributes.get('alt'))} ")
        elif tag == "br":
            pieces.append(" ")
        elif tag == "input":
            pieces.append(box(item.attributes))
        elif tag == "math":
            pieces.append(formula(item))
        elif tag in {"sup", "sub"} and item is not node:
            pieces.append(script(item, tag, "".join(pieces[-3:])))
        else:
            if tag in {"td", "th"}:
                pieces.append(" ")
            elif tag in STRUCK_TAGS:
                pieces.append(STRUCK)
                stack.append(STRUCK)
            elif tag in _PARTS and item is not node:
                pieces.append("\x1f")
                stack.append("\x1f")
            _push_children(item, stack)
    parts = [text for part in apart("".join(pieces)).split("\x1f") if (text := one_line(part))]
    return "".join(
        part if not number else f" {part}" if parts[number - 1][-1] in ".,;:!?" else f"; {part}"
        for number, part in enumerate(parts)
    )


def code_text(node: Any) -> str:
    """Return the lines of preformatted text as they are shown."""
    pieces: list[str] = []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if item == STRUCK or (pieces and not pieces[-1].endswith(item)):
                pieces.append(item)
            continue
        tag = item.tag
        if tag == "-text":
            pieces.append(item.text_content or "")
        elif tag == "br":
            pieces.append("\n")
        elif (
            tag not in _SILENT
            and tag != "button"
            and not tag.startswith(("-", "!"))
            and not is_hidden(tag, item.attributes)
        ):
            if tag in _PARTS:
                stack.append("\n")
            elif tag in STRUCK_TAGS:
                pieces.append(STRUCK)
                stack.append(STRUCK)
            _push_children(item, stack)
    return apart("".join(pieces))


def script(node: Any, tag: str, before: str) -> str:
    """Return superscript or subscript text as it follows `before`: a footnote's mark stays apart, H2O stays in one word."""
    text = one_line(node.text() or "")
    if tag == "sub":
        return text
    if text.startswith("[") and before[-1:].isalnum():
        return f" {text}"
    return raised(before, text)


def box(attributes: dict[str, str | None]) -> str:
    """Return a ticked or empty box for an input that is one."""
    if attributes.get("type") not in {"checkbox", "radio"}:
        return ""
    return "☒ " if "checked" in attributes else "☐ "


def labels(picture: Any) -> Iterator[str]:
    """Yield the texts of a drawing (SVG), without its titles and what it only defines."""
    stack = [(picture, False)]
    while stack:
        node, is_text = stack.pop()
        if node.tag == "-text":
            if is_text:
                yield node.text_content or ""
            continue
        attributes = node.attributes
        if (
            node.tag in _UNDRAWN
            or node.tag.startswith(("-", "!"))
            or is_hidden(node.tag, attributes)
            or attributes.get("display") == "none"
            or attributes.get("visibility") in ("hidden", "collapse")
        ):
            continue
        is_text = is_text or node.tag.lower() in ("text", "foreignobject")
        stack.extend((child, is_text) for child in reversed(list(children(node))))


def formula(node: Any) -> str:
    """Return a formula as its author wrote it, or its characters."""
    source = node.css_first('annotation[encoding="application/x-tex"]')
    written = node.attributes.get("alttext") or (source or node).text() or ""
    return _DISPLAYED.sub(r" \1 ", f" {one_line(written)} ")


def grid(node: Any) -> Grid | None:
    """Return a data table, or None for one that is there for its layout."""
    if (node.attributes.get("role") or "") in {"presentation", "none"}:
        return None
    rows = list(_rows(node))
    caption = next((inline_text(child) for child in children(node) if child.tag == "caption"), "")
    declared = bool(caption) or any(row.head or any(cell.tag == "th" for cell in row.cells) for row in rows)
    if not declared and any(inner.mem_id != node.mem_id for inner in node.css("table, h1, h2, h3, form")):
        return None
    texts = [[inline_text(cell) for cell in row.cells] for row in rows]
    if not declared and any(len(text) > _MAX_CELL for cells in texts for text in cells):
        return None
    filled = _filled(rows, texts)
    kept = [(row, cells) for row, cells in zip(rows, filled, strict=True) if any(cells)]
    if not kept or max(len(cells) for _, cells in kept) < 2:
        return None
    found = Grid(caption=caption)
    while len(kept) > 1 and len(set(kept[0][1])) == 1 and len(kept[0][0].cells) == 1 and len(kept[1][1]) > 1:
        found.caption = ". ".join(filter(None, (found.caption, kept[0][1][0])))  # a title row above the header
        kept = kept[1:]
    heads = 0
    while heads < len(kept) - 1 and (kept[heads][0].head or all(cell.tag == "th" for cell in kept[heads][0].cells)):
        heads += 1
    if heads == 0 and len(kept) > 1 and not any(cell.tag == "th" for cell in kept[0][0].cells):
        heads = 1
    if heads:
        found.header = _header([cells for _, cells in kept[:heads]])
    found.rows = [cells for _, cells in kept[heads:]]
    return found


def children(node: Any) -> Iterator[Any]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


_UNDRAWN = frozenset({"defs", "symbol", "title", "desc", "style", "script", "template", "noscript"})


def _push_children(node: Any, stack: list[Any]) -> None:
    stack.extend(reversed(list(children(node))))


def _rows(node: Any) -> Iterator[_Row]:
    """Yield the rows of a table itself, without those of tables in its cells."""
    for part in children(node):
        head = part.tag == "thead"
        for row in children(part) if part.tag in _GROUPS else (part,):
            if row.tag == "tr" and not is_hidden("tr", row.attributes):
                yield _Row(
                    [cell for cell in children(row) if cell.tag in _CELLS and not is_hidden(cell.tag, cell.attributes)],
                    head,
                )


def _filled(rows: list[_Row], texts: list[list[str]]) -> list[list[str]]:
    """Return the rows with the cells that spans cover."""
    room = _FREE_CELLS + 3 * sum(map(len, texts))
    below: dict[int, tuple[int, str]] = {}
    found: list[list[str]] = []
    for row, own in zip(rows, texts, strict=True):
        cells: list[str] = []
        following: dict[int, tuple[int, str]] = {}
        for cell, text in zip(row.cells, own, strict=True):
            room -= _cover(cells, below, following, room)
            attributes = cell.attributes
            across, down = _span(attributes.get("colspan")), _span(attributes.get("rowspan"))
            across = 1 if across > room else across
            room -= across
            for _ in range(across):
                if down > 1 and room > 0:
                    following[len(cells)] = (down - 1, text)
                    room -= 1
                cells.append(text)
        room -= _cover(cells, below, following, room)
        below = following
        found.append(cells)
    return found


def _cover(
    cells: list[str], below: dict[int, tuple[int, str]], following: dict[int, tuple[int, str]], room: int
) -> int:
    """Add up to `room` values that cells above extend to the next columns, note which extend further, and return their number."""
    before = len(cells)
    while len(cells) - before < room and (span := below.get(len(cells))) is not None:
        if span[0] > 1:
            following[len(cells)] = (span[0] - 1, span[1])
        cells.append(span[1])
    return len(cells) - before


def _span(value: str | None) -> int:
    return (
        min(max(int(value), 1), _MAX_SPAN) if value and value.isascii() and value.isdecimal() and len(value) < 7 else 1
    )


def _header(rows: list[list[str]]) -> list[str]:
    """Return one header of several rows: `2024 Costs` for "Costs" below "2024"."""
    width = max(map(len, rows))
    return [
        " ".join(dict.fromkeys(row[column] for row in rows if column < len(row) and row[column]))
        for column in range(width)
    ]
