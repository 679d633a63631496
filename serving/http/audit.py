"""The audit log: each event is recorded before its response is sent, and written to `audit_log` exactly once.

An event is first appended to this process's spool file below HOME, so that neither a kill nor an outage of Postgres loses it; a task
then writes spool files to Postgres in batches and deletes them. While Postgres is down, the response waits until the event is synced to
disk. Events have unique keys, so writing a file twice adds nothing. Files of killed processes are adopted by others. Each process keeps
a file whose space is allocated in advance, so that searches go on when the disk is full. If an event can be stored neither on disk nor
in Postgres, the request is rejected, and the event is logged and counted.
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
from typing import Any

import msgspec
import psycopg

from resources.core.errors import OverloadedError, ServiceUnavailableError, TemporaryError
from resources.logging import logger
from resources.servers.shared import Progress, Shared
from serving.http.background import cancel, without_nul
from serving.http.database import Database
from serving.http.metrics import Metrics

MAX_WAITING = 2000
"""Events that may be unwritten while Postgres is up; beyond it, requests wait."""
MAX_SPOOLED = 500_000
"""Events that one process keeps on disk while Postgres is down, some hundreds of bytes each; beyond it, requests are refused."""
WAIT_SECONDS = 5.0
BATCH_ROWS = 200
GATHER_SECONDS = 0.5
"""How long the writer waits for more events, to write many in one transaction."""
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0
ADOPT_SECONDS = 10.0
"""Between two searches for files of processes that ended."""
SPOOL_BYTES = 4 * 1024 * 1024
RESERVE_BYTES = 1024 * 1024
"""Space that is allocated in advance, for about 2,500 events."""
SUFFIX, RESERVED, UNLOCKED = ".jsonl", ".reserve", ".new"

log = logger("serving")


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `audit_log`; `detail` is JSON."""

    email: str
    action: str
    query_id: str | None = None
    query: str | None = None
    doc_ids: list[str] = []
    detail: str | None = None
    event_key: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    put_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    def row(self) -> dict[str, Any]:
        """Return the parameters of `audit_insert`."""
        return {name: without_nul(value) for name, value in msgspec.structs.asdict(self).items()}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AuditEvent)


