"""Divide a large sync: partitions that must be listed whole are left to other runs, which Dagster's queue starts.

A sync of the whole source plans: it keeps the partitions of which only changes are read. The others become syncs of their own, each of a
range of partitions, with leases of their own. One whose process dies is resumed by the next sync of the source, from its last cursor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import structlog

from resources.core.errors import NoAnswerError, NotRunningError
from resources.syncs import launch
from resources.syncs.claiming import planned_partitions
from resources.syncs.jobs import launching
from resources.syncs.syncing import SyncJob

FEWEST = 4
"""Partitions to list whole for which other runs are worth their start."""
RANGES_A_RUN = 4
"""Ranges for each run that may work at a time: enough that none waits long for the last one, few enough for Dagster's pages."""

log = structlog.get_logger("sync")


def share_out(job: SyncJob, available: Sequence[str], known: Collection[str]) -> None:
    """Leave the partitions of a source that must be listed whole to other runs, if there are enough of them."""
    stores = job.stores
    if job.partitions is not None and not job.rest:
        return
    taken = planned_partitions(
        stores.connection, stores.source, elsewhere=stores.settings.dagster_database_url is not None
    )
    free = [one for one in available if one not in taken]
    left = free if job.full else stores.partitions.never_listed(partitions=free)
    if job.runs < 2 or len(left) < FEWEST:
        job.take_rest(free)
        return
    ranges = divided(left, job.runs * RANGES_A_RUN)
    with stores.connection.transaction():
        planned = [
            stores.jobs.plan(
                source=stores.source.value, partitions=one, full_sync=job.full, planned_by=job.job_id
            ).job_id
            for one in ranges
        ]
    job.leave({*left, *taken}, {*available, *known})
    log.info("sync_shared_out", job_id=job.job_id, partitions=len(left), runs=len(planned))
    with launching(stores.settings.postgres_dsn, *planned):  # the last one's turn may come after minutes
        started = _launch(job, planned)
    for job_id, partitions in zip(planned[started:], ranges[started:], strict=True):
        if stores.jobs.withdraw(job_id=job_id):
            job.take_rest(partitions)


def divided(partitions: Sequence[str], most: int) -> list[list[str]]:
    """Return at most so many ranges of about the same length."""
    count = min(len(partitions), most)
    edges = [number * len(partitions) // count for number in range(count + 1)]
    return [list(partitions[start:end]) for start, end in pairwise(edges)]


def _launch(job: SyncJob, planned: Sequence[str]) -> int:
    """Request the runs of planned syncs. Returns how many were, until Dagster refused one: this sync does the others itself."""
    settings, source = job.stores.settings, job.stores.source
    for number, job_id in enumerate(planned):
        job.progress("raw")
        try:
            launch.launch_run(settings, source, job_id, planned=True)
        except NoAnswerError as error:  # its run may start late; if not, the next sync of the source ends it
            log.warning("sync_delayed", job_id=job_id, reason=str(error))
        except NotRunningError as error:
            log.warning("sync_not_shared_out", job_id=job.job_id, reason=str(error))
            return number
    return len(planned)
