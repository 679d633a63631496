"""The life of one sync of one source: claiming its job, progress, errors and the end.

A job is created before its run (`resources.syncs.jobs.create_job`), and `open_sync` claims it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

import psycopg
import structlog
from psycopg.types.json import Jsonb

from resources import tracing
from resources.core.domain import STAGES, SourceName, document_id
from resources.core.errors import AbortSyncError, ConcordanceError, ServiceUnavailableError
from resources.core.reasons import kind_of
from resources.core.retrying import Tally
from resources.core.texts import storable
from resources.settings import Settings
from resources.sources import stored
from resources.stores.clients import Stores
from resources.stores.damage import explained
from resources.stores.fenced import connect_fenced
from resources.stores.leases import REST, WHOLE
from resources.stores.postgres import said
from resources.syncs.claiming import claim_job
from resources.syncs.counts import StageResult, SyncCounts
from resources.syncs.jobs import UNKNOWN, end_job
from sql.people import MovedAddress
from sql.rows import JobError

HEARTBEAT_SECONDS = 1.0
ROWS = {"raw": "fetched", "parsed": "parsed", "chunked": "chunks", "embedded": "embedded", "indexed": "points"}
"""The count of each stage that says how many rows it wrote."""

log = structlog.get_logger("sync")


def reason_of(error: BaseException, stage: str | None = None) -> str:
    """Return the reason why a sync ended, as a sentence. Of errors that are not ours it quotes nothing: they may name documents."""
    if isinstance(error, ConcordanceError) and str(error).strip():
        return str(error)
    where = f"The stage {stage}" if stage else "The sync"
    if isinstance(error, Exception):
        return f"{where} ended with an unexpected error ({type(error).__name__}). The log of its run in Dagster says where."
    return f"{where} was stopped before its end: its run was terminated, or Concordance was stopped. The next sync continues there."


@dataclass
class SyncJob:
    """One sync in this process. Made by `open_sync`; without an id, work outside of a sync, whose progress is not recorded."""

    stores: Stores
    job_id: str = ""
    partitions: list[str] | None = None
    """The only partitions to process; None: all."""
    full: bool = False
    rest: bool = False
    """A sync of the whole source without the partitions that other syncs have."""
    runs: int = 1
    """Runs that may share the work of this sync; 1: this one does everything."""
    documents: list[str] | None = None
    """Ids of the only documents to process, without asking the source; None: all."""
    unembeddable: set[str] = field(default_factory=set[str])
    """Ids of documents with a text that the model of a collection under construction cannot embed, which are left out of it."""
    again: set[str] = field(default_factory=set[str])
    """Ids of the documents that this run indexes again, if their number is limited."""
    left: set[str] = field(default_factory=set[str])
    """Ids of those that it leaves to the next run."""
    rewriting: bool = False
    """It has had the entries of all its documents marked, to be written again."""
    remaining: str | None = None
    """How many it has left, as a sentence that names no document."""
    counts: SyncCounts = field(default_factory=SyncCounts)
    planned: set[str] = field(default_factory=set[str])
    """Stages that this sync is supposed to complete; one that ends before one of them has failed."""
    results: dict[str, StageResult] = field(default_factory=dict[str, StageResult])
    """Results of the stages so far."""
    completed: set[str] = field(default_factory=set[str])
    overlapped: bool = False
    """The first stage has run all of them; the others only return their results."""
    failures: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Errors of overlapping stages, raised by the stage that they belong to."""
    slow: set[str] = field(default_factory=set[str])
    """People one of whose files exceeded the time for parsing in this sync; their other files wait for the next one."""
    started_ns: int = field(default_factory=time.time_ns)
    """No change row that it writes to the lake has a lower number."""
    considerate: bool = False
    """Lower this process's priority before long work, for the rest of its life."""
    moved: frozenset[MovedAddress] = frozenset()
    """Addresses of Google's directory from which documents were taken before the source was read."""
    error: str | None = None
    tally: Tally = field(default_factory=Tally)
    """Repeated fetches."""
    tallies: list[Tally] = field(default_factory=list[Tally])
    """Calls of the sources that it opened."""
    stopping: threading.Event = field(default_factory=threading.Event)
    writing: threading.RLock = field(default_factory=threading.RLock)
    """Held while rows of several documents are written: two threads that lock the same rows in different orders deadlock."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _errors: Counter[str] = field(default_factory=Counter[str])
    """Documents on which each stage failed."""
    _warnings: list[str] = field(default_factory=list[str])
    _ended: bool = False
    """An error has ended the sync, and `error` says which."""
    _within: float = 0.0
    """Time of the blocks that ended within the current one of `busy`."""
    _reported_at: float = 0.0
    _reported: set[str] = field(default_factory=set[str])
    """Stages that have been written to the job row."""

    @property
    def touched(self) -> set[str]:
        """Partitions in which the completed stages changed anything."""
        return {partition for stage in self.completed for partition in self.results[stage].touched}

    @contextmanager
    def for_thread(self) -> Generator[SyncJob]:
        """Yield the same sync with its own stores and connection, for another thread."""
        stores = self.stores
        assert stores.lease is not None  # noqa: S101 - for the type checker: a sync has one
        connection = connect_fenced(stores.settings.postgres_dsn, stores.lease)
        try:
            yield replace(self, stores=stores.over(connection), _within=0.0)
        finally:
            connection.close()

    def includes(self, stage: str) -> bool:
        """Return False if the stage is not part of this run, so that what it makes may not have been made yet."""
        return not self.planned or stage in self.planned

    def count(self, **more: float) -> None:
        """Add to the counts, from any thread."""
        with self._lock:
            for name, number in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + number)

    def add(self, stage: str, result: StageResult) -> None:
        """Add to a stage's result, from any thread."""
        with self._lock:
            self.results.setdefault(stage, StageResult()).add(result)

    @contextmanager
    def busy(self, stage: str) -> Generator[None]:
        """Add the time of the block to that of a stage, without that of blocks of other stages within it. Each thread has its own job."""
        outer, self._within = self._within, 0.0
        started = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - started
            self.add(stage, StageResult(seconds=took - self._within))
            self._within = outer + took

    def work(self) -> dict[str, dict[str, float]]:
        """Return how long each stage was busy, its rows, tokens and errors."""
        return {
            stage: {
                "seconds": round(result.seconds, 3),
                "rows": result.counts.get(ROWS[stage], 0),
                "tokens": result.counts.get("tokens", 0),
                "errors": self._errors[stage],
            }
            for stage, result in self.results.items()
        }

    def progress(self, stage: str, *, force: bool = False) -> None:
        """Write stage and counts to the job row: when a stage first has something to report, and at most once a second.

        Does nothing without a job.

        Raises `AbortSyncError` once another thread of the sync has ended it.
        """
        if self.stopping.is_set():
            raise AbortSyncError("The sync was stopped.")
        if not self.job_id:
            return
        now = time.monotonic()
        if force or stage not in self._reported or now - self._reported_at >= HEARTBEAT_SECONDS:
            self._reported_at = now
            self._reported.add(stage)
            self.stores.jobs.progress(job_id=self.job_id, stage=stage, **asdict(self.counts))

    def fault(self, source_id: str, stage: str, reason: str, *, skipped: bool) -> None:
        """Record that one document was skipped or failed; the sync continues.

        Its name and the reason, which may quote it, are recorded in Postgres only; the log has its ID and the kind of the reason.
        """
        outcome = self._record(source_id, stage, reason, skipped=skipped)
        doc_id = document_id(self.stores.source, source_id)
        log.info("document_" + outcome, job_id=self.job_id, doc_id=doc_id, stage=stage, kind=kind_of(reason))

    def partition_fault(self, partition: str, reason: str, *, skipped: bool) -> None:
        """Record that a partition, or a part of it, could not be listed; the sync continues with the others."""
        outcome = self._record(partition, STAGES[0], reason, skipped=skipped)
        log.info("partition_" + outcome, job_id=self.job_id, partition=partition, kind=kind_of(reason))

    def _record(self, source_id: str, stage: str, reason: str, *, skipped: bool) -> str:
        outcome, reason = "skipped" if skipped else "failed", storable(reason)
        self.count(**{outcome: 1})
        if not skipped:
            with self._lock:
                self._errors[stage] += 1
        self.stores.jobs.record_error(
            job_id=self.job_id, source_id=source_id, stage=stage, reason=reason, outcome=outcome
        )
        return outcome

    def warn(self, *texts: str) -> None:
        """Record what the sync does without. The texts name no document."""
        if not texts or not self.job_id:
            return
        self._warnings += map(storable, texts)
        reason = " ".join(self._warnings)
        self.stores.jobs.record_error(job_id=self.job_id, source_id="", stage="raw", reason=reason, outcome="warning")
        log.warning("sync_warning", job_id=self.job_id, source=self.stores.source.value, reason=reason)

    def claim(self, partitions: Sequence[str] | None, *, wait: float = 0.0) -> bool:
        """Add partitions, or the whole source, to what this sync may write to. Return False if another process has one of them."""
        lease = self.stores.lease
        if lease is None:
            return True
        wanted = [WHOLE] if partitions is None else [one for one in partitions if not lease.covers(one)]
        return lease.covers(WHOLE) or lease.wait(wanted, wait)

    def leave(self, partitions: Collection[str], known: Collection[str]) -> None:
        """Leave partitions to other syncs, and go on as one of the others that are known. Raises `LostLeaseError`."""
        lease = self.stores.lease
        assert lease is not None  # noqa: S101 - for the type checker: a sync has one
        lease.narrow([REST, *(one for one in known if one not in partitions)])
        self.partitions, self.rest = lease.partitions, True

    def take_rest(self, partitions: Sequence[str]) -> None:
        """Add those of these partitions that no other sync has to one of the rest."""
        if self.rest:
            self.partitions = sorted({*(self.partitions or ()), *(one for one in partitions if self.claim([one]))})

    def faults(self, stage: str, most: int) -> list[JobError]:
        """Return documents that a stage of this sync skipped or failed on, at most so many."""
        return self.stores.jobs.errors(job_id=self.job_id, stage=stage, most=most)

    def run(self, stage: str, work: Callable[[], StageResult]) -> StageResult:
        """Run one stage, with progress at both ends, and keep its result. Stages that ran with the first report nothing more."""
        started = time.perf_counter()
        reports = not self.overlapped
        if reports:
            self.progress(stage, force=True)
        with self.explaining(stage):
            result = self.results[stage] = work()
        result.seconds = result.seconds or time.perf_counter() - started
        self.completed.add(stage)
        if reports:
            self.progress(STAGES[-1] if self.overlapped else stage, force=True)
        log.info(
            "stage_finished",
            job_id=self.job_id,
            source=self.stores.source.value,
            stage=stage,
            duration_ms=round((time.perf_counter() - started) * 1000),
        )
        return self.results[stage]

    @contextmanager
    def explaining(self, stage: str | None = None) -> Generator[None]:
        """Add an error of the block to those of the job row, and raise the one that names the damaged store instead, if any."""
        try:
            yield
        except BaseException as error:
            found = explained(error, self.stores.settings)
            if not self._ended:
                self._ended = True
                reason = reason_of(error if found is None else found, stage)
                self.error = reason if self.error is None or self.error in reason else f"{self.error} {reason}"
            if stage:
                log.exception("stage_failed", job_id=self.job_id, stage=stage)
            if found is not None and found is not error:
                raise found from error
            raise


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
    carrier: Mapping[str, str] | None = None,
    again: bool = False,
) -> Generator[SyncJob]:
    """Claim the partitions, run the block, close the job. `carrier` continues the trace of the request for the sync; `again`: somebody
    executes the run of the job once more.

    Without `job_id` a job is created; with it, partitions and `full` come from its row. Waits for other processes that are working
    on its partitions (at most an hour). Raises `BusyError`, `EndedJobError` or `ServiceUnavailableError`.
    """
    settings = stored.complete(settings)
    job_id, lease = claim_job(settings, source, job_id, partitions, full, requested_by, again=again)
    try:
        connection = connect_fenced(settings.postgres_dsn, lease)
        try:
            stores = Stores(settings, source, connection, lease)
            row = stores.jobs.job(job_id=job_id)
            stores.jobs.claim_job(job_id=job_id, run_id=run_id, lease=lease.owner)
            rest = row.partitions is None and not lease.covers(WHOLE)
            job = SyncJob(stores, job_id, lease.partitions if rest else row.partitions, full=row.full_sync, rest=rest)
            # earlier syncs that were killed or failed have not done what was added to them
            with connection.transaction():
                for one in stores.jobs.take_unserved(
                    source=source.value, job_id=job_id, partitions=job.partitions, full_sync=job.full
                ):
                    stores.jobs.add_request(source=source.value, partitions=one.partitions, full_sync=one.full_sync)
            with tracing.root("sync", carrier or {}, source=source.value, job_id=job_id):
                log.info("sync_started", job_id=job_id, source=source.value, run_id=run_id, requested_by=requested_by)
                try:
                    with job.explaining():
                        yield job
                finally:
                    # the job's own row is written even if another process has taken over the partitions
                    connection.lease = None
                    _close(job)
        except psycopg.OperationalError as error:
            raise ServiceUnavailableError(f"Postgres stopped answering during the sync: {said(error)}") from error
        finally:
            connection.close()
    finally:
        lease.release()
        tracing.flush()  # the process may be killed or reused


