"""The numbers of lists of OpenDocument texts. Source: OpenDocument 1.3, part 3, 16.30 (text:list-style)"""

from typing import Any

import msgspec

from assets.stages.parse.numbering import FORMS, numeral
from assets.stages.parse.package import attribute, local, number


class _NumberedLevel(msgspec.Struct):
    """A level of a list: how its numbers look, and how many levels they show (`2.1`)."""

    form: str = ""
    prefix: str = ""
    suffix: str = ""
    start: int = 1
    shown: int = 1


class ListNumbers:
    """Counts the items of a document's lists. An item is to be passed once, in the document's order."""

    def __init__(self) -> None:
        self._levels: dict[str, dict[int, _NumberedLevel]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        """The latest numbers of each style of lists, by depth."""

    def learn(self, name: str, style: Any) -> None:
        """Remember how a style numbers the levels of lists."""
        self._levels[name] = {number(attribute(one, "level"), 1): _level(one) for one in style}

    def begin(self, element: Any, style: str) -> None:
        """Begin a list: its numbers start again unless it continues another one."""
        if attribute(element, "continue-numbering") != "true" and not attribute(element, "continue-list"):
            self._counts.pop(style, None)

    def marker(self, item: Any, depth: int, style: str) -> str:
        """Count an item and return its number with those of the levels above that it shows, or a hyphen."""
        levels = self._levels.get(style, {})
        level = levels.get(depth + 1)
        if level is None or not level.form or local(item.tag) != "list-item":
            return "-"
        counts = self._counts.setdefault(style, {})
        counts[depth] = number(attribute(item, "start-value"), counts.get(depth, level.start - 1) + 1)
        for deeper in [other for other in counts if other > depth]:
            del counts[deeper]
        places = [
            numeral(counts.get(at, above.start), above.form)
            for at in range(max(depth + 1 - level.shown, 0), depth + 1)
            if (above := levels.get(at + 1)) is not None and above.form
        ]
        return f"{level.prefix}{'.'.join(places)}{level.suffix}"


def _level(element: Any) -> _NumberedLevel:
    """Return how a level is numbered; one of bullets has no form."""
    if local(element.tag) != "list-level-style-number":
        return _NumberedLevel()
    shown = number(attribute(element, "display-levels"), 1, least=1, most=10)
    return _NumberedLevel(
        form=FORMS.get(attribute(element, "num-format") or "", ""),
        prefix=attribute(element, "num-prefix") or "",
        suffix=attribute(element, "num-suffix") or ("." if shown == 1 else ""),
        start=number(attribute(element, "start-value"), 1),
        shown=shown,
    )
