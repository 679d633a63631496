"""Elements of Word documents: what holds blocks, rows and cells, and characters of fields and symbols.

Source: ECMA-376, part 1, section 17.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assets.stages.parse import drawing
from assets.stages.parse.package import attribute, child, is_on, local, number, within
from assets.stages.parse.symbols import codes_of

WRAPPERS = frozenset(
    {
        "sdt",
        "sdtContent",
        "ins",
        "moveTo",
        "smartTag",
        "customXml",
        "hyperlink",
        "fldSimple",
        "bdo",
        "dir",
        "ruby",
        "rubyBase",
    }
)
"""Elements that only wrap others."""
_INVISIBLE = re.compile(r"visibility:\s*hidden", re.IGNORECASE)


def blocks_of(container: Any) -> Iterator[Any]:
    """Yield the paragraphs, tables and embedded documents of a container, through what only wraps them."""
    for element in container:
        name = local(element.tag)
        if name in ("p", "tbl", "altChunk"):
            yield element
        elif name in WRAPPERS:
            yield from blocks_of(element)
        elif name == "AlternateContent":
            for choice in element:
                if found := [*blocks_of(choice)]:
                    yield from found
                    break


def rows_of(grid: Any) -> Iterator[Any]:
    """Yield the rows of a table, without those that were deleted."""
    return _kept(grid, "tr", "trPr", "del")


def cells_of(row: Any) -> Iterator[Any]:
    """Yield the cells of a row, without those that were deleted."""
    return _kept(row, "tc", "tcPr", "cellDel")


def _kept(container: Any, kind: str, properties: str, deleted: str) -> Iterator[Any]:
    for element in container:
        name = local(element.tag)
        if name == kind:
            if child(element, properties, deleted) is None:
                yield element
        elif name in WRAPPERS:
            yield from _kept(element, kind, properties, deleted)


def continues(properties: Any) -> bool:
    """Return True if the next paragraph continues this one: a drop cap, or a paragraph whose end was deleted."""
    if properties is None:
        return False
    frame = child(properties, "framePr")
    if frame is not None and (attribute(frame, "dropCap") or "none") != "none":
        return True
    return child(properties, "rPr", "del") is not None


def outermost(element: Any, *names: str) -> Iterator[Any]:
    """Yield the elements of these names, and hidden ones, without those within another; of alternatives, the first that has any."""
    for one in element:
        kind = local(one.tag)
        if kind in names or is_hidden(one):
            yield one
        elif kind == "AlternateContent":
            for choice in one:
                if found := [*outermost(choice, *names)]:
                    yield from found
                    break
        else:
            yield from outermost(one, *names)


def is_hidden(element: Any) -> bool:
    """Return True for a drawing, or a shape or group of one, that is hidden, in the format of Word 2007 or an older one."""
    own = (one for one in element if local(one.tag) in ("docPr", "cNvPr"))
    return (
        any(attribute(one, "hidden") in ("1", "true") for one in own)
        or drawing.is_hidden(element)
        or _INVISIBLE.search(element.get("style") or "") is not None
    )


def margin_references(body: Any, settings: Any) -> Iterator[str]:
    """Yield the references to the headers and footers that pages have. A section without references has those of the one before."""
    even = settings is not None and is_on(child(settings, "evenAndOddHeaders"))
    references: dict[tuple[str, str], str] = {}
    seen: set[str] = set()
    for section in within(body, "sectPr"):
        if local(section.getparent().tag) == "sectPrChange":
            continue
        for one in section:
            if (kind := local(one.tag)) in ("headerReference", "footerReference"):
                references[kind, attribute(one, "type") or "default"] = attribute(one, "id") or ""
        shown = {"default": True, "first": is_on(child(section, "titlePg")), "even": even}
        found = [one for (_, pages), one in references.items() if shown.get(pages) and one not in seen]
        seen.update(found)
        yield from found


def symbol(element: Any) -> str:
    try:
        found = chr(int(attribute(element, "char") or "", 16))
    except (ValueError, OverflowError):
        return ""
    if codes := codes_of(attribute(element, "font") or ""):
        return chr(0xF000 + ord(found) % 0x100).translate(codes)
    return "" if "\ue000" <= found <= "\uf8ff" else found


def without_codes(root: Any) -> Any:
    """Remove the text from the codes of fields: results of other fields there are only compared or calculated with.

    A field that does not end is left as it is.
    """
    fields: list[_OpenField] = []
    for one in within(root, "fldChar", "t", "sym") if root is not None else ():
        kind = attribute(one, "fldCharType") if local(one.tag) == "fldChar" else None
        match kind:
            case None if local(one.tag) != "fldChar":
                if fields and fields[-1].within is not None:
                    fields[-1].within.append(one)
            case "begin":
                code: list[Any] = []
                fields.append(_OpenField(code, code, fields[-1].within if fields else None))
            case "separate" if fields:
                fields[-1].within = fields[-1].outer
            case "end" if fields:
                for text in fields.pop().code:
                    text.clear()
            case _:
                pass
    return root


class _OpenField(msgspec.Struct):
    """An open field: the texts in its code, in the innermost code around the place that is read, and in that around the field."""

    code: list[Any]
    within: list[Any] | None
    outer: list[Any] | None


def field(element: Any) -> str:
    """Return what a form's field shows beside its text: a tick, or the chosen entry of a list."""
    data = child(element, "ffData")
    if data is None:
        return ""
    if (box := child(data, "checkBox")) is not None:
        state = child(box, "checked")
        state = child(box, "default") if state is None else state
        return "☒" if is_on(state) else "☐"
    if (entries := child(data, "ddList")) is not None:
        texts = [attribute(one, "val") or "" for one in entries if local(one.tag) == "listEntry"]
        chosen = child(entries, "result")
        at = number(attribute(chosen, "val"), 0) if chosen is not None else 0
        return texts[at] if at < len(texts) else ""
    return ""
