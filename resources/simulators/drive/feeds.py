"""Change feeds: one for the account, one for each shared drive. An item stands in a feed once, at its newest change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

from resources.simulators.drive.errors import bad_parameter


class Entry(msgspec.Struct, frozen=True):
    """Something happened to an item or a shared drive; what it is now is read when the feed is."""

    number: int
    at: datetime
    kind: Literal["file", "drive"]
    id: str


class Feed:
    """Entries in the order of their numbers. A token is the number to go on from."""

    def __init__(self, start: int) -> None:
        self._next = start
        self._oldest = start
        self._entries: dict[tuple[str, str], Entry] = {}

    def add(self, at: datetime, kind: Literal["file", "drive"], changed: str) -> None:
        """Note a change; an earlier entry of the same item goes."""
        self._entries.pop((kind, changed), None)
        self._entries[kind, changed] = Entry(self._next, at, kind, changed)
        self._next += 1

    def token(self) -> str:
        """Return the token for everything that happens from now on."""
        return str(self._next)

    def expire(self) -> None:
        """Let every token given so far be refused."""
        self._next += 1
        self._oldest = self._next

    def since(self, token: str) -> Iterator[Entry]:
        """Return the entries from a token on, oldest first. Raises `ApiError` when the token is not, or no longer, good."""
        if not token.isascii() or not token.isdigit() or not self._oldest <= int(token) <= self._next:
            raise bad_parameter("pageToken")
        found: list[Entry] = []
        for entry in reversed(self._entries.values()):
            if entry.number < int(token):
                break
            found.append(entry)
        return reversed(found)
