"""Writes that no answer waits for (caches, kept answers, conversations): rows enter a bounded queue, one task writes them in batches.

When the queue is full or Postgres is down, rows are dropped and counted: a search never blocks or fails for them. The audit log has
a way of its own, `serving.audit`. Since the cache grows only by what is written here, what expired in it is removed here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import psycopg

from resources.core.errors import TemporaryError
from resources.logging import logger
from serving.database import Database
from serving.metrics import Metrics

QUEUE_ROWS = 2000
BATCH_ROWS = 200
GATHER_SECONDS = 0.1
"""The writer waits so long for more rows: one transaction for many takes a fraction of what their own would take from the next searches."""
EXPIRE_SECONDS = 300.0
"""Expired rows of the cache are removed with the first write and then at most this often."""

log = logger("serving")


class Background:
    """The queue and its one writer."""

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        self._queue: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue(QUEUE_ROWS)
        self._task: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()
        self._flushes = 0
        self._next_expiry = 0.0

    def put(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Queue a write of `sql/serving/<statement>.sql`, which also gets `put_at`, the time of this call; never waits."""
        row = {name: storable(value) for name, value in parameters.items()}
        try:
            self._queue.put_nowait((statement, row | {"put_at": datetime.now(UTC)}))
        except asyncio.QueueFull:
            self._metrics.dropped_writes.labels(statement).inc()

    def start(self) -> None:
        """Begin writing."""
        self._task = asyncio.create_task(self._run(), name="background-writes")

    async def flush(self) -> None:
        """Wait until all that was queued so far is written or dropped."""
        self._flushes += 1
        self._hurried.set()
        try:
            await self._queue.join()
        finally:
            self._flushes -= 1
            if not self._flushes:
                self._hurried.clear()

    async def stop(self, seconds: float = 3.0) -> None:
        """Write what is queued, for at most `seconds`, then stop."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), seconds)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurried.wait(), GATHER_SECONDS)
            while len(batch) < BATCH_ROWS and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            by_statement: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
            for name, parameters in batch:
                by_statement[name].append(parameters)
            try:
                for name, rows in by_statement.items():
                    await self._write(name, rows)
                if time.monotonic() >= self._next_expiry:
                    self._next_expiry = time.monotonic() + EXPIRE_SECONDS
                    await self._write("cache_expire", [{}])
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def _write(self, name: str, rows: list[Mapping[str, Any]]) -> None:
        try:
            await self._database.execute_many(name, rows)
        except (TemporaryError, psycopg.Error) as error:
            self._metrics.dropped_writes.labels(name).inc(len(rows))
            log.warning("background_write_failed", statement=name, rows=len(rows), error=str(error))


def storable(value: Any) -> Any:
    """Return a value without NUL, which no text of Postgres can hold: nobody keeps a search out of the audit with it."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").replace("\\u0000", "\\ufffd")  # as it is, and as JSON writes it
    if isinstance(value, list):
        return [storable(one) for one in cast("list[Any]", value)]
    return value
