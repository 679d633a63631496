"""The daily job that erases deleted documents after their grace period and deletes old records."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import msgspec

from orchestration.jobs import ALERTED, reason, scheduled
from orchestration.run_history import prune_runs
from resources.alerts import alert
from resources.core.durations import duration
from resources.core.errors import ConcordanceError
from resources.settings import Settings, load

CRON = "30 1 * * *"
"""After the deletion sweep, which verifies that the index contains nothing of these documents."""


def erase_due(settings: Settings, instance: dg.DagsterInstance | None = None) -> dict[str, Any]:
    """Erase what is due, apply the retention settings and return the counts.

    A part that fails does not stop the others. Raises `ConcordanceError` in the end, after an alert.
    """
    from assets.upkeep import retention
    from assets.upkeep.erase import erase

    parts: dict[str, Callable[[], Any]] = {
        "deleted_rows": lambda: retention.prune(settings),
        "expired_rows": lambda: retention.prune_expired(settings),
        "deleted_runs": lambda: 0 if instance is None else prune_runs(settings, instance),
        "erased": lambda: msgspec.to_builtins(erase(settings, after=duration(settings.erase_after))),
    }
    done: dict[str, Any] = {}
    failures: list[str] = []
    for name, part in parts.items():
        try:
            done[name] = part()
        except Exception as error:  # noqa: BLE001 # raised in the end
            failures.append(reason(error))
    if failures:
        why = " ".join(dict.fromkeys(failures))  # all parts may fail alike
        alert(settings, f"Erasure did not finish: {why} It is retried tomorrow. To retry now, run: concordance erase")
        raise ConcordanceError(why)
    done["deleted_rows"] |= done.pop("expired_rows")
    return done


@dg.op(description="Erase deleted documents whose grace period is over, and records older than their settings allow.")
def erasure(context: dg.OpExecutionContext) -> None:
    try:
        done = erase_due(load(), context.instance)
    except ConcordanceError as error:
        raise dg.Failure(str(error), metadata={ALERTED: True}, allow_retries=False) from error
    context.add_output_metadata(
        {name: value if isinstance(value, int) else dg.MetadataValue.json(value) for name, value in done.items()}
    )


daily_erasure, daily_erasure_schedule = scheduled(
    erasure,
    "daily_erasure",
    CRON,
    "Erase deleted documents from every store after CONCORDANCE_RETENTION__ERASE_AFTER, and delete old records.",
)
