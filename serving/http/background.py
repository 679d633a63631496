"""Background writes of the answer cache, answers and conversations: one task writes rows of a bounded queue in batches.

When the queue is full or Postgres is down, rows are dropped and counted, so a search never blocks or fails for them. The audit log,
which must not lose rows, has its own writer in `serving.http.audit`. The cache grows only here, so expired rows are deleted here too.
"""

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
from resources.servers.shared import Progress, Shared
from serving.http.database import Database
from serving.http.metrics import Metrics
from sql.serving import WebQueue

QUEUE_ROWS = 2000
BATCH_ROWS = 200
GATHER_SECONDS = 0.1
"""How long the writer waits for more rows: one transaction for many slows searches far less than one for each."""
EXPIRE_SECONDS = 300.0
"""Expired cache rows are deleted with the first write, and then at most this often."""


log = logger("serving")


class Background:
    """A queue of writes and the task that performs them."""

    def __init__(self, database: Database, metrics: Metrics, shared: Shared) -> None:
        self._database = database
        self._metrics = metrics
        for name in WebQueue.declared:  # at 0: Prometheus takes no first value for a rise
            metrics.dropped_writes.labels(name)
        self._queue: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue(QUEUE_ROWS)
        self._progress = Progress(shared, "background writes")
        self._task: asyncio.Task[None] | None = None
        self._flush_requested = asyncio.Event()
        self._flushes = 0
        self._next_expiry = 0.0

    def put(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Queue a run of `sql/serving/<statement>.sql`, with the current time added as parameter `put_at`. Never waits."""
        row = {name: without_nul(value) for name, value in parameters.items()}
        try:
            self._queue.put_nowait((statement, row | {"put_at": datetime.now(UTC)}))
            self._progress.queued()
        except asyncio.QueueFull:
            self._metrics.dropped_writes.labels(statement).inc()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="background-writes")

    async def flush(self) -> None:
        """Wait until every row queued so far is written or dropped."""
        self._flushes += 1
        self._flush_requested.set()
        try:
            await self._queue.join()
        finally:
            self._flushes -= 1
            if not self._flushes:
                self._flush_requested.clear()

    async def settle(self) -> None:
        """Wait until the rows that all processes of the service have queued so far are written or dropped."""
        await self.flush()
        await self._progress.others()

    async def stop(self, seconds: float = 3.0) -> None:
        """Write queued rows for at most `seconds`, then stop."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.flush(), seconds)
        await cancel(self._task)

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._flush_requested.wait(), GATHER_SECONDS)
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
                    await self._write("answer_cache_expire", [{}])
            finally:
                self._progress.done(len(batch))
                for _ in batch:
                    self._queue.task_done()

    async def _write(self, name: str, rows: list[Mapping[str, Any]]) -> None:
        try:
            await self._database.execute_many(name, rows)
        except (TemporaryError, psycopg.Error) as error:
            self._metrics.dropped_writes.labels(name).inc(len(rows))
            log.warning("background_write_failed", statement=name, rows=len(rows), error=str(error))


def without_nul(value: Any) -> Any:
    """Replace NUL, which Postgres text cannot hold, so that a search containing it is still audited."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").replace("\\u0000", "\\ufffd")  # the character, and its JSON escape
    if isinstance(value, list):
        return [without_nul(item) for item in cast("list[Any]", value)]
    return value


async def cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and wait for it to end."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
