"""Rows of sync jobs and the locks that show whether a process works on them.

A job is created before its run, so that the caller has an id at once. The process that does the work holds a Postgres advisory
lock of the source for as long as it lives: a job marked as running while its lock is free belongs to a process that died, and the
next sync replaces it.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager

import psycopg
import structlog

from resources.core.domain import SourceName
from resources.core.errors import BusyError, ServiceUnavailableError
from resources.settings import Settings
from resources.sources import names
from resources.stores.clients import Stores
from resources.stores.postgres import Connection, connect, session
from sql.rows import RunningJob, Started
from sql.sync import Jobs

ORPHAN_SECONDS = 10
"""A job that no process has claimed for this long is lost if none is launching it and none has received a Dagster run of it."""
WAIT_SECONDS = 3600
CALL_SECONDS = 12.0
"""Longest wait for Postgres when creating or ending a job, because a caller is waiting."""

DIED = "The process that ran this sync died."
UNKNOWN = "The reason was not recorded. The log of its run in Dagster may say more."
"""Reason of a failure that came without one."""

log = structlog.get_logger("sync")


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


def _is_lost(connection: Connection, running: RunningJob) -> bool:
    """Return True if no process will claim a job that is still unclaimed. A run that is late to start is not lost."""
    if running.age < ORPHAN_SECONDS or _is_held(connection, _launch_key(running.job_id)):
        return False
    try:
        return Jobs(connection).launched_run(job_id=running.job_id) is None
    except psycopg.errors.UndefinedTable:  # Dagster has never run on this database
        return True


def recover(
    connection: Connection, running: RunningJob, *, partitions: Sequence[str] | None, full: bool
) -> Started | None:
    """Close a running job whose process died, or take over one that no process will begin, with a request added to it.

    Returns the job that was taken over: it was delayed, and has not failed. Call it while the source's lock is free or ours.
    """
    jobs = Jobs(connection)
    if running.claimed_at is not None:
        jobs.finish_job(job_id=running.job_id, error_message=DIED, stages=None, unknown=UNKNOWN)
        log.warning("sync_reclaimed", job_id=running.job_id, reason=DIED)
        return None
    if not _is_lost(connection, running):
        return None
    log.warning("sync_delayed", job_id=running.job_id, reason="No process began it.")
    return jobs.adopt_job(job_id=running.job_id, partitions=list(partitions) if partitions else None, full_sync=full)


def insert_job(
    connection: Connection,
    source: SourceName,
    *,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
    merge: bool = False,
) -> Started | None:
    """Insert a running job; None if the source has one. With `merge`, later requests may be added to it."""
    return Jobs(connection).insert_job(
        source=source.value,
        partitions=list(partitions) if partitions else None,
        full_sync=full,
        requested_by=requested_by,
        accepts=merge,
    )


def create_job(
    dsn: str,
    source: SourceName,
    *,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
    merge: bool = False,
) -> Started:
    """Insert a running job. Raises `BusyError` with the running job's id unless the process that ran it has died.

    A job that no process will begin is returned instead, with this request added: it was delayed, and has not failed. With
    `merge`, the request is added to the running sync if that accepts it, and later requests may be added to this one.
    """
    wanted = list(partitions) if partitions else None
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        jobs = Jobs(connection)
        for _ in range(3):
            row = insert_job(
                connection, source, partitions=partitions, full=full, requested_by=requested_by, merge=merge
            )
            if row is not None:
                return row
            running = jobs.running_job(source=source.value)
            if running is None:
                continue
            # a job whose process is waiting for the lock is not lost, however long that takes
            if not _is_held(connection, _lock_key(source)):
                adopted = recover(connection, running, partitions=partitions, full=full)
                if adopted is not None:
                    return adopted
                if running.claimed_at is not None:
                    continue
            added = jobs.add_request(source=source.value, partitions=wanted, full_sync=full) if merge else None
            if added is not None:
                raise BusyError(
                    f"A sync of {source.value} is already running; this request was added to it.",
                    added.job_id,
                    merged=True,
                )
            raise BusyError(f"A sync of {source.value} is already running.", running.job_id)
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
    """Close a job that never reached a process, or whose process failed outside its stages. `error` None: it succeeded."""
    with session(dsn, autocommit=True, seconds=CALL_SECONDS) as connection:
        Jobs(connection).finish_job(job_id=job_id, error_message=error, stages=None, unknown=UNKNOWN)


def lock(connection: Connection, source: SourceName, waiting: Callable[[SourceName], None] = lambda _: None) -> None:
    """Wait for the lock of a source; `waiting` is called if another process holds it. Raises `BusyError` after an hour."""
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s)) AS locked", (_lock_key(source),)).fetchone()
    if row is not None and row["locked"]:
        return
    waiting(source)
    connection.execute("SELECT set_config('lock_timeout', %s, FALSE)", (f"{WAIT_SECONDS}s",))
    try:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (_lock_key(source),))
    except psycopg.errors.LockNotAvailable as error:
        raise BusyError(f"Another sync of {source.value} did not end within an hour.", "") from error
    connection.execute("SELECT set_config('lock_timeout', '0', FALSE)")


def unlock(connection: Connection, source: SourceName) -> None:
    connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (_lock_key(source),))


@contextmanager
def hold(
    settings: Settings, source: SourceName, waiting: Callable[[SourceName], None] = lambda _: None
) -> Generator[Stores]:
    """Hold a source's lock for the block, without a job: for work that no sync may disturb. See `lock`."""
    connection = connect(settings.postgres_dsn, autocommit=True)
    try:
        lock(connection, source, waiting)
        try:
            yield Stores(settings, source, connection)
        finally:
            if not connection.closed:  # Postgres notices a close only some time later, and would refuse the next sync
                unlock(connection, source)
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering: {str(error).strip()}") from error
    finally:
        connection.close()


def stored_sources(connection: Connection) -> list[SourceName]:
    """Return the installed sources and those of which something is stored although their package is gone, in a fixed order."""
    return list(dict.fromkeys([*names(), *map(SourceName, Jobs(connection).synced_sources())]))


@contextmanager
def hold_all(settings: Settings, waiting: Callable[[SourceName], None] = lambda _: None) -> Generator[list[Stores]]:
    """Hold the locks of all sources, as `hold` does for one."""
    with session(settings.postgres_dsn) as connection:
        sources = stored_sources(connection)
    with ExitStack() as stack:
        yield [stack.enter_context(hold(settings, source, waiting)) for source in sources]
