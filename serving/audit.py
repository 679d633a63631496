"""The audit log: an event enters before its answer leaves; a row in `audit_log` follows, exactly once and never dropped.

Every event is first appended to a file of this process's own below HOME, so that neither a kill nor an outage of Postgres loses it;
a task then writes files to Postgres in batches and removes them. While Postgres is down an answer waits until its event is on the
disk. Each event has a key of its own, so that a file which was written twice adds nothing. Files that killed processes left are taken
over. Where an event can be kept neither on the disk nor in Postgres, the request is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psycopg

from resources.core.errors import OverloadedError, ServiceUnavailableError, TemporaryError
from resources.logging import logger
from serving.background import storable
from serving.database import Database
from serving.metrics import Metrics

MAX_WAITING = 2000
"""Events that may wait for a Postgres that answers; beyond them, requests wait."""
WAIT_SECONDS = 5.0
BATCH_ROWS = 200
GATHER_SECONDS = 0.1
"""The writer waits so long for more events: one transaction for many."""
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0
ADOPT_SECONDS = 10.0
"""Between two looks for files of processes that ended."""
SPOOL_BYTES = 4 * 1024 * 1024
SUFFIX = ".jsonl"

log = logger("serving")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what, as a row of `audit_log`; `detail` is JSON."""

    email: str
    action: str
    query_id: str | None = None
    query: str | None = None
    doc_ids: list[str] = []
    detail: str | None = None
    event_key: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    put_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    def row(self) -> dict[str, object]:
        """Return the parameters of `audit_insert`."""
        return {name: storable(value) for name, value in msgspec.structs.asdict(self).items()}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


