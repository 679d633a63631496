"""Work that a serving process repeats for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from resources.logging import logger
from serving.http.background import cancel

log = logger("serving")


class Repeated:
    """The task that does something again and again, `seconds` after it has ended, and for the first time after `first` seconds.

    An unexpected error is logged, and does not end the repetition: nothing else would start it again.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], Awaitable[None]], first: float = 0.0) -> None:
        self._name = name
        self._seconds = seconds
        self._work = work
        self._first = first
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._repeat(), name=self._name)

    async def stop(self) -> None:
        await cancel(self._task)

    async def _repeat(self) -> None:
        await asyncio.sleep(self._first)
        while True:
            try:
                await self._work()
            except Exception:
                log.exception("periodic_work_failed", work=self._name)
            await asyncio.sleep(self._seconds)
