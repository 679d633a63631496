"""Change feeds: one for the account, one per shared drive. An item appears in a feed once, at its latest change."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

from simulators.drive.errors import bad_parameter


class FeedEntry(msgspec.Struct, frozen=True):
    """A change of an item or a shared drive; its current state is read when the feed is."""

    number: int
    at: datetime
    kind: Literal["file", "drive"]
    id: str


class Feed:
    """Entries ordered by number. A token is the number from which to continue."""

    def __init__(self, start: int) -> None:
        self._next = start
        self._oldest = start
        self._entries: dict[tuple[str, str], FeedEntry] = {}

    def add(self, at: datetime, kind: Literal["file", "drive"], changed: str) -> None:
        """Record a change; an earlier entry of the same item is removed."""
        self._entries.pop((kind, changed), None)
        self._entries[kind, changed] = FeedEntry(self._next, at, kind, changed)
        self._next += 1

    def token(self) -> str:
        return str(self._next)

    def expire(self) -> None:
        """Invalidate every token issued so far."""
        self._next += 1
        self._oldest = self._next

    def since(self, token: str) -> Iterator[FeedEntry]:
        """Return the entries from a token on, oldest first. Raises `ApiError` if the token is invalid or expired."""
        if not token.isascii() or not token.isdigit() or not self._oldest <= int(token) <= self._next:
            raise bad_parameter("pageToken")
        found: list[FeedEntry] = []
        for entry in reversed(self._entries.values()):
            if entry.number < int(token):
                break
            found.append(entry)
        return reversed(found)
