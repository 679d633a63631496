"""Page tokens of listings: the ids are fixed when a listing begins, so that later pages continue where the first one ended."""

from collections import OrderedDict
from collections.abc import Hashable

from simulators.drive.errors import bad_parameter

_KEPT = 1_000
"""Number of unfinished listings kept; older ones expire."""


class Listings:
    """The tokens issued. A token identifies one listing and one position, and can be reused."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[Hashable, list[str]]] = OrderedDict()
        self._count = 0

    def begin(self, question: Hashable, ids: list[str]) -> str:
        self._count += 1
        name = f"~!!~{self._count:06x}"
        self._open[name] = (question, ids)
        if len(self._open) > _KEPT:
            self._open.popitem(last=False)
        return f"{name}.0"

    def page(self, token: str, question: Hashable, size: int) -> tuple[list[str], str | None]:
        """Return the ids of a page and the token of the next. Raises `ApiError` for a token of another listing."""
        name, _, position = token.rpartition(".")
        begun, ids = self._open.get(name, (None, []))
        if begun != question or not position.isdigit():
            raise bad_parameter("pageToken")
        end = int(position) + size
        return ids[int(position) : end], f"{name}.{end}" if end < len(ids) else None

    def forget(self) -> None:
        self._open.clear()
