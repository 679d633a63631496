"""Scheduled jobs that verify the index: weekly reconciliation, daily deletion sweep and weekly permission audit.

Each processes the sources in turn. A source that fails does not stop the others, but fails the run at the end.
"""

from collections.abc import Callable, Iterable
from typing import Any

import dagster as dg
import msgspec

from orchestration.jobs import reason, scheduled
from resources.alerts import alert
from resources.core.domain import SourceName
from resources.settings import Settings, load
from resources.sources import configured, label, names, stored
from resources.stores.postgres import session
from resources.syncs.jobs import stored_sources

RECONCILE_CRON = "0 2 * * 6"
"""Saturday night, because every source is listed completely."""
SWEEP_CRON = "0 1 * * *"
AUDIT_CRON = "30 2 * * 0"


def reconcile_all(settings: Settings) -> dict[str, Any]:
    """Reconcile and repair every source that is set up, and alert if differences remain. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.reconcile import reconcile

        report = reconcile(settings, source, apply=True)
        if not report.clean():
            lost = f"{report.forgotten} documents are only in the lake. Bring them back with: concordance rebuild registry {source.value}"
            alert(
                settings,
                f"Reconciliation of {label(source)} repaired {report.repaired} of {report.faults()} differences; "
                f"{len(report.unlisted)} partitions could not be listed. "
                f"{lost if report.forgotten else f'See: concordance reconcile {source.value}'}",
            )
        return report

    return _each(_set_up(settings), one)


def sweep_all(settings: Settings) -> dict[str, Any]:
    """Run the deletion sweep of every source, even of those no longer set up. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.sweep import sweep

        return sweep(settings, source)

    with session(settings.postgres_dsn) as connection:
        sources = stored_sources(connection)
    return _each(sources, one)


def audit_all(settings: Settings) -> dict[str, Any]:
    """Audit the permissions of every source that is set up. Returns reports by source."""

    def one(source: SourceName) -> Any:
        from assets.upkeep.audit import audit

        return audit(settings, source)

    return _each(_set_up(settings), one)


def _set_up(settings: Settings) -> list[SourceName]:
    known = stored.complete(settings)
    return [source for source in names() if configured(known, source)]


def _each(sources: Iterable[SourceName], work: Callable[[SourceName], Any]) -> dict[str, Any]:
    reports: dict[str, Any] = {}
    for source in sources:
        try:
            reports[source.value] = msgspec.to_builtins(work(source))
        except Exception as error:  # noqa: BLE001 # fails the run at the end
            reports[source.value] = {"error": reason(error)}
    return reports


def _show(context: dg.OpExecutionContext, reports: dict[str, Any]) -> None:
    """Attach the reports as metadata by source, without examples, which name documents. Raises `dg.Failure` if one has an error."""
    metadata = {
        source: dg.MetadataValue.json({name: value for name, value in report.items() if name != "examples"})
        for source, report in reports.items()
    }
    errors = [f"{source}: {report['error']}" for source, report in reports.items() if report.get("error")]
    if errors:
        raise dg.Failure(" ".join(errors), metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)


@dg.op(description="Compare source, lake, Postgres and Qdrant in both directions, and repair differences.")
def reconciliation(context: dg.OpExecutionContext) -> None:
    _show(context, reconcile_all(load()))


@dg.op(description="Verify that deleted documents are gone from every store, and complete the receipts.")
def deletion_sweep(context: dg.OpExecutionContext) -> None:
    _show(context, sweep_all(load()))


@dg.op(description="Compare permissions in Postgres and Qdrant with the sources', and revoke excess grants.")
def permission_audit(context: dg.OpExecutionContext) -> None:
    _show(context, audit_all(load()))


_SCHEDULED = [
    scheduled(
        reconciliation,
        "weekly_reconciliation",
        RECONCILE_CRON,
        "List every source completely, compare it with all stores, and repair differences.",
    ),
    scheduled(
        deletion_sweep,
        "daily_deletion_sweep",
        SWEEP_CRON,
        "Verify that nothing is left of deleted documents, and complete their receipts.",
    ),
    scheduled(
        permission_audit,
        "weekly_permission_audit",
        AUDIT_CRON,
        "Compare permissions in the stores with those that the sources grant.",
    ),
]
JOBS = [job for job, _ in _SCHEDULED]
SCHEDULES = [schedule for _, schedule in _SCHEDULED]
