"""Jobs of a single op that run at fixed times."""

import dagster as dg
import structlog

from assets import catalog
from orchestration import dagster_api
from orchestration.dagster_api import UnresolvedAssetJobDefinition
from resources.core.errors import ConcordanceError

ALERTED = "alerted"
"""Metadata of the `dg.Failure` of a run that has sent an alert by itself."""
log = structlog.get_logger("jobs")


def scheduled(
    op: dg.OpDefinition, name: str, cron: str, description: str
) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """Return a job that runs the op in one process, and its schedule, which is on by default."""
    graph = dg.GraphDefinition(name=name, node_defs=[op])
    job = dagster_api.to_job(
        graph,
        description=description,
        executor_def=dg.in_process_executor,
        tags=catalog.purpose(catalog.UPKEEP),
        owners=catalog.OWNERS,
    )
    return job, at_fixed_times(job, cron, description, catalog.UPKEEP)


def at_fixed_times(
    job: dg.JobDefinition | UnresolvedAssetJobDefinition, cron: str, description: str, purpose: str
) -> dg.ScheduleDefinition:
    """Return the schedule of a job at fixed times (UTC), which is on by default."""
    return dg.ScheduleDefinition(
        job=job,
        cron_schedule=cron,
        description=description,
        tags=catalog.purpose(purpose),
        owners=catalog.OWNERS,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def reason(error: Exception) -> str:
    """Return why a part of a job failed, for people. An unexpected error is logged with its stack trace: it may quote documents."""
    if isinstance(error, ConcordanceError):
        return str(error)
    log.error("unexpected_error", exc_info=error)
    return f"Unexpected {type(error).__name__}: its stack trace is in the log."
