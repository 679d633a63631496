"""What keeps the index true over time: weekly reconciliation, daily deletion sweep, weekly permission audit, as jobs with schedules.

Each goes over the sources one after the other; one that fails does not stop the others, and fails the run at the end.
"""

from collections.abc import Callable, Iterable
from typing import Any

import dagster as dg
import msgspec

from resources.alerts import alert
from resources.core.domain import SOURCE_LABELS, SourceName
from resources.core.errors import ConcordanceError
from resources.settings import Settings, load
from resources.sources import configured

RECONCILE_CRON = "0 2 * * 6"
"""Saturday night: every source is listed from the beginning."""
SWEEP_CRON = "0 1 * * *"
AUDIT_CRON = "30 2 * * 0"


def reconcile_all(settings: Settings) -> dict[str, Any]:
    """Reconcile and mend every source that is set up; alert where something stays wrong. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.reconcile import reconcile

        report = reconcile(settings, source, apply=True)
        if not report.clean():
            alert(
                settings,
                f"Reconciliation of {SOURCE_LABELS[source]} mended {report.mended} of {report.faults()} differences; "
                f"{len(report.unlisted)} partitions could not be listed. See: concordance reconcile {source.value}",
            )
        return report

    return _each(_set_up(settings), one)


def sweep_all(settings: Settings) -> dict[str, Any]:
    """Sweep what is deleted, of every source, whether it is still set up or not. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.sweep import sweep

        return sweep(settings, source)

    return _each(SourceName, one)


def audit_all(settings: Settings) -> dict[str, Any]:
    """Audit the permissions of every source that is set up. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.audit import audit

        return audit(settings, source)

    return _each(_set_up(settings), one)


def _set_up(settings: Settings) -> list[SourceName]:
    return [source for source in SourceName if configured(settings, source)]


def _each(sources: Iterable[SourceName], work: Callable[[SourceName], Any]) -> dict[str, Any]:
    reports: dict[str, Any] = {}
    for source in sources:
        try:
            reports[source.value] = msgspec.to_builtins(work(source))
        except ConcordanceError as error:
            reports[source.value] = {"error": str(error)}
    return reports


def _show(context: dg.OpExecutionContext, reports: dict[str, Any]) -> None:
    """Show the reports as metadata, one a source. Raises `dg.Failure` when one has an error."""
    metadata = {source: dg.MetadataValue.json(report) for source, report in reports.items()}
    errors = [f"{source}: {report['error']}" for source, report in reports.items() if report.get("error")]
    if errors:
        raise dg.Failure(" ".join(errors), metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)


@dg.op(description="Compare source, lake, Postgres and Qdrant both ways, and mend.")
def reconciliation(context: dg.OpExecutionContext) -> None:
    """Reconcile and show the reports."""
    _show(context, reconcile_all(load()))


@dg.op(description="Prove that what is deleted is gone everywhere, and complete the receipts.")
def deletion_sweep(context: dg.OpExecutionContext) -> None:
    """Sweep and show the reports."""
    _show(context, sweep_all(load()))


@dg.op(description="Compare permissions in Postgres and Qdrant with the sources'; take away what is too much.")
def permission_audit(context: dg.OpExecutionContext) -> None:
    """Audit and show the reports."""
    _show(context, audit_all(load()))


@dg.job(
    name="weekly_reconciliation",
    executor_def=dg.in_process_executor,
    description="Every source listed from the beginning and compared with all stores; differences are mended.",
)
def weekly_reconciliation() -> None:
    """Bind the one step."""
    reconciliation()


@dg.job(
    name="daily_deletion_sweep",
    executor_def=dg.in_process_executor,
    description="Nothing of deleted documents is left, and receipts say so.",
)
def daily_deletion_sweep() -> None:
    """Bind the one step."""
    deletion_sweep()


@dg.job(
    name="weekly_permission_audit",
    executor_def=dg.in_process_executor,
    description="Rights in the stores against the rights that the sources give.",
)
def weekly_permission_audit() -> None:
    """Bind the one step."""
    permission_audit()


JOBS = [weekly_reconciliation, daily_deletion_sweep, weekly_permission_audit]
SCHEDULES = [
    dg.ScheduleDefinition(job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING)
    for job, cron in zip(JOBS, (RECONCILE_CRON, SWEEP_CRON, AUDIT_CRON), strict=True)
]
