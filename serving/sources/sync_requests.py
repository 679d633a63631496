"""Starts syncs for events in the background, one for each burst of events.

While a sync runs, the request is added to it. One that can't be started now (Dagster is down) is left to the sensor for waiting
events.
"""

import asyncio
from collections.abc import Awaitable, Callable

from resources.core.domain import SourceName
from resources.core.errors import BusyError, NotRunningError, TemporaryError
from resources.logging import logger
from resources.stores.waiting import REQUESTED_BY, mark_requested, waiting
from resources.syncs.launch import LAUNCH_TIMEOUT_SECONDS
from serving.http.database import Database

GATHER_SECONDS = 0.5
"""Events that arrive within this time share one sync."""

log = logger("serving")


class SyncRequests:
    """Starts at most one sync per source at a time."""

    def __init__(self, database: Database, launch: Callable[..., Awaitable[object]]) -> None:
        """`launch` is `SourceServices.launch`."""
        self._database = database
        self._launch = launch
        self._tasks: dict[SourceName, asyncio.Task[None]] = {}
        self._wanted: set[SourceName] = set()
        """Sources of which an event may have come since the last look for waiting ones."""

    def request(self, source: SourceName) -> None:
        """Start a sync for waiting events, without waiting for it."""
        self._wanted.add(source)
        if source not in self._tasks:
            self._tasks[source] = asyncio.create_task(self._start_all(source))

    async def stop(self) -> None:
        """Cancel syncs that have not been started."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _start_all(self, source: SourceName) -> None:
        try:
            while source in self._wanted:
                await asyncio.sleep(GATHER_SECONDS)
                self._wanted.discard(source)
                await self._start(source)
        finally:
            del self._tasks[source]

    async def _start(self, source: SourceName) -> None:
        try:
            events = await self._database.in_thread(lambda connection: waiting(connection, source))
            if events is None:
                return
            try:
                await self._launch(
                    source, partitions=events.partitions, requested_by=REQUESTED_BY, seconds=LAUNCH_TIMEOUT_SECONDS
                )
            except BusyError as error:
                if not error.merged:
                    raise
            await self._database.in_thread(lambda connection: mark_requested(connection, events))
        except (BusyError, NotRunningError, TemporaryError) as error:
            log.info("event_sync_not_started", source=source.value, reason=str(error))
