"""Dagster run coordinator that queues the runs of a divided sync, and starts all others at once.

An upload or a tick does not wait for a queue; a first sync of thousands of partitions must not start as many runs. Dagster's daemon starts
queued runs as the concurrency pool of their source has room.
"""

import dagster as dg

from orchestration.dagster_api import QueuedRunCoordinator, SubmitRunContext
from resources.launch import PLANNED_TAG


class SyncRunCoordinator(QueuedRunCoordinator):  # pyright: ignore[reportMissingTypeArgument]
    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Queue a planned run; launch another one."""
        run = context.dagster_run
        if PLANNED_TAG in run.tags:
            return super().submit_run(context)
        return self._instance.launch_run(run.run_id, context.workspace)
