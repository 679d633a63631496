"""Rows of sync jobs, and the leases that show whether a process works on them.

A job is created before its run, so that the caller has an id at once. The process that does the work holds leases of the job's partitions
for as long as it works: a claimed job whose lease has lapsed belongs to a process that died, and the next sync replaces it.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import psycopg
import structlog

from resources.core.domain import SourceName
from resources.core.errors import BusyError, ServiceUnavailableError
from resources.settings import Settings
from resources.sources import names
from resources.stores.clients import Stores
from resources.stores.fenced import fenced_session
from resources.stores.leases import COMPACTION, INSTALLATION, LEASE_SECONDS, WAIT_SECONDS, WHOLE, Lease, claim
from resources.stores.postgres import Connection, session
from sql.leases import Leases
from sql.rows import RunningJob, Started
from sql.sync import Jobs

ORPHAN_SECONDS = 10
"""A job that no process has claimed for this long is lost if none is launching it and Dagster has no run of it that will start."""
ELSEWHERE_SECONDS = 3600
"""The same if Dagster's runs are in another database: it gives up a run that does not start within half an hour, and closes its job."""
CALL_SECONDS = 12.0
"""Longest wait for Postgres when creating or ending a job, because a caller is waiting."""
ALL_SECONDS = 5.0
"""How long the leases of some sources are held while that of another is waited for, by work that needs all."""

KEPT_SECONDS = 900.0
"""How long they are held at most, at the end of that wait."""

DIED = "The process that ran this sync died."
NOT_BEGUN = "No process began it, or its process died. The next sync of the source continues there."
TERMINATED = "Its run in Dagster was terminated before it began. The next sync of the source does its work."
UNKNOWN = "The reason was not recorded. The log of its run in Dagster may say more."
"""Reason of a failure that came without one."""

_Wanted: TypeAlias = tuple[str, list[str] | None, str]
"""The owner of leases, the partitions (None: all), and who may have them, as the subject of a sentence."""

log = structlog.get_logger("sync")


def _launch(job_id: str) -> str:
    """Return the name of the lease of a process that launches the job's run."""
    return f"launch {job_id}"


def preparing(source: SourceName) -> str:
    """Return the source of the leases of runs that prepare documents for its syncs. No source has this name."""
    return f"{source.value} preparing"


def is_lost(connection: Connection, source: SourceName, running: RunningJob, *, elsewhere: bool) -> bool:
    """Return True if the process of a job died, or if no process will claim it. One that waits for its turn is not lost, however long.

    Its turn comes when its run leaves Dagster's queue and when no other process has a lease of its partitions.
    """
    if running.claimed_at is not None:
        return not running.alive
    leases = Leases(connection)
    if (
        abs(running.age) < ORPHAN_SECONDS  # negative after Postgres's clock was set back
        or leases.taken(source=INSTALLATION, partitions=[_launch(running.job_id)])
        or leases.taken(source=source.value, partitions=running.partitions or [WHOLE])
    ):
        return False
    if elsewhere:  # tables in our database are from before
        return abs(running.age) > ELSEWHERE_SECONDS
    try:
        return Jobs(connection).launched_run(job_id=running.job_id) is None
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.InsufficientPrivilege,
    ):  # Dagster has never run on this database
        return True


def create_job(
    dsn: str,
    source: SourceName,
    *,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
    merge: bool = False,
    elsewhere: bool = False,
) -> Started:
    """Insert a running job. Raises `BusyError` with the running job's id unless the process that ran it has died.

    A job that no process will begin is returned instead, with this request added: it was delayed, and has not failed. A backfill of
    less than it would do ends it and has a job of its own. With `merge`, the request is added to the running sync if that accepts it, and
    later requests may be added to this one. `elsewhere`: Dagster's tables are in another database.
    """
    wanted = list(partitions) if partitions else None
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        jobs = Jobs(connection)
        for _ in range(3):
            row = jobs.insert_job(
                source=source.value, partitions=wanted, full_sync=full, requested_by=requested_by, accepts=merge
            )
            if row is not None:
                return row
            others = jobs.in_the_way(source=source.value, partitions=wanted, accepts=merge)
            lost = [one for one in others if is_lost(connection, source, one, elsewhere=elsewhere)]
            for one in lost:
                more = wanted is not None and not merge and not set(one.partitions or [WHOLE]) <= set(wanted)
                if one.claimed_at is not None or more or jobs.job(job_id=one.job_id).planned:
                    reason = NOT_BEGUN if one.claimed_at is None else DIED
                    jobs.finish_job(job_id=one.job_id, error_message=reason, stages=None, unknown=UNKNOWN)
                    log.warning("sync_reclaimed", job_id=one.job_id, reason=reason)
                elif (adopted := jobs.adopt_job(job_id=one.job_id, partitions=wanted, full_sync=full)) is not None:
                    log.warning("sync_delayed", job_id=one.job_id, reason="No process began it.")
                    return adopted
            if lost or not others:
                continue
            Leases(connection).cap(seconds=LEASE_SECONDS)
            added = jobs.add_request(source=source.value, partitions=wanted, full_sync=full) if merge else None
            if added is not None:
                raise BusyError(
                    f"A sync of {source.value} is already running; this request was added to it.",
                    added.job_id,
                    merged=True,
                )
            raise BusyError(f"A sync of {source.value} is already running.", others[0].job_id)
    raise ServiceUnavailableError(f"The state of the sync of {source.value} keeps changing; try again.")


