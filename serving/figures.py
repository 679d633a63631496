"""Figures of the registry and the index for `/metrics`: a timer reads them, so that no request costs a query."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import psycopg

from resources.errors import RetryLaterError
from resources.logging import logger
from serving.database import Database

REFRESH_SECONDS = 10.0

log = logger("serving")


class Figures:
    """The latest figures; those of a part that is down are left out."""

    def __init__(self, database: Database, index: Callable[[], Awaitable[tuple[int | None, int | None]]]) -> None:
        self._database = database
        self._index = index
        self._task: asyncio.Task[None] | None = None
        self.totals: list[Mapping[str, Any]] = []
        self.points: int | None = None
        self.size: int | None = None

    def start(self) -> None:
        """Begin reading."""
        self._task = asyncio.create_task(self._run(), name="figures")

    async def stop(self) -> None:
        """Read no longer."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                self.totals = [*await self._database.fetch("totals")]
            except (RetryLaterError, psycopg.Error) as error:
                log.warning("figures_not_read", error=str(error))
                self.totals = []
            self.points, self.size = await self._index()
            await asyncio.sleep(REFRESH_SECONDS)
