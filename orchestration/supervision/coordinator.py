"""Dagster run coordinator that queues maintenance, backfills and the runs of a divided sync, and starts all others at once.

An upload or a tick does not wait for a queue; a first sync of thousands of partitions, or a backfill of many that are no neighbours, must
not start as many runs, nor an installation that was down all the jobs that it missed. Dagster's daemon starts queued runs as the
concurrency pool of their source has room, and maintenance one run at a time (`dagster.yaml`).
"""

import dagster as dg

from assets.catalog import PURPOSE_TAG, UPKEEP
from orchestration.dagster_api import QueuedRunCoordinator, SubmitRunContext
from resources.syncs.launch import BACKFILL_TAG, PLANNED_TAG


class SyncRunCoordinator(QueuedRunCoordinator):  # pyright: ignore[reportMissingTypeArgument]
    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Queue a planned run, or one of a backfill or of maintenance; launch another one."""
        run = context.dagster_run
        if run.tags.keys().isdisjoint((PLANNED_TAG, BACKFILL_TAG)) and run.tags.get(PURPOSE_TAG) != UPKEEP:
            return self._instance.launch_run(run.run_id, context.workspace)
        self._limit_pools(run)
        return super().submit_run(context)

    def _limit_pools(self, run: dg.DagsterRun) -> None:
        """Give the run's pools their default limit. Dagster (1.13) does so when it first looks at the queue, and lets all pass then."""
        storage = self._instance.event_log_storage
        pools = run.run_op_concurrency.all_pools if run.run_op_concurrency is not None else None
        for pool in set(pools or ()) - {one.name for one in storage.get_pool_limits()}:
            storage.initialize_concurrency_limit_to_default(pool)
