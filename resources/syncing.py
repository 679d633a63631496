"""The life of one sync of one source: its lock, job row and counts, and the stores that the stages work on.

A job is created before its run (`create_job`), so that the caller has an id at once. The process that does the work holds a
Postgres advisory lock of the source for as long as it lives: a job marked as running while its lock is free belongs to a
process that died, and the next sync replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg
import structlog

from resources.alerts import alert
from resources.core.domain import STAGES, SourceName
from resources.core.errors import BusyError, ServiceUnavailableError
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources import label, names
from resources.stores.damage import explained
from resources.stores.postgres import Connection, connect, session
from sql import queries

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from resources.core.ports import Embedder
    from resources.stores.blobs import Blobs
    from resources.stores.lake import Lake

LAUNCH_SECONDS = 120
"""A job that no process has claimed for this long is considered lost; starting a Dagster run takes 3-10 s."""
ORPHAN_SECONDS = 10
"""The same if no process is launching the job and none has received a Dagster run of it: what created it has failed."""
WAIT_SECONDS = 3600
HEARTBEAT_SECONDS = 1.0
CALL_SECONDS = 12.0
"""Longest wait for Postgres when creating or ending a job, because a caller is waiting."""
FAILED_DOCUMENTS = 0.05
FAILED_RETRIES = 0.1
FEW_RETRIES = 10
"""With fewer retries than this, the failure rate is not meaningful."""
FAILURES_IN_A_ROW = 3

jobs = queries("registry")
log = structlog.get_logger("sync")


@dataclass(frozen=True, slots=True)
class CreatedJob:
    """A job row that was just created."""

    job_id: str
    started_at: datetime


@dataclass(slots=True)
class Counts:
    """Documents that a sync updated, skipped, deleted or failed on, and the chunks it embedded."""

    synced: int = 0
    skipped: int = 0
    deleted: int = 0
    failed: int = 0
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


def _lock_key(source: SourceName) -> str:
    return f"concordance.sync.{source.value}"


def _launch_key(job_id: str) -> str:
    return f"concordance.launch.{job_id}"


def _is_held(connection: Connection, key: str) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s)) AS free", (key,)).fetchone()
    if row is not None and row["free"]:
        connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (key,))
        return False
    return True


def _is_lost(connection: Connection, running: dict[str, Any]) -> bool:
    """Return True if no process will claim a job that is still unclaimed. Call it when no process holds the source's lock."""
    if running["age"] > LAUNCH_SECONDS:
        return True
    if running["age"] < ORPHAN_SECONDS or _is_held(connection, _launch_key(running["job_id"])):
        return False
    try:
        return jobs.launched_run(connection, job_id=running["job_id"]) is None
    except psycopg.errors.UndefinedTable:  # Dagster has never run on this database
        return True


def create_job(
    dsn: str, source: SourceName, *, partitions: Sequence[str] | None, full: bool, requested_by: str
) -> CreatedJob:
    """Insert a running job. Raises `BusyError` with the running job's id unless the process that ran it has died."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        for _ in range(3):
            row = jobs.insert_job(
                connection,
                source=source.value,
                partitions=list(partitions) if partitions else None,
                full_sync=full,
                requested_by=requested_by,
            )
            if row is not None:
                return CreatedJob(job_id=row["job_id"], started_at=row["started_at"])
            running = jobs.running_job(connection, source=source.value)
            if running is None:
                continue
            died = running["claimed_at"] is not None
            # a job whose process is waiting for the lock is not lost, however long that takes
            if _is_held(connection, _lock_key(source)) or not (died or _is_lost(connection, running)):
                raise BusyError(f"A sync of {source.value} is already running.", running["job_id"])
            why = "The process that ran this sync died." if died else "No process started this sync."
            jobs.finish_job(connection, job_id=running["job_id"], status="failed", error_message=why)
            log.warning("sync_reclaimed", job_id=running["job_id"], reason=why)
    raise ServiceUnavailableError(f"The state of the sync of {source.value} keeps changing; try again.")


@contextmanager
def launching(dsn: str, job_id: str) -> Generator[None]:
    """Hold the job's launch lock, which shows other processes that the job's run is still being launched.

    Raises `ServiceUnavailableError`.
    """
    connection = connect(dsn, autocommit=True)
    try:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (_launch_key(job_id),))
        yield
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering: {str(error).strip()}") from error
    finally:
        connection.close()


def end_job(dsn: str, job_id: str, error: str | None) -> None:
    """Close a job that never reached a process, or whose process failed outside its stages."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        status = "failed" if error else "success"
        jobs.finish_job(connection, job_id=job_id, status=status, error_message=error)


