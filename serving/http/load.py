"""How busy this process is: lag of its event loop and use of its connections, and once an hour the size of the lake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.http.background import cancel
from serving.http.periodic import Repeated

if TYPE_CHECKING:
    from serving.http.database import Database
    from serving.http.metrics import Metrics

LOOK_SECONDS = 0.5
LAKE_SECONDS = 3600.0

log = logger("serving")


class Load:
    """The tasks that measure. `lake_size` returns bytes; it is read by one process of a set."""

    def __init__(self, database: Database, metrics: Metrics, lake_size: Callable[[], Awaitable[int]] | None) -> None:
        self._database = database
        self._metrics = metrics
        self._lake_size = lake_size
        self._lake = Repeated("lake-size", LAKE_SECONDS, self._measure_lake)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="load")
        if self._lake_size is not None:
            self._lake.start()

    async def stop(self) -> None:
        await cancel(self._task)
        await self._lake.stop()

    async def _watch(self) -> None:
        while True:
            use = self._database.use()
            self._metrics.pool.labels("used").set(use.used)
            self._metrics.pool.labels("idle").set(use.idle)
            self._metrics.pool_waiting.set(use.waiting)
            began = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            self._metrics.loop_lag.observe(max(0.0, time.monotonic() - began - LOOK_SECONDS))

    async def _measure_lake(self) -> None:
        assert self._lake_size is not None  # noqa: S101 - for the type checker: it is started only then
        try:
            self._metrics.lake_bytes.set(await self._lake_size())
        except ConcordanceError as error:
            log.warning("lake_size_unknown", reason=str(error))