@contextmanager
def launching(dsn: str, *job_ids: str) -> Generator[None]:
    """Hold the launch leases of jobs, which show other processes that their runs are still being launched.

    Raises `ServiceUnavailableError`.
    """
    lease = claim(dsn, INSTALLATION, [_launch(one) for one in job_ids], seconds=CALL_SECONDS)
    try:
        yield
    finally:
        if lease is not None:  # otherwise another process launches one of them, too
            lease.release()


def end_job(dsn: str, job_id: str, error: str | None) -> None:
    """Close a job that never reached a process, or whose process failed outside its stages. `error` None: it succeeded."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        Jobs(connection).finish_job(job_id=job_id, error_message=error, stages=None, unknown=UNKNOWN)


def fail_run(dsn: str, run_id: str, job_id: str | None, error: str) -> None:
    """Close the job of a run that failed without doing so, and end its leases. `job_id`: its job, in case it has not claimed it."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        Jobs(connection).fail_run_job(job_id=job_id, run_id=run_id, error_message=error, unknown=UNKNOWN)


def fail_unbegun(dsn: str, job_id: str) -> None:
    """Close the job of a run that was terminated, unless a process has claimed it, which closes it itself."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        Jobs(connection).fail_run_job(job_id=job_id, run_id=None, error_message=TERMINATED, unknown=UNKNOWN)


@contextmanager
def hold(settings: Settings, source: SourceName, *, partitions: Sequence[str] | None = None) -> Generator[Stores]:
    """Hold the lease of partitions, or of the whole source, for the block, without a job: for work that no sync may disturb.

    Raises `BusyError` if another process has one of them for an hour.
    """
    lease = claim(settings.postgres_dsn, source.value, partitions)
    if lease is None:
        raise BusyError(f"Another sync of {source.value} did not end within {WAIT_SECONDS / 3600:.0f} h.", "")
    try:
        with fenced_session(settings.postgres_dsn, lease) as connection:
            yield Stores(settings, source, connection, lease)
    finally:
        lease.release()


def stored_sources(connection: Connection) -> list[SourceName]:
    """Return the installed sources and those of which something is stored although their package is gone, in a fixed order."""
    return list(dict.fromkeys([*names(), *map(SourceName, Jobs(connection).synced_sources())]))


@contextmanager
def hold_all(settings: Settings) -> Generator[list[Stores]]:
    """Hold the leases of all sources, as `hold` does for one, those of the runs that prepare documents for their syncs, and that of
    compaction.

    Whoever writes with one of them needs all: what a source no longer needs, another one may. While one is busy, the others go on.
    """
    with session(settings.postgres_dsn) as connection:
        sources = stored_sources(connection)
    wanted: list[_Wanted] = [
        *((one.value, None, f"Another sync of {one.value}") for one in sources),
        *((preparing(one), None, f"A run that prepares documents of {one.value}") for one in sources),
        (INSTALLATION, [COMPACTION], "Another process that compacts the lake"),
    ]
    with _claim_all(settings.postgres_dsn, wanted) as leases, ExitStack() as stack:
        held = [
            Stores(settings, source, stack.enter_context(fenced_session(settings.postgres_dsn, lease)), lease)
            for source, lease in zip(sources, leases, strict=False)
        ]
        for lease in leases[: len(held)]:
            lease.bind(*(other for other in leases if other is not lease))
        yield held


@contextmanager
def _claim_all(dsn: str, wanted: Sequence[_Wanted]) -> Generator[list[Lease]]:
    """Hold leases for the block. While one is waited for, none of the others is held for more than some seconds.

    Towards the end of the wait it keeps what it has, always in the same order: where many syncs run, all may never be free at once.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    awaited = wanted[0]
    while True:
        keeps = deadline - time.monotonic() < KEPT_SECONDS
        with ExitStack() as stack:
            found: dict[str, Lease] = {}
            for one in sorted(wanted, key=lambda one: not keeps and one is not awaited):
                owner, partitions, name = one
                left = deadline - time.monotonic()
                lease = claim(dsn, owner, partitions, seconds=left if keeps or not found else ALL_SECONDS)
                if lease is None:
                    awaited = one
                    break
                stack.callback(lease.release)
                found[owner] = lease
            else:
                yield [found[owner] for owner, _, _ in wanted]
                return
        if time.monotonic() > deadline:
            raise BusyError(f"{name} did not end within {WAIT_SECONDS / 3600:.0f} h.", "")
