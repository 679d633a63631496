"""Signs of life in a stream whose next event takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

HEARTBEAT_SECONDS = 15.0
"""Browsers and many proxies drop a response that is silent for a minute."""

T = TypeVar("T")


async def with_heartbeats(events: AsyncGenerator[T], every: float = HEARTBEAT_SECONDS) -> AsyncGenerator[T | None]:
    """Yield the events, and None whenever none has come for so many seconds. `events` run in one task, which ends with this."""
    come: asyncio.Queue[T | None] = asyncio.Queue()

    async def read() -> None:
        async with aclosing(events):
            async for event in events:
                come.put_nowait(event)

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: come.put_nowait(None))
    try:
        while True:
            try:
                async with asyncio.timeout(every):
                    event = await come.get()
            except TimeoutError:
                yield None
                continue
            if event is None:
                reading.result()  # raises what the events did
                return
            yield event
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
