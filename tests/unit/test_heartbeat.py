"""Heartbeats: a slow stream gives signs of life, and loses neither events nor errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from serving.http.heartbeat import with_heartbeats


def test_a_slow_stream_gives_signs_of_life_and_loses_nothing() -> None:
    async def read() -> list[int | None]:
        go_on = asyncio.Event()

        async def events() -> AsyncGenerator[int]:
            yield 1
            await go_on.wait()
            yield 2
            yield 3

        found: list[int | None] = []
        async for event in with_heartbeats(events(), 0.001):
            found.append(event)
            if found.count(None) == 3:
                go_on.set()
        return found

    found = asyncio.run(read())
    assert [one for one in found if one] == [1, 2, 3]
    assert found.index(2) > 3


def test_a_stream_that_fails_fails_and_one_that_is_left_ends() -> None:
    ended: list[str] = []

    async def events(fault: bool) -> AsyncGenerator[int]:
        try:
            yield 1
            if fault:
                raise ValueError("broken")
            await asyncio.Event().wait()
        finally:
            ended.append("over")

    async def read(fault: bool) -> None:
        beats = with_heartbeats(events(fault), 60)
        assert await anext(beats) == 1
        if fault:
            with pytest.raises(ValueError, match="broken"):
                await anext(beats)
        await beats.aclose()

    asyncio.run(read(True))
    asyncio.run(read(False))
    assert ended == ["over", "over"]
