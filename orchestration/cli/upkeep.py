"""The commands `reconcile`, `prune` and `audit`, which access the database directly."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Duration, Json, OneOrEverySource, Source, moment, operator
from orchestration.cli.installed import database
from orchestration.cli.output import note, say, say_json, say_json_each
from orchestration.demo.running import with_running_sample
from resources.core import permissions
from resources.core.domain import SourceName
from resources.core.errors import BusyError, InvalidRequestError, NotRunningError, TemporaryError
from resources.settings import Settings, load
from resources.sources import configured, names, spec_of, stored
from sql.operators import Prune
from sql.upkeep import AuditTrail

if TYPE_CHECKING:
    from assets.upkeep.reconcile import ReconcileReport

SIDES = ("lake", "postgres", "qdrant")
WEEK = timedelta(days=7)
NONE_PENDING = "No matching deletions are pending. See: concordance prune list"

Document = Annotated[str | None, Parameter(name="--document", help="Only this document, by doc_id or source id.")]
Partition = Annotated[str | None, Parameter(help="Only this root, channel or day.")]
Until = Annotated[
    datetime | None,
    Parameter(
        converter=moment,
        n_tokens=1,
        help="Only what waited then. `prune list` prints it: what is held later is not deleted.",
    ),
]
Since = Annotated[Duration, Parameter(help="How far back: 12h, 7d.")]


def reconcile(
    source: OneOrEverySource = None,
    /,
    *,
    apply: Annotated[bool, Parameter(negative="", help="Repair differences.")] = False,
    deep: Annotated[
        bool, Parameter(negative="", help="Read all stored bytes and compare them with their hashes.")
    ] = False,
    json: Json = False,
) -> int:
    from assets.upkeep.reconcile import reconcile as compare

    settings = with_running_sample(load())
    reports = [compare(settings, name, apply=apply, deep=deep) for name in _chosen(settings, source)]
    if json:
        say_json(summed(reports) | {"sources": {report.source: msgspec.to_builtins(report) for report in reports}})
    else:
        for report in reports:
            _show(report, apply=apply)
    return 0 if all(report.clean() for report in reports) else 1


def summed(reports: Sequence[ReconcileReport]) -> dict[str, Any]:
    """Return the sums of several reports for `reconcile --json`."""
    repaired = sum(report.repaired for report in reports)
    return {
        "checked": sum(report.checked for report in reports),
        "orphans": {side: sum(getattr(report.orphans, side) for report in reports) for side in SIDES},
        "missing": {side: sum(getattr(report.missing, side) for report in reports) for side in SIDES},
        "forgotten": sum(report.forgotten for report in reports),
        "repaired": repaired,
        "mended": repaired,  # former name, for scripts that read it
    }


def _show(report: ReconcileReport, *, apply: bool) -> None:
    counts = summed([report])
    for kind in ("orphans", "missing"):
        numbers = ", ".join(f"{number} in {side}" for side, number in counts[kind].items() if number)
        counts[kind] = numbers or "none"
    repaired = f" Repaired: {report.repaired} of {report.faults()}." if apply and report.faults() else ""
    say(
        f"{report.source.value}: {report.checked} documents. Orphans: {counts['orphans']}. Missing: {counts['missing']}.{repaired}"
    )
    for kind, examples in report.examples.items():
        note(f"  {kind}: {', '.join(examples[:5])}{' …' if len(examples) > 5 else ''}")
    for partition, reason in report.unlisted.items():
        note(f"  {partition} could not be listed and was not changed: {reason}")
    if report.error:
        note(f"  The repairing sync ended early: {report.error}")
    if report.waiting:
        note(f"  {report.waiting} deletions await approval. See: concordance prune list")
    if report.forgotten:
        note(
            f"  {report.forgotten} documents are only in the lake. Bring them back with: concordance rebuild registry {report.source.value}"
        )
    if report.faults() and not apply:
        note("  Repair with: concordance reconcile --apply")


def _chosen(settings: Settings, source: str | None) -> list[SourceName]:
    """Return the given source or all that are set up. Raises `NotRunningError` if the database is not responding."""
    with database(settings) as connection:
        settings = stored.complete(settings, connection)
    if source is None:
        return [name for name in names() if configured(settings, name)]
    name = SourceName(source)
    if not configured(settings, name):
        raise InvalidRequestError(spec_of(name).help)
    return [name]


def prune_list(*, json: Json = False) -> None:
    with database(load()) as connection:
        rows = Prune(connection).held()
    if json:
        say_json(rows)
        return
    for row in rows:
        name = f"{row.partition} ({row.title})" if row.title else row.partition
        state = f"approved by {row.approved_by}" if row.approved_at else "pending"
        say(
            f"{row.source}  {name}  {row.documents} of {row.of_documents} documents  "
            f"since {row.held_at:%Y-%m-%d %H:%M} UTC  {state}"
        )
        note(f"  such as {', '.join(row.examples)}")
        if not row.approved_at:
            command = (
                "concordance",
                "prune",
                "approve",
                row.source,
                row.partition,
                "--until",
                f"{row.last_held_at:%Y-%m-%dT%H:%M:%S.%fZ}",
            )
            note(f"  Delete these: {shlex.join(command)}")
    if not rows:
        note("No deletions are pending.")


def prune_approve(source: Source, partition: Partition = None, /, *, until: Until = None, json: Json = False) -> int:
    from serving.sources.held_deletions import decide, later

    settings = with_running_sample(load())
    with database(settings) as connection:
        rows, left = decide(connection, source, "approve", partition=partition, last_held_at=until, by=operator())
    job_id, message = _start_sync(settings, SourceName(source)) if rows else (None, "")
    if json:
        say_json({"source": source, "partitions": rows, "left": left, "job_id": job_id})
    elif rows:
        said = " ".join(filter(None, [later(left), message]))
        say(f"Approved {sum(row.documents for row in rows)} deletions of {source}. {said}")
    if not rows:
        note(NONE_PENDING)
    return 0 if rows else 1


def _start_sync(settings: Settings, source: SourceName) -> tuple[str | None, str]:
    """Start the sync that removes the approved documents; return its job id and a message."""
    from resources.syncs.launch import start_sync

    try:
        job = start_sync(settings, source, partitions=None, full=False, requested_by="prune approve")
    except BusyError as error:
        if error.merged:
            return error.job_id, f"The running sync removes them: job {error.job_id}."
        return None, "A sync is running; the next one removes them."
    except (NotRunningError, InvalidRequestError, TemporaryError) as error:
        return None, f"The next sync removes them. It could not be started now: {error}"
    return job.job_id, f"Started the sync that removes them: job {job.job_id}."


def prune_reject(source: Source, partition: Partition = None, /, *, json: Json = False) -> int:
    from serving.sources.held_deletions import decide

    with database(load()) as connection:
        rows = decide(connection, source, "reject", partition=partition, last_held_at=None, by=operator()).partitions
    if json:
        say_json({"source": source, "partitions": rows})
    elif rows:
        say(f"Kept {sum(row.documents for row in rows)} documents of {source}.")
    if not rows:
        note(NONE_PENDING)
    return 0 if rows else 1


def audit_run(source: OneOrEverySource = None, /, *, json: Json = False) -> int:
    from assets.upkeep.audit import audit

    settings = with_running_sample(load())
    reports = [audit(settings, name) for name in _chosen(settings, source)]
    if json:
        say_json({report.source: msgspec.to_builtins(report) for report in reports})
    for report in reports:
        if not json:
            excess = max(report.excess.postgres, report.excess.qdrant)
            missing = max(report.missing.postgres, report.missing.qdrant)
            say(
                f"{report.source.value}: {report.checked} documents. Excess grants: {excess}, missing grants: {missing}. "
                f"Repaired: {report.repaired} documents."
            )
        for partition, reason in report.unlisted.items():
            note(f"  {partition} could not be listed: {reason}")
    return 1 if any(report.unlisted or report.excess.postgres or report.excess.qdrant for report in reports) else 0


def audit_grants(
    *,
    document: Document = None,
    principal: Annotated[str | None, Parameter(help="Only this email, group:…, domain:…, slack:… or public.")] = None,
    since: Since = WEEK,
    json: Json = False,
) -> None:
    whom = None if principal is None else permissions.principal(principal)
    with database(load()) as connection:
        rows = AuditTrail(connection).trail(since=datetime.now(UTC) - since, document=document, principal=whom)
        if json:
            say_json_each(rows)
            return
        row = None
        for row in rows:
            effect = f"in effect {row.effective_at:%H:%M:%S}" if row.effective_at else "not in effect yet"
            say(f"{row.at:%Y-%m-%d %H:%M:%S}  {row.change}  {row.principal}  {row.source}  {row.title}  {effect}")
    if row is None:
        note("No permission was granted or revoked in this period. For a longer one, use --since 30d")