def _close(job: SyncJob) -> None:
    """Write the end of the job; a broken connection is replaced, and if the server is down the next sync closes the row."""
    connection, counts = job.stores.connection, job.counts
    missing = [stage for stage in STAGES if stage in job.planned - job.completed]
    if job.error is None and missing:
        job.error = f"The run ended before the stage {missing[0]}; its log in the Dagster UI says why."
    status = "success" if job.error is None else "failed"
    if job.error is not None:
        job.error = storable(job.error)  # the job must end all the same
    try:
        if connection.broken or connection.closed:
            end_job(job.stores.settings.postgres_dsn, job.job_id, job.error)
        else:
            job.progress("done" if job.error is None else "failed", force=True)
            stages = Jsonb(job.work())
            job.stores.jobs.finish_job(job_id=job.job_id, error_message=job.error, stages=stages, unknown=UNKNOWN)
    except (psycopg.Error, ServiceUnavailableError) as error:
        log.error("sync_close_failed", job_id=job.job_id, reason=str(error))
    log.info(
        "sync_finished",
        job_id=job.job_id,
        source=job.stores.source.value,
        status=status,
        synced=counts.synced,
        skipped=counts.skipped,
        deleted=counts.deleted,
        failed=counts.failed,
        embedded=counts.embedded,
    )
