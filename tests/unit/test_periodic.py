"""Work that is repeated survives its own errors, and ends when it is stopped."""

from __future__ import annotations

import asyncio

from serving.http.periodic import Repeated


def test_an_unexpected_error_does_not_end_the_repetition() -> None:
    done = asyncio.Event()
    calls: list[int] = []

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ZeroDivisionError
        done.set()

    async def play() -> None:
        repeated = Repeated("test", 0, work)
        repeated.start()
        await asyncio.wait_for(done.wait(), 10)
        await repeated.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(play())
    assert calls[:3] == [0, 1, 2]
