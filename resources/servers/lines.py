"""The wire format between our own processes, over pipes, Unix sockets and command lines: each message is a line of JSON.

The bytes of a file follow a message that gives their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

Message = TypeVar("Message")


def line(message: object) -> bytes:
    """Return a message as it is sent."""
    return msgspec.json.encode(message) + b"\n"


class Lines(Generic[Message]):
    """The messages of a stream, which may arrive in pieces, each of at most `longest` bytes."""

    def __init__(self, kind: type[Message], longest: int) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._longest = longest
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Message, int]]:
        """Yield the messages that these bytes complete, each with its length in bytes.

        Raises `msgspec.MsgspecError` at what is no such message or longer, after those before it. Iterate to the end before the next call.
        """
        searched, start = len(self._held), 0
        self._held += data
        while (end := self._held.find(b"\n", searched)) >= 0:
            yield self._decoder.decode(memoryview(self._held)[start:end]), end - start
            searched = start = end + 1
        del self._held[:start]
        if len(self._held) > self._longest:
            raise msgspec.ValidationError(f"A message is longer than {self._longest:,} bytes.")