class Spool:
    """One file of events, locked for as long as a process holds it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.bytes = os.fstat(handle).st_size

    @classmethod
    def new(cls, folder: Path) -> Spool:
        """Make a file. Raises `OSError`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{uuid.uuid4()}{SUFFIX}"
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return cls(path, handle)

    @classmethod
    def adopted(cls, path: Path) -> Spool | None:
        """Return the file of a process that ended; None when its owner lives or it is gone."""
        try:
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return cls(path, handle)

    def append(self, event: Event) -> None:
        """Add an event, whole or not at all. Raises `OSError`."""
        line = _encoder.encode(event) + b"\n"
        written = os.write(self._handle, line)
        if written < len(line):
            os.ftruncate(self._handle, self.bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.bytes += written

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        os.fsync(self._handle)

    def events(self) -> Iterator[Event]:
        """Yield the events; a line that a crash cut short belongs to a request that was never answered."""
        with self.path.open("rb") as file:
            for line in file:
                try:
                    yield _decoder.decode(line)
                except msgspec.MsgspecError:
                    log.warning("audit_line_incomplete", file=self.path.name, bytes=len(line))

    def remove(self) -> None:
        """Remove the file, all of whose events are in Postgres."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave the file to whoever looks next."""
        os.close(self._handle)


class Audit:
    """Takes events, and writes them to Postgres in the background."""

    def __init__(self, folder: Path, database: Database, metrics: Metrics) -> None:
        self._folder = folder
        self._database = database
        self._waiting_figure = metrics.audit_waiting
        self._open: Spool | None = None
        self._full: list[Spool] = []
        self._waiting = 0
        self._recorded = asyncio.Event()
        self._hurried = asyncio.Event()
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._next_look = 0.0

    async def record(self, event: Event) -> None:
        """Keep an event. When this returns, no kill of this process loses it, and with Postgres down no power cut does.

        Raises `OverloadedError` when Postgres takes events more slowly than they come, and `ServiceUnavailableError` when
        the event can be kept nowhere.
        """
        if self._waiting >= MAX_WAITING and not self._database.watch.down:
            await self._wait_for_room()
        try:
            if self._open is None or self._open.bytes > SPOOL_BYTES:
                self._rotate()
                self._open = Spool.new(self._folder)
            spool = self._open
            spool.append(event)
            self._count(1)
            self._recorded.set()
            if self._database.watch.down:
                await asyncio.to_thread(spool.sync)
        except OSError as error:
            log.error("audit_spool_failed", error=str(error))
            await self._directly(event, error)

    def start(self) -> None:
        """Begin writing."""
        self._recorded.set()
        self._task = asyncio.create_task(self._run(), name="audit-writes")

    async def flush(self) -> None:
        """Wait until every event so far is in Postgres."""
        self._hurried.set()
        try:
            async with self._moved:
                await self._moved.wait_for(lambda: self._waiting == 0)
        finally:
            self._hurried.clear()

    async def stop(self, seconds: float = 3.0) -> None:
        """Write what waits, for at most `seconds`; the rest stays on the disk for the next process."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.flush(), seconds)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for spool in [*self._full, *([self._open] if self._open else [])]:
            spool.close()
        self._full, self._open = [], None

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS), self._moved:
                await self._moved.wait_for(lambda: self._waiting < MAX_WAITING)
        except TimeoutError:
            raise OverloadedError("The audit log is behind. Try again shortly.", WAIT_SECONDS) from None

    async def _directly(self, event: Event, fault: OSError) -> None:
        try:
            await self._database.execute_many("audit_insert", [event.row()])
        except (TemporaryError, psycopg.Error) as error:
            log.error("audit_failed", spool=str(fault), postgres=str(error))
            raise ServiceUnavailableError(
                "This request cannot be recorded in the audit log, so it is not answered. Try again shortly.",
                WAIT_SECONDS,
            ) from error

    def _count(self, change: int) -> None:
        self._waiting += change
        self._waiting_figure.set(self._waiting)

    def _rotate(self) -> None:
        if self._open is not None:
            self._full.append(self._open)
            self._open = None

    async def _run(self) -> None:
        pause = RETRY_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ADOPT_SECONDS):
                    await self._recorded.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._hurried.wait()
            self._recorded.clear()
            if self._database.watch.down:
                await asyncio.sleep(RETRY_SECONDS)
                self._recorded.set()
                continue
            try:
                self._rotate()
                await self._adopt()
                refused = [await self._write(spool) for spool in list(self._full)]
                if any(refused):
                    raise ServiceUnavailableError(f"Postgres refuses {sum(refused)} events.")
                pause = RETRY_SECONDS
            except (TemporaryError, psycopg.Error, OSError) as error:
                log.warning("audit_write_failed", error=str(error), waiting=self._waiting)
                await asyncio.sleep(pause)
                pause = min(MAX_RETRY_SECONDS, pause * 2)
                self._recorded.set()

    async def _adopt(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + ADOPT_SECONDS
        ours = {spool.path for spool in self._full}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            if path not in ours and (spool := Spool.adopted(path)) is not None:
                self._count(sum(1 for _ in spool.events()))
                self._full.append(spool)

    async def _write(self, spool: Spool) -> int:
        """Write a file's events. Return how many of them Postgres refused; they stay in the file, to be tried again."""
        refused: list[Event] = []
        events = list(spool.events())
        for start in range(0, len(events), BATCH_ROWS):
            batch = events[start : start + BATCH_ROWS]
            try:
                await self._database.execute_many("audit_insert", [event.row() for event in batch])
            except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError):
                refused += await self._one_by_one(batch)
        if refused:
            return len(refused)
        self._full.remove(spool)
        spool.remove()
        async with self._moved:
            self._count(-len(events))
            self._moved.notify_all()
        return 0

    async def _one_by_one(self, batch: Sequence[Event]) -> list[Event]:
        refused: list[Event] = []
        for event in batch:
            try:
                await self._database.execute_many("audit_insert", [event.row()])
            except psycopg.Error as error:
                log.error("audit_event_refused", event_key=event.event_key, error=str(error).strip())
                refused.append(event)
        return refused
