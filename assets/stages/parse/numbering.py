"""The numbers that Word shows before headings and list items: "4.2", "(a)", "Article III". Source: ECMA-376, part 1, 17.9."""

import re
from typing import Any

import msgspec

from assets.stages.parse.package import attribute, child, is_on, local, number

MAX_LEVEL = 8
"""The deepest level, counted from 0."""
_PLACE = re.compile(r"%([1-9])")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
          (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
"""Forms by the first number, as HTML and OpenDocument name them."""
_LARGEST = 10_000
"""Larger numbers are shown as decimals."""


class Level(msgspec.Struct):
    """A level of a list: how its numbers look."""

    form: str = "decimal"
    text: str = "%1."
    start: int = 1
    legal: bool = False
    restart: int | None = None
    style: str | None = None


class _List(msgspec.Struct):
    """A list of the document (`w:num`): the definition that it counts with, and the levels that it changes."""

    definition: str
    levels: dict[int, Level]
    starts: dict[int, int]


class Numbering:
    """Counts the items of a document's lists. A paragraph is to be passed once, in the document's order."""

    def __init__(self, root: Any) -> None:
        self._definitions: dict[str, dict[int, Level]] = {}
        self._links: dict[str, str] = {}
        self._styles: dict[str, str] = {}
        self._lists: dict[str, _List] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()
        for one in root if root is not None else ():
            if local(one.tag) == "abstractNum":
                self._define(one)
        for one in root if root is not None else ():
            if local(one.tag) == "num":
                self._list(one)

    def _define(self, element: Any) -> None:
        name = attribute(element, "abstractNumId") or ""
        self._definitions[name] = {}
        for one in element:
            match local(one.tag):
                case "lvl":
                    self._definitions[name][number(attribute(one, "ilvl"), 0, most=MAX_LEVEL)] = _level(one)
                case "numStyleLink":
                    self._links[name] = attribute(one, "val") or ""
                case "styleLink":
                    self._styles[attribute(one, "val") or ""] = name
                case _:
                    pass

    def _list(self, element: Any) -> None:
        reference = child(element, "abstractNumId")
        found = _List(
            definition=(attribute(reference, "val") or "") if reference is not None else "", levels={}, starts={}
        )
        for one in element:
            if local(one.tag) != "lvlOverride":
                continue
            level = number(attribute(one, "ilvl"), 0, most=MAX_LEVEL)
            if (changed := child(one, "lvl")) is not None:
                found.levels[level] = _level(changed)
            if (start := child(one, "startOverride")) is not None:
                found.starts[level] = number(attribute(start, "val"), 1)
        linked = self._links.get(found.definition)
        if linked is not None:
            found.definition = self._styles.get(linked, found.definition)
        self._lists[attribute(element, "numId") or ""] = found

    def level_of(self, list_id: str, styles: tuple[str, str]) -> int:
        """Return the level that belongs to one of a paragraph's styles, if the paragraph names none."""
        levels = self._definitions.get(self._lists[list_id].definition, {}) if list_id in self._lists else {}
        return next((depth for depth, level in levels.items() if level.style and level.style in styles), 0)

    def next(self, list_id: str, depth: int) -> str:
        """Count an item and return its marker, or an empty string for a bullet and for a level that the list does not have."""
        one = self._lists.get(list_id)
        levels = self._definitions.get(one.definition, {}) | one.levels if one is not None else {}
        level = levels.get(depth)
        if one is None or level is None:
            return ""
        counts = self._counts.setdefault(one.definition, {})
        if depth in one.starts and (list_id, depth) not in self._begun:
            counts.pop(depth, None)
        self._begun.add((list_id, depth))
        start = one.starts.get(depth, level.start)
        counts[depth] = counts[depth] + 1 if depth in counts else start
        for deeper in [other for other in counts if other > depth]:
            restart = levels.get(deeper, Level()).restart
            if restart is None or (restart > 0 and depth < restart):
                del counts[deeper]
        if level.form == "bullet":
            return ""
        return self._shown(level, levels, counts)

    def _shown(self, level: Level, levels: dict[int, Level], counts: dict[int, int]) -> str:
        def place(match: re.Match[str]) -> str:
            depth = int(match.group(1)) - 1
            other = levels.get(depth, Level())
            count = counts.setdefault(depth, other.start)
            return numeral(count, "decimal" if level.legal else other.form)

        return _PLACE.sub(place, level.text).strip()


def _level(element: Any) -> Level:
    level = Level(text="")
    for one in element:
        value = attribute(one, "val")
        match local(one.tag):
            case "numFmt":
                level.form = value or "decimal"
            case "lvlText":
                level.text = (value or "")[:100]
            case "start":
                level.start = number(value, 1)
            case "isLgl":
                level.legal = is_on(one)
            case "lvlRestart":
                level.restart = number(value, 0)
            case "pStyle":
                level.style = value
            case _:
                pass
    return level


def numeral(count: int, form: str) -> str:
    """Return a number in one of Word's forms; those that are not known are decimals."""
    if not 0 < count < _LARGEST:
        return str(count)
    match form:
        case "lowerRoman" | "upperRoman":
            text = ""
            for value, letters in _ROMAN:
                text += letters * (count // value)
                count %= value
        case "lowerLetter" | "upperLetter":
            text = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        case "decimalZero":
            return f"{count:02}"
        case "none":
            return ""
        case _:
            return str(count)
    return text.upper() if form.startswith("upper") else text
