"""Jobs of a single op that run at fixed times."""

import dagster as dg

from orchestration import dagster_api


def scheduled(
    op: dg.OpDefinition, name: str, cron: str, description: str
) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """Return a job that runs the op in one process, and its schedule, which is on by default."""
    graph = dg.GraphDefinition(name=name, node_defs=[op])
    job = dagster_api.to_job(graph, description=description, executor_def=dg.in_process_executor)
    return job, dg.ScheduleDefinition(job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING)