@dataclass
class SyncRun:
    """One sync in this process. Made by `open_sync`; stages get everything they need from it."""

    settings: Settings
    source: SourceName
    job_id: str
    partitions: list[str] | None
    full: bool
    connection: Connection
    counts: Counts = field(default_factory=Counts)
    touched: set[str] = field(default_factory=set[str])
    """Partitions in which anything changed in this run."""
    planned: set[str] = field(default_factory=set[str])
    """Stages that this run is supposed to complete; a run that ends before one of them has failed."""
    completed: set[str] = field(default_factory=set[str])
    error: str | None = None
    held: int = 0
    """Deletions that wait for approval."""
    tally: Tally = field(default_factory=Tally)
    """Repeated fetches of this run."""
    relist: bool = False
    """If True, list from the beginning instead of from the cursor; content with an unchanged version is still not fetched."""
    deferred: set[str] = field(default_factory=set[str])
    """Content keys that this run left to the next one to parse."""
    _told: float = 0.0

    @cached_property
    def lake(self) -> Lake:
        """The lake's tables."""
        from resources.stores.lake import Lake  # polars and Arrow: slow to import

        return Lake(self.settings.lake_address)

    @cached_property
    def blobs(self) -> Blobs:
        """Content-addressed bytes."""
        from resources.stores.blobs import Blobs

        return Blobs(self.settings.lake_address)

    @cached_property
    def qdrant(self) -> QdrantClient:
        """A client of the vector index."""
        from resources.stores.qdrant import client  # 0.5 s of import that only indexing needs

        return client(self.settings)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding model in the settings; indexing uses the collection's own model (`assets.index.targets`)."""
        from resources.embedding import embedder  # loads the model

        return embedder(self.settings)

    def next_sequence(self, reserve: int) -> int:
        """Reserve ascending numbers for change rows in the lake and return the first."""
        return int(jobs.next_sequence(self.connection, clock_ns=time.time_ns(), reserve=reserve))

    def progress(self, stage: str, *, force: bool = False) -> None:
        """Write stage and counts to the job row, at most once a second; does nothing without a job."""
        if not self.job_id:
            return
        now = time.monotonic()
        if force or now - self._told >= HEARTBEAT_SECONDS:
            self._told = now
            counts = self.counts
            jobs.progress(
                self.connection,
                job_id=self.job_id,
                stage=stage,
                synced=counts.synced,
                skipped=counts.skipped,
                deleted=counts.deleted,
                failed=counts.failed,
                embedded=counts.embedded,
                tokens=counts.tokens,
                cost_usd=counts.cost_usd,
            )

    def fault(self, source_id: str, stage: str, reason: str, *, skipped: bool) -> None:
        """Record that one document was skipped or failed; the sync continues."""
        outcome = "skipped" if skipped else "failed"
        if skipped:
            self.counts.skipped += 1
        else:
            self.counts.failed += 1
        jobs.record_error(
            self.connection, job_id=self.job_id, source_id=source_id, stage=stage, reason=reason, outcome=outcome
        )
        log.info("document_" + outcome, job_id=self.job_id, source_id=source_id, stage=stage, reason=reason)

    def faults(self) -> list[dict[str, Any]]:
        """Return the documents that this sync skipped or failed on."""
        return list(jobs.errors(self.connection, job_id=self.job_id))

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Run one stage: write progress at both ends; record an error for the job row and re-raise it."""
        started = time.perf_counter()
        self.progress(name, force=True)
        try:
            yield
        except BaseException as error:
            found = explained(error, self.settings)
            if self.error is None:
                self.error = str(found) if found is not None else f"{type(error).__name__} in stage {name}"
            log.exception("stage_failed", job_id=self.job_id, stage=name)
            if found is not None and found is not error:
                raise found from error
            raise
        self.completed.add(name)
        self.progress(name, force=True)
        log.info(
            "stage_finished",
            job_id=self.job_id,
            source=self.source.value,
            stage=name,
            duration_ms=round((time.perf_counter() - started) * 1000),
        )


@contextmanager
def open_sync(
    settings: Settings,
    source: SourceName,
    *,
    job_id: str | None = None,
    partitions: Sequence[str] | None = None,
    full: bool = False,
    run_id: str | None = None,
    requested_by: str = "schedule",
) -> Generator[SyncRun]:
    """Claim the source, run the block, close the job.

    Without `job_id` a job is created; with it, partitions and `full` come from its row. Waits for another process that is working
    on the source (at most an hour). Raises `BusyError` or `ServiceUnavailableError`.
    """
    dsn = settings.postgres_dsn
    connection = connect(dsn, autocommit=True)
    try:
        job_id = _claim(connection, dsn, source, job_id, partitions, full, requested_by)
        job = jobs.job(connection, job_id=job_id)
        jobs.claim_job(connection, job_id=job_id, run_id=run_id)
        run = SyncRun(
            settings=settings,
            source=source,
            job_id=job_id,
            partitions=job["partitions"],
            full=job["full_sync"],
            connection=connection,
        )
        log.info("sync_started", job_id=job_id, source=source.value, run_id=run_id, requested_by=requested_by)
        try:
            yield run
        except BaseException as error:
            found = explained(error, settings)
            if run.error is None:
                run.error = str(found) if found is not None else type(error).__name__
            if found is not None and found is not error:
                raise found from error
            raise
        finally:
            _close(run, dsn)
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering during the sync: {str(error).strip()}") from error
    finally:
        connection.close()


def _claim(
    connection: Connection,
    dsn: str,
    source: SourceName,
    job_id: str | None,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
) -> str:
    """Take the source's lock, then the given job or a new one; a job about to start elsewhere takes precedence."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        _lock(connection, source)
        if job_id is not None:
            return job_id
        running = jobs.running_job(connection, source=source.value)
        if running is not None and (running["claimed_at"] is not None or _is_lost(connection, running)):
            died = "The process that ran this sync died." if running["claimed_at"] else "No process started this sync."
            jobs.finish_job(connection, job_id=running["job_id"], status="failed", error_message=died)
        try:
            return create_job(dsn, source, partitions=partitions, full=full, requested_by=requested_by).job_id
        except BusyError:
            if time.monotonic() > deadline:
                raise
            connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (_lock_key(source),))
            time.sleep(1)


