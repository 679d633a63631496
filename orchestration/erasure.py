"""The daily job that erases deleted documents after their grace period and deletes old records."""

from typing import Any

import dagster as dg
import msgspec

from orchestration.jobs import scheduled
from resources.alerts import alert
from resources.core.durations import duration, kept_for
from resources.core.errors import ConcordanceError
from resources.settings import Settings, load

CRON = "30 1 * * *"
"""After the deletion sweep, which verifies that the index contains nothing of these documents."""


def erase_due(settings: Settings, instance: dg.DagsterInstance | None = None) -> dict[str, Any]:
    """Erase what is due, apply the retention settings and return the counts. Raises `ConcordanceError` after an alert."""
    from assets.upkeep.erase import cutoff_of, erase
    from assets.upkeep.retention import prune

    try:
        deleted = prune(settings)
        erased = erase(settings, cutoff=cutoff_of(duration(settings.erase_after)))
    except ConcordanceError as error:
        alert(settings, f"Erasure did not finish: {error} It is retried tomorrow. To retry now, run: concordance erase")
        raise
    runs = 0 if instance is None else _prune_runs(settings, instance)
    return {"erased": msgspec.to_builtins(erased), "deleted_rows": deleted, "deleted_runs": runs}


def _prune_runs(settings: Settings, instance: dg.DagsterInstance) -> int:
    """Delete old Dagster runs, whose events name skipped and failed documents; they are kept as long as jobs."""
    from datetime import UTC, datetime

    kept = kept_for(settings.retention_jobs)
    if kept is None:
        return 0
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    old = dg.RunsFilter(statuses=ended, created_before=datetime.now(UTC) - kept)
    deleted = 0
    while runs := instance.get_run_records(old, limit=100):
        for record in runs:
            instance.delete_run(record.dagster_run.run_id)
            deleted += 1
    return deleted


@dg.op(description="Erase deleted documents whose grace period is over, and records older than their settings allow.")
def erasure(context: dg.OpExecutionContext) -> None:
    try:
        done = erase_due(load(), context.instance)
    except ConcordanceError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    context.add_output_metadata(
        {name: value if isinstance(value, int) else dg.MetadataValue.json(value) for name, value in done.items()}
    )


daily_erasure, daily_erasure_schedule = scheduled(
    erasure,
    "daily_erasure",
    CRON,
    "Erase deleted documents from every store after erase_after in CONCORDANCE_RETENTION, and delete old records.",
)
