"""Work that a serving process repeats for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from resources.logging import logger

log = logger("serving")


async def repeat(name: str, seconds: float, work: Callable[[], Awaitable[None]], first: float = 0.0) -> None:
    """Do something again and again, `seconds` after it has ended, and for the first time after `first` seconds.

    An unexpected error is logged, and does not end the repetition: nothing else would start it again.
    """
    await asyncio.sleep(first)
    while True:
        try:
            await work()
        except Exception:
            log.exception("periodic_work_failed", work=name)
        await asyncio.sleep(seconds)
