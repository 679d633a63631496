"""The styles of a Word document: which paragraphs are headings or items of lists, and which text is hidden.

Source: ECMA-376, part 1, 17.7.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assets.stages.parse.numbering import MAX_LEVEL
from assets.stages.parse.package import attribute, child, is_on, local, number

_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titolo|kop|nagłówek|rubrik|overskrift|заголовок) ?(\d)", re.IGNORECASE
)
_BODY = 9
"""The outline level of text that is not a heading."""
_CHAIN = 20
"""Styles that are based on each other; longer chains exist in damaged files only."""


class ParagraphStyle(msgspec.Struct):
    """A style with what it inherits."""

    identifier: str = ""
    name: str = ""
    outline: int | None = None
    list_id: str | None = None
    listed: str = ""
    """The style that names the list: the list's levels may refer to it."""
    depth: int | None = None


class Styles:
    """Looks up styles by the identifiers that paragraphs and runs name."""

    def __init__(self, root: Any) -> None:
        self._elements: dict[str, Any] = {}
        self._hiding: dict[str, bool] = {}
        self._found: dict[str, ParagraphStyle] = {}
        self._default = ""
        for one in root if root is not None else ():
            kind = attribute(one, "type")
            if local(one.tag) != "style" or kind not in ("paragraph", "character", None):
                continue
            name = attribute(one, "styleId") or ""
            self._elements[name] = one
            if kind != "character" and attribute(one, "default") in ("1", "true", "on"):
                self._default = name

    def of(self, identifier: str | None) -> ParagraphStyle:
        """Return the style of a name, or the document's default one."""
        name = self._default if identifier is None else identifier
        if name not in self._found:
            self._found[name] = self._inherited(name)
        return self._found[name]

    def hides(self, identifier: str) -> bool:
        """Return True if a style of a paragraph or of characters hides text."""
        if identifier not in self._hiding:
            switches = (child(element, "rPr", "vanish") for _, element in self._chain(identifier))
            self._hiding[identifier] = is_on(next((one for one in switches if one is not None), None))
        return self._hiding[identifier]

    def _chain(self, identifier: str) -> Iterator[tuple[str, Any]]:
        """Yield a style and those that it is based on, each with its identifier."""
        name: str | None = identifier
        for _ in range(_CHAIN):
            element = self._elements.get(name or "")
            if element is None:
                return
            yield name or "", element
            based = child(element, "basedOn")
            name = attribute(based, "val") if based is not None else None

    def _inherited(self, identifier: str) -> ParagraphStyle:
        found = ParagraphStyle(identifier=identifier)
        for name, element in self._chain(identifier):
            if (named := child(element, "name")) is not None:
                own = (attribute(named, "val") or "").lower()
                found.name = found.name or own
                heading = _HEADING.match(own)
                if heading and found.outline is None:
                    found.outline = max(int(heading.group(1)) - 1, 0)
            properties = child(element, "pPr")
            if properties is not None:
                _inherit(found, properties, name)
        return found

    def heading(self, style: ParagraphStyle, properties: Any) -> int | None:
        """Return the level of a heading from 1, or None for other text."""
        own = child(properties, "outlineLvl") if properties is not None else None
        outline = number(attribute(own, "val"), _BODY) if own is not None else style.outline
        if outline is not None and outline < _BODY:
            return outline + 1
        return 1 if style.name == "title" else None

    def numbering(self, style: ParagraphStyle, properties: Any) -> tuple[str | None, int | None]:
        """Return the list that a paragraph belongs to and its depth there, if it names one."""
        own = child(properties, "numPr") if properties is not None else None
        list_id, depth = style.list_id, style.depth
        if own is not None:
            list_id = attribute(one, "val") if (one := child(own, "numId")) is not None else list_id
            depth = (
                number(attribute(one, "val"), 0, most=MAX_LEVEL) if (one := child(own, "ilvl")) is not None else depth
            )
            if list_id is None:
                return "", depth or 0
        return (None, None) if list_id == "0" else (list_id, depth)


def _inherit(style: ParagraphStyle, properties: Any, identifier: str) -> None:
    outline = child(properties, "outlineLvl")
    if outline is not None and style.outline is None:
        style.outline = number(attribute(outline, "val"), _BODY)
    listed = child(properties, "numPr")
    if listed is None:
        return
    if style.list_id is None and (one := child(listed, "numId")) is not None:
        style.list_id, style.listed = attribute(one, "val"), identifier
    if style.depth is None and (one := child(listed, "ilvl")) is not None:
        style.depth = number(attribute(one, "val"), 0, most=MAX_LEVEL)
