"""Page tokens of listings: which ids a listing found when it began, so that its later pages go on where the first one ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from resources.simulators.drive.errors import bad_parameter

_KEPT = 1_000
"""Listings with more pages to come; older ones expire."""


class Listings:
    """Tokens that were given out. A token stands for one listing and one position, and can be used again."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[Hashable, list[str]]] = OrderedDict()
        self._count = 0

    def begin(self, question: Hashable, ids: list[str]) -> str:
        """Return the token of the first page."""
        self._count += 1
        name = f"~!!~{self._count:06x}"
        self._open[name] = (question, ids)
        if len(self._open) > _KEPT:
            self._open.popitem(last=False)
        return f"{name}.0"

    def page(self, token: str, question: Hashable, size: int) -> tuple[list[str], str | None]:
        """Return the ids of a page and the token of the next. Raises `ApiError` for a token that is not of this question."""
        name, _, position = token.rpartition(".")
        asked, ids = self._open.get(name, (None, []))
        if asked != question or not position.isdigit():
            raise bad_parameter("pageToken")
        end = int(position) + size
        return ids[int(position) : end], f"{name}.{end}" if end < len(ids) else None

    def forget(self) -> None:
        """Let every token expire."""
        self._open.clear()
