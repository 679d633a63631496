"""Work that is repeated survives its own errors, and ends when it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from serving.http.periodic import repeat


def test_an_unexpected_error_does_not_end_the_repetition() -> None:
    done = asyncio.Event()
    calls: list[int] = []

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ZeroDivisionError
        done.set()

    async def play() -> None:
        task = asyncio.create_task(repeat("test", 0, work))
        await asyncio.wait_for(done.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert calls[:3] == [0, 1, 2]
