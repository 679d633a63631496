"""The daily job that erases deleted documents after their grace period and deletes old records."""

from typing import Any

import dagster as dg
import msgspec

from orchestration.jobs import scheduled
from orchestration.run_history import prune_runs
from resources.alerts import alert
from resources.core.durations import duration
from resources.core.errors import ConcordanceError
from resources.settings import Settings, load

CRON = "30 1 * * *"
"""After the deletion sweep, which verifies that the index contains nothing of these documents."""


def erase_due(settings: Settings, instance: dg.DagsterInstance | None = None) -> dict[str, Any]:
    """Erase what is due, apply the retention settings and return the counts. Raises `ConcordanceError` after an alert."""
    from assets.upkeep.erase import erase
    from assets.upkeep.retention import prune, prune_expired

    try:
        deleted = prune(settings) | prune_expired(settings)
        runs = 0 if instance is None else prune_runs(settings, instance)
        erased = erase(settings, after=duration(settings.erase_after))
    except ConcordanceError as error:
        alert(settings, f"Erasure did not finish: {error} It is retried tomorrow. To retry now, run: concordance erase")
        raise
    return {"erased": msgspec.to_builtins(erased), "deleted_rows": deleted, "deleted_runs": runs}


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
    "Erase deleted documents from every store after CONCORDANCE_RETENTION__ERASE_AFTER, and delete old records.",
)
