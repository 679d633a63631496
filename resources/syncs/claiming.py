"""Claim the partitions that a sync works on: those of its job, all of a source, or the rest if other syncs have some of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg
import structlog

from resources.core.domain import SourceName
from resources.core.errors import BusyError, EndedJobError
from resources.settings import Settings
from resources.stores.leases import POLL_SECONDS, REST, WAIT_SECONDS, WHOLE, Lease, claim
from resources.stores.postgres import Connection, session
from resources.syncs.jobs import NOT_BEGUN, UNKNOWN, create_job, is_lost
from sql.sync import Documents, Jobs, Partitions

log = structlog.get_logger("sync")


def claim_job(
    settings: Settings,
    source: SourceName,
    job_id: str | None,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
    *,
    again: bool = False,
) -> tuple[str, Lease]:
    """Return the given job or a new one, with the lease of its partitions. Waits for other processes that work on them.

    A given job that has ended was begun by another run, because this one was late: then this run does the same work in a job of its own.
    Raises `EndedJobError` if that job was planned: what was not done is planned again, or the sync that planned it does it. Not if
    somebody executes its run `again`.
    """
    dsn = settings.postgres_dsn
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        if job_id is None:
            try:
                job_id = create_job(
                    dsn,
                    source,
                    partitions=partitions,
                    full=full,
                    requested_by=requested_by,
                    elsewhere=settings.dagster_database_url is not None,
                ).job_id
            except BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
                continue
        wanted = _claimable(settings, source, job_id)
        lease = None if wanted is None else claim(dsn, source.value, wanted, seconds=deadline - time.monotonic())
        if wanted is not None and lease is None:
            raise BusyError(f"Another sync of {source.value} did not end within {WAIT_SECONDS / 3600:.0f} h.", job_id)
        if lease is not None:
            now = _claimable(settings, source, job_id)  # another process may have ended it, or added to it
            if now is not None and all(map(lease.covers, now)):
                return job_id, lease
            lease.release()
            wanted = now
        if wanted is None:
            with session(dsn, autocommit=True) as connection:
                row = Jobs(connection).job(job_id=job_id)
            if row.planned and not again:
                raise EndedJobError("The part of a sync that this run was started for has ended already.")
            job_id, partitions, full = None, row.partitions, row.full_sync


def _claimable(settings: Settings, source: SourceName, job_id: str) -> list[str] | None:
    """Return the partitions that a job must claim; None if it has ended."""
    with session(settings.postgres_dsn, autocommit=True) as connection:
        row = Jobs(connection).job(job_id=job_id)
        if row.status != "running":
            return None
        if row.partitions is not None:
            return roots_of(connection, source, row.partitions)
        taken = planned_partitions(connection, source, elsewhere=settings.dagster_database_url is not None)
        if not taken:
            return [WHOLE]
        return [REST, *(one for one in Partitions(connection, source.value).current_names() if one not in taken)]


def planned_partitions(connection: Connection, source: SourceName, *, elsewhere: bool) -> set[str]:
    """Return the partitions of the syncs that another one has planned. Those that no process will continue are ended."""
    jobs = Jobs(connection)
    taken: set[str] = set()
    for one in jobs.planned(source=source.value):
        if is_lost(connection, source, one, elsewhere=elsewhere):
            jobs.finish_job(job_id=one.job_id, error_message=NOT_BEGUN, stages=None, unknown=UNKNOWN)
            log.warning("planned_sync_lost", job_id=one.job_id)
        else:
            taken.update(one.partitions or ())
    return taken


def roots_of(
    connection: psycopg.Connection[dict[str, object]], source: SourceName, requested: Sequence[str]
) -> list[str]:
    """Return requested partitions, with folders replaced by the roots that hold them: a root's changes are read as a whole."""
    known = set(Partitions(connection, source.value).current_names())
    folders = [one for one in requested if one not in known]
    rows = Documents(connection, source.value).roots_of(collections=folders) if folders else []
    roots = {row.collection: row.partition for row in rows}
    return sorted({roots.get(one, one) for one in requested})
