"""The job and schedule that sync people and groups from Google's directory and the file of groups."""

from typing import Any

import dagster as dg
import msgspec

from assets import catalog
from orchestration import dagster_api
from orchestration.dagster_api import UnresolvedAssetJobDefinition
from orchestration.jobs import ALERTED
from resources.core.errors import BusyError
from resources.people import to_sync
from resources.people.sync import sync_people
from resources.settings import Settings, load

NAME = "sync_directory"
PURPOSE = "Sync people and groups from where they are kept."
OFF = "No source of people is set up (docs/groups.md)."


@dg.op(description=PURPOSE)
def directory(context: dg.OpExecutionContext) -> None:
    try:
        reports = sync_people(load())
    except BusyError as error:
        context.log.info(str(error))
        return
    metadata: dict[str, dg.MetadataValue[Any]] = {
        name: dg.MetadataValue.json(msgspec.to_builtins(report)) for name, report in reports.items()
    }
    errors = [f"{name}: {report.error}" for name, report in reports.items() if report.error]
    if errors:
        if any(report.alerted for report in reports.values()):
            metadata[ALERTED] = dg.MetadataValue.bool(True)
        raise dg.Failure(" ".join(errors), metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)


def people_job() -> dg.JobDefinition:
    """Return the job that syncs people and groups."""
    graph = dg.GraphDefinition(name=NAME, node_defs=[directory])
    return dagster_api.to_job(
        graph,
        description=PURPOSE,
        executor_def=dg.in_process_executor,
        tags=catalog.purpose("sync"),
        owners=catalog.OWNERS,
    )


def people_schedule(job: dg.JobDefinition | UnresolvedAssetJobDefinition, settings: Settings) -> dg.ScheduleDefinition:
    """Return the job's schedule, which is off while no source of people is set up."""
    minutes, set_up = settings.sync_minutes, bool(to_sync(settings))

    @dagster_api.schedule(
        name=f"{NAME}_schedule",
        cron_schedule=f"*/{minutes} * * * *" if minutes < 60 else "0 * * * *",
        job=job,
        description=f"{PURPOSE[:-1]} every {minutes} minutes (CONCORDANCE_SYNC_MINUTES)."
        + ("" if set_up else f" Off: {OFF}"),
        tags=catalog.purpose("sync"),
        owners=catalog.OWNERS,
        default_status=dg.DefaultScheduleStatus.RUNNING if set_up else dg.DefaultScheduleStatus.STOPPED,
    )
    def tick() -> Any:
        return dg.RunRequest(run_key=None) if to_sync(load()) else dg.SkipReason(OFF)

    return tick
