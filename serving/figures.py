"""Figures of the registry and the index for `/metrics`, and whether the index and the disk are as they should be: a timer
reads them, so that no request costs a query.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg

from resources.core.errors import TemporaryError
from resources.logging import logger
from resources.stores.disk import DiskFault
from serving.database import Database

REFRESH_SECONDS = 10.0
COMPLETE_SHARE = 0.99
"""An index that holds fewer of the registry's passages at two readings in a row is incomplete; a sync may be between its two writes
at one, and a Qdrant server's count is an estimate.
"""

log = logger("serving")


class Figures:
    """The latest figures; those of a part that is down are left out."""

    def __init__(
        self,
        database: Database,
        index: Callable[[], Awaitable[tuple[int | None, int | None]]],
        disk: Callable[[], Sequence[DiskFault]],
    ) -> None:
        """`disk` returns what takes no writes; blocking."""
        self._database = database
        self._index = index
        self._disk = disk
        self._short = False
        self._task: asyncio.Task[None] | None = None
        self.totals: list[Mapping[str, Any]] = []
        self.points: int | None = None
        self.size: int | None = None
        self.incomplete = False
        """The index lacks passages that the registry lists: answers may lack documents."""
        self.disk: Sequence[DiskFault] = ()
        """Disks and folders that take no writes."""

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
            expected = 0
            try:
                self.totals = [*await self._database.fetch("totals")]
                expected = (await self._database.fetch("expected_passages"))[0]["passages"]
            except (TemporaryError, psycopg.Error) as error:
                log.warning("figures_not_read", error=str(error))
                self.totals = []
            self.points, self.size = await self._index()
            short = self.points is not None and self.points < COMPLETE_SHARE * expected
            if short and self._short and not self.incomplete:
                log.warning("index_incomplete", points=self.points, expected=expected)
            self.incomplete, self._short = short and self._short, short
            found = await asyncio.to_thread(self._disk)
            if found and not self.disk:
                log.error("disk_takes_no_writes", reason=" ".join(map(str, found)))
            self.disk = found
            await asyncio.sleep(REFRESH_SECONDS)