class Spool:
    """A file of events, locked by the process that owns it."""

    def __init__(self, path: Path, handle: int, *, reserved: bool = False) -> None:
        """With `reserved`, its space is allocated and nothing is written yet."""
        self.path = path
        self.bytes = 0 if reserved else os.fstat(handle).st_size
        self._handle = handle
        self._reserved = reserved

    @classmethod
    def new(cls, folder: Path) -> Spool:
        """Create a file. Raises `OSError`."""
        return cls._made(folder, SUFFIX, 0)

    @classmethod
    def reserve(cls, folder: Path) -> Spool:
        """Return an empty file whose space is allocated: one that a killed process left, or a new one. Raises `OSError`."""
        for path in sorted(folder.glob(f"*{RESERVED}")):
            if (handle := _locked(path)) is not None:
                return cls(path, handle, reserved=True)
        return cls._made(folder, RESERVED, RESERVE_BYTES)

    @classmethod
    def _made(cls, folder: Path, suffix: str, allocated: int) -> Spool:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{uuid.uuid4()}{suffix}"
        unlocked = path.with_suffix(UNLOCKED)  # under its own name, another process could adopt it before it is locked
        handle = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if allocated:
                os.posix_fallocate(handle, 0, allocated)
            unlocked.rename(path)
        except OSError:
            unlocked.unlink(missing_ok=True)
            os.close(handle)
            raise
        return cls(path, handle, reserved=bool(allocated))

    @classmethod
    def adopted(cls, path: Path) -> Spool | None:
        """Take over the file of a process that ended. Returns None if its owner is alive or the file is gone."""
        handle = _locked(path)
        return None if handle is None else cls(path, handle)

    @property
    def has_room(self) -> bool:
        """True if more events fit into space that is allocated."""
        return self._reserved and self.bytes < RESERVE_BYTES

    def use(self) -> None:
        """Give a reserved file the name under which others adopt it. Raises `OSError`."""
        self.path = self.path.rename(self.path.with_suffix(SUFFIX))

    def append(self, event: AuditEvent) -> None:
        """Append an event, completely or not at all. Raises `OSError`."""
        line = _encoder.encode(event) + b"\n"
        written = os.pwrite(self._handle, line, self.bytes)
        if written < len(line):
            os.ftruncate(self._handle, self.bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.bytes += written

    def sync(self) -> None:
        os.fsync(self._handle)

    def events(self) -> Iterator[AuditEvent]:
        """Yield the events. A line truncated by a crash belongs to a request that was never answered."""
        with self.path.open("rb") as file:
            for line in file:
                if not (text := line.rstrip(b"\0")):
                    continue  # allocated and not written
                try:
                    yield _decoder.decode(text)
                except msgspec.MsgspecError:
                    log.warning("audit_line_incomplete", file=self.path.name, bytes=len(text))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release the file, which another process may then adopt."""
        os.close(self._handle)


def _locked(path: Path) -> int | None:
    """Open and lock a file. Returns None if another process has locked it or it is gone."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    if not path.exists():  # its owner has written and removed it, or taken it into use
        os.close(handle)
        return None
    return handle


class Audit:
    """Records events and writes them to Postgres in the background."""

    def __init__(self, folder: Path, database: Database, metrics: Metrics, shared: Shared) -> None:
        self._folder = folder
        self._database = database
        self._waiting_gauge = metrics.audit_waiting
        self._missing = metrics.audit_missing
        self._progress = Progress(shared, "audit")
        self._open: Spool | None = None
        self._reserve: Spool | None = None
        self._full: list[Spool] = []
        self._waiting = 0
        self._recorded = asyncio.Event()
        self._flush_requested = asyncio.Event()
        self._written = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._next_adoption = 0.0

    async def record(self, event: AuditEvent) -> None:
        """Store an event so that it survives a kill of this process and, while Postgres is down, a power cut.

        Raises `OverloadedError` when Postgres accepts events more slowly than they come, and `ServiceUnavailableError` when
        the event can be stored neither on disk nor in Postgres. What it is about may have happened already, so it is logged then.
        """
        try:
            await self._record(event)
        except TemporaryError as error:
            self._missing.inc()
            log.error(
                "audit_event_missing",
                recorded=event.action,
                event_key=event.event_key,
                email=event.email,
                query_id=event.query_id,
                doc_ids=event.doc_ids,
                put_at=event.put_at,
                error=error,
            )
            raise

    async def _record(self, event: AuditEvent) -> None:
        if self._waiting >= MAX_WAITING and not self._database.watch.down:
            await self._wait_for_room()
        if self._waiting >= MAX_SPOOLED:
            raise OverloadedError(
                "The audit log has no room until Postgres answers again. Try again later.", WAIT_SECONDS
            )
        try:
            spool = self._append(event)
            self._count(1)
            self._recorded.set()
            if self._database.watch.down:
                await asyncio.to_thread(spool.sync)
        except OSError as error:
            log.error("audit_spool_failed", error=str(error))
            await self._write_directly(event, error)

    def start(self) -> None:
        self._keep_reserve()
        self._recorded.set()
        self._task = asyncio.create_task(self._run(), name="audit-writes")

    async def flush(self) -> None:
        """Wait until every event recorded so far is in Postgres."""
        self._flush_requested.set()
        try:
            async with self._written:
                await self._written.wait_for(lambda: self._waiting == 0)
        finally:
            self._flush_requested.clear()

    async def settle(self) -> None:
        """Wait until the events that all processes of the service have recorded so far are in Postgres."""
        await self.flush()
        await self._progress.others()

    async def stop(self, seconds: float = 3.0) -> None:
        """Write events for at most `seconds`; the rest remains on disk for the next process."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.flush(), seconds)
        await cancel(self._task)
        for spool in [*self._full, *([self._open] if self._open else [])]:
            spool.close()
        if self._reserve is not None:
            self._reserve.remove()
        self._full, self._open, self._reserve = [], None, None

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS), self._written:
                await self._written.wait_for(lambda: self._waiting < MAX_WAITING)
        except TimeoutError:
            raise OverloadedError("The audit log is behind. Try again shortly.", WAIT_SECONDS) from None

    async def _write_directly(self, event: AuditEvent, fault: OSError) -> None:
        try:
            await self._database.execute_many("audit_insert", [event.row()])
        except (TemporaryError, psycopg.Error) as error:
            log.error("audit_event_not_recorded", spool=str(fault), postgres=str(error))
            raise ServiceUnavailableError(
                "The request was refused because it cannot be recorded in the audit log. Try again shortly.",
                WAIT_SECONDS,
            ) from error

    def _append(self, event: AuditEvent) -> Spool:
        """Append an event to the open file, and on a full disk to the reserved one. Raises `OSError` once that is used up."""
        try:
            if self._open is None or self._open.bytes > SPOOL_BYTES:
                self._rotate()
                self._open = Spool.new(self._folder)
            self._open.append(event)
        except OSError as error:
            if self._reserve is not None:
                self._reserve.use()
                self._rotate()
                self._open, self._reserve = self._reserve, None
                log.error("audit_reserve_used", error=str(error))
            else:
                set_aside = next((spool for spool in self._full if spool.has_room), None)  # by the writer
                if set_aside is None:
                    raise
                self._rotate()
                self._full.remove(set_aside)
                self._open = set_aside
            self._open.append(event)
        return self._open

    def _keep_reserve(self) -> None:
        """Allocate space in advance, if the disk has room."""
        if self._reserve is None:
            try:
                self._reserve = Spool.reserve(self._folder)
            except OSError as error:
                log.warning("audit_reserve_missing", error=str(error))

    def _count(self, change: int) -> None:
        self._waiting += change
        (self._progress.queued if change > 0 else self._progress.done)(abs(change))
        self._waiting_gauge.set(self._waiting)

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
                    await self._flush_requested.wait()
            self._recorded.clear()
            if self._database.watch.down:
                await asyncio.sleep(RETRY_SECONDS)
                self._recorded.set()
                continue
            try:
                self._rotate()
                await self._adopt()
                rejected = [await self._write(spool) for spool in list(self._full)]
                if any(rejected):
                    raise ServiceUnavailableError(f"Postgres rejects {sum(rejected)} events.")
                pause = RETRY_SECONDS
            except (TemporaryError, psycopg.Error, OSError) as error:
                log.warning("audit_write_failed", error=str(error), waiting=self._waiting)
                await asyncio.sleep(pause)
                pause = min(MAX_RETRY_SECONDS, pause * 2)
                self._recorded.set()

    async def _adopt(self) -> None:
        if time.monotonic() < self._next_adoption:
            return
        self._next_adoption = time.monotonic() + ADOPT_SECONDS
        self._keep_reserve()
        known = {spool.path for spool in self._full}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            if path not in known and (spool := Spool.adopted(path)) is not None:
                self._count(sum(1 for _ in spool.events()))
                self._full.append(spool)

    async def _write(self, spool: Spool) -> int:
        """Write a file's events and delete the file. If Postgres rejects some, keep it for a retry and return their number."""
        size, rejected = spool.bytes, list[AuditEvent]()
        events = list(spool.events())
        for start in range(0, len(events), BATCH_ROWS):
            batch = events[start : start + BATCH_ROWS]
            try:
                await self._database.execute_many("audit_insert", [event.row() for event in batch])
            except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError):
                rejected += await self._write_one_by_one(batch)
        if rejected:
            return len(rejected)
        if spool.bytes > size:
            return 0  # events were appended on a full disk: all are written again, which adds only those
        if spool is self._open:
            self._open = None
        else:
            self._full.remove(spool)
        spool.remove()
        async with self._written:
            self._count(-len(events))
            self._written.notify_all()
        return 0

    async def _write_one_by_one(self, batch: Sequence[AuditEvent]) -> list[AuditEvent]:
        rejected: list[AuditEvent] = []
        for event in batch:
            try:
                await self._database.execute_many("audit_insert", [event.row()])
            except psycopg.Error as error:
                log.error("audit_event_rejected", event_key=event.event_key, error=str(error).strip())
                rejected.append(event)
        return rejected
