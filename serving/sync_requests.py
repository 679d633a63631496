"""Syncs that events ask for: a source enters, one sync for all events of a moment is started in the background.

What cannot be started now (a sync is running, Dagster is down) is left to the sensor that looks for waiting events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from resources.core.domain import SourceName
from resources.core.errors import BusyError, NotRunningError, TemporaryError
from resources.logging import logger
from resources.settings import Settings
from resources.stores.waiting import REQUESTED_BY, Waiting, asked, waiting
from serving.database import Database

GATHER_SECONDS = 0.5
"""Events often come in bursts: what arrives within this time is one sync."""

log = logger("serving")


class SyncRequests:
    """Starts at most one sync of a source at a time."""

    def __init__(self, settings: Settings, database: Database, launcher: Callable[..., object]) -> None:
        self._settings = settings
        self._database = database
        self._launcher = launcher
        self._tasks: dict[SourceName, asyncio.Task[None]] = {}

    def ask(self, source: SourceName) -> None:
        """Have a sync started for what waits, and return at once."""
        if source not in self._tasks:
            task = asyncio.create_task(self._start(source))
            self._tasks[source] = task
            task.add_done_callback(lambda _: self._tasks.pop(source, None))

    async def stop(self) -> None:
        """Give up what was not started."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _start(self, source: SourceName) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        try:
            found = await self._database.in_thread(lambda connection: waiting(connection, source))
            if found is None:
                return
            await asyncio.to_thread(self._launch, source, found)
            await self._database.in_thread(lambda connection: asked(connection, found))
        except (BusyError, NotRunningError, TemporaryError) as error:
            log.info("event_sync_not_started", source=source.value, reason=str(error))

    def _launch(self, source: SourceName, found: Waiting) -> None:
        self._launcher(self._settings, source, partitions=found.partitions, full=False, requested_by=REQUESTED_BY)