def unclaimed(settings: Settings, source: SourceName, connection: Connection) -> SyncRun:
    """Return a run without a job and without the source's lock: for work on the lake that may run alongside syncs."""
    return SyncRun(settings=settings, source=source, job_id="", partitions=None, full=False, connection=connection)


def stored_sources(connection: Connection) -> list[SourceName]:
    """Return the installed sources and those of which something is stored although their package is gone, in a fixed order."""
    stored = [SourceName(row["source"]) for row in queries("registry").synced_sources(connection)]
    return list(dict.fromkeys([*names(), *stored]))


@contextmanager
def hold_all(settings: Settings) -> Generator[list[SyncRun]]:
    """Hold the locks of all sources, as `hold` does for one."""
    with session(settings.postgres_dsn) as connection:
        sources = stored_sources(connection)
    with ExitStack() as stack:
        yield [stack.enter_context(hold(settings, source)) for source in sources]


@contextmanager
def hold(settings: Settings, source: SourceName) -> Generator[SyncRun]:
    """Hold a source's lock for the block, without a job: for inspecting stores that nothing may change meanwhile.

    The yielded run has the stores but no job row, so it must not record faults of documents. Raises `BusyError` after an hour.
    """
    connection = connect(settings.postgres_dsn, autocommit=True)
    try:
        _lock(connection, source)
        yield unclaimed(settings, source, connection)
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering: {str(error).strip()}") from error
    finally:
        connection.close()


def _lock(connection: Connection, source: SourceName) -> None:
    connection.execute("SELECT set_config('lock_timeout', %s, FALSE)", (f"{WAIT_SECONDS}s",))
    try:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (_lock_key(source),))
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(f"Another sync of {source.value} did not end within an hour.", "") from error
    connection.execute("SELECT set_config('lock_timeout', '0', FALSE)")


def _close(run: SyncRun, dsn: str) -> None:
    """Write the end of the job; a broken connection is replaced, and if the server is down the next sync closes the row."""
    missing = [stage for stage in STAGES if stage in run.planned - run.completed]
    if run.error is None and missing:
        run.error = f"The run ended before the stage {missing[0]}; its log in the Dagster UI says why."
    status = "failed" if run.error else "success"
    if run.error is not None:
        run.error = run.error.replace("\x00", "\ufffd")  # Postgres has no NUL in a text; the job must end all the same
    try:
        if run.connection.broken or run.connection.closed:
            end_job(dsn, run.job_id, run.error)
        else:
            run.progress("done" if run.error is None else "failed", force=True)
            jobs.finish_job(run.connection, job_id=run.job_id, status=status, error_message=run.error)
        _alert_if_unhealthy(run, dsn)
    except (psycopg.Error, ServiceUnavailableError) as error:
        log.error("sync_close_failed", job_id=run.job_id, reason=str(error))
    counts = run.counts
    log.info(
        "sync_finished",
        job_id=run.job_id,
        source=run.source.value,
        status=status,
        synced=counts.synced,
        skipped=counts.skipped,
        deleted=counts.deleted,
        failed=counts.failed,
        embedded=counts.embedded,
    )


def _alert_if_unhealthy(run: SyncRun, dsn: str) -> None:
    """Send an alert if documents, retries or consecutive failures exceed their limits."""
    counts, source = run.counts, label(run.source)
    documents = counts.synced + counts.failed
    if counts.failed > FAILED_DOCUMENTS * documents:
        alert(run.settings, f"{counts.failed} of {documents} documents of {source} failed (job {run.job_id}).")
    with session(dsn, autocommit=True) as connection:
        job = jobs.job(connection, job_id=run.job_id)
        row = jobs.failures_in_a_row(connection, source=run.source.value)
    if job["retries"] >= FEW_RETRIES and job["retries_failed"] > FAILED_RETRIES * job["retries"]:
        alert(
            run.settings,
            f"{job['retries_failed']} of {job['retries']} retried calls to {source} failed for good.",
        )
    if row["failures"] >= FAILURES_IN_A_ROW and row["failures"] % FAILURES_IN_A_ROW == 0:
        alert(
            run.settings,
            f"{row['failures']} consecutive syncs of {source} have failed, the last one with: {run.error}",
        )
