"""The head of a response is sent with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from resources.servers.joined_writes import JoinedWrites


class Recorded:
    """A transport that records what it is told."""

    def __init__(self) -> None:
        self.told: list[str | bytes] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.told.append(b"".join(parts))

    def close(self) -> None:
        self.told.append("close")

    def abort(self) -> None:
        self.told.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.told


def told(*turns: Callable[[JoinedWrites], None]) -> list[str | bytes]:
    """Return what a transport is told by these, each in its own turn of the event loop."""
    inner = Recorded()

    async def run() -> None:
        transport = JoinedWrites(inner)
        for turn in turns:
            turn(transport)
            await asyncio.sleep(0)

    asyncio.run(run())
    return inner.told


def test_two_writes_of_one_turn_are_sent_together() -> None:
    def answer(transport: JoinedWrites) -> None:
        for part in (b"head", b"body", b""):
            transport.write(part)

    assert told(answer) == [b"headbody"]


def test_a_lone_write_is_sent_at_the_end_of_the_turn() -> None:
    assert told(lambda one: one.write(b"an event"), lambda one: one.write(b"another")) == [b"an event", b"another"]


def test_what_waits_is_sent_before_the_connection_closes() -> None:
    def refuse(transport: JoinedWrites) -> None:
        transport.write(b"refused")
        assert not transport.is_closing()
        transport.close()

    assert told(refuse) == [b"refused", "close"]


def test_what_waits_is_dropped_with_the_connection() -> None:
    def drop(transport: JoinedWrites) -> None:
        transport.write(b"head")
        transport.abort()

    assert told(drop) == ["abort"]
