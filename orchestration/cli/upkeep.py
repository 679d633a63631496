"""`reconcile`, `prune` and `audit`: what keeps the index true. All work on the database directly."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from orchestration.cli.arguments import Duration, Json, Source, operator
from orchestration.cli.output import note, say, say_json

if TYPE_CHECKING:
    from assets.upkeep.reconcile import ReconcileReport
    from resources.core.domain import SourceName
    from resources.settings import Settings

SIDES = ("lake", "postgres", "qdrant")
WEEK = timedelta(days=7)

Document = Annotated[str | None, Parameter(name="--document", help="Only this document, by doc_id or source id.")]
Since = Annotated[Duration, Parameter(help="How far back: 12h, 7d.")]


def reconcile(
    source: Source | None = None,
    /,
    *,
    apply: Annotated[bool, Parameter(negative="", help="Mend what differs.")] = False,
    deep: Annotated[
        bool, Parameter(negative="", help="Read all stored bytes and compare them with their hashes.")
    ] = False,
    json: Json = False,
) -> int:
    """Compare sources, lake, Postgres and Qdrant both ways, everything listed from the beginning.

    Parameters
    ----------
    source
        google_drive, slack, upload or files. Without it, every source that is set up.
    """
    import msgspec

    from assets.upkeep.reconcile import reconcile as compare
    from orchestration.demo.simulated import with_running_simulators
    from resources.settings import load

    settings = with_running_simulators(load())
    reports = [compare(settings, name, apply=apply, deep=deep) for name in _chosen(settings, source)]
    if json:
        say_json(summed(reports) | {"sources": {report.source: msgspec.to_builtins(report) for report in reports}})
    else:
        for report in reports:
            _tell(report, apply=apply)
    return 0 if all(report.clean() for report in reports) else 1


def summed(reports: Sequence[ReconcileReport]) -> dict[str, Any]:
    """Return the counts of several reports together, as `reconcile --json` promises them."""
    return {
        "checked": sum(report.checked for report in reports),
        "orphans": {side: sum(getattr(report.orphans, side) for report in reports) for side in SIDES},
        "missing": {side: sum(getattr(report.missing, side) for report in reports) for side in SIDES},
        "mended": sum(report.mended for report in reports),
    }


def _tell(report: ReconcileReport, *, apply: bool) -> None:
    counts = summed([report])
    for kind in ("orphans", "missing"):
        numbers = ", ".join(f"{number} in {side}" for side, number in counts[kind].items() if number)
        counts[kind] = numbers or "none"
    mended = f" Mended {report.mended} of {report.faults()}." if apply and report.faults() else ""
    say(
        f"{report.source.value}: {report.checked} documents. Too many: {counts['orphans']}. Missing: {counts['missing']}.{mended}"
    )
    for kind, examples in report.examples.items():
        note(f"  {kind}: {', '.join(examples[:5])}{' …' if len(examples) > 5 else ''}")
    for partition, reason in report.unlisted.items():
        note(f"  {partition} could not be listed and was left alone: {reason}")
    if report.error:
        note(f"  The sync that was to mend ended early: {report.error}")
    if report.waiting:
        note(f"  {report.waiting} deletions wait for approval. See: concordance prune list")
    if report.faults() and not apply:
        note("  Mend with: concordance reconcile --apply")


def _chosen(settings: Settings, source: str | None) -> list[SourceName]:
    """Return the sources to work on, once the database is known to answer."""
    from orchestration.cli.installed import database
    from resources.core.domain import SourceName
    from resources.core.errors import InvalidRequestError
    from resources.sources import HOW_TO_SET_UP, configured

    with database(settings) as connection:
        connection.execute("SELECT FROM documents LIMIT 1")
    if source is None:
        return [name for name in SourceName if configured(settings, name)]
    name = SourceName(source)
    if not configured(settings, name):
        raise InvalidRequestError(HOW_TO_SET_UP[name])
    return [name]


def prune_list(*, json: Json = False) -> None:
    """List deletions that wait for approval because they are many."""
    from orchestration.cli.installed import database
    from resources.settings import load
    from sql import queries

    with database(load()) as connection:
        rows = list(queries("upkeep").held(connection))
    if json:
        say_json(rows)
        return
    for row in rows:
        name = f"{row['partition']} ({row['title']})" if row["title"] else row["partition"]
        state = f"approved by {row['approved_by']}" if row["approved_at"] else "waits"
        say(
            f"{row['source']}  {name}  {row['documents']} of {row['of_documents']} documents  "
            f"since {row['held_at']:%Y-%m-%d %H:%M} UTC  {state}"
        )
        note(f"  such as {', '.join(row['examples'])}")
    if not rows:
        note("No deletion waits.")


def prune_approve(source: Source, partition: str | None = None, /, *, json: Json = False) -> int:
    """Let deletions that wait go on: the next sync removes the documents. It starts at once if Concordance runs.

    Parameters
    ----------
    source
        google_drive, slack, upload or files.
    partition
        Only this root, channel or day.
    """
    from orchestration.cli.installed import database
    from orchestration.demo.simulated import with_running_simulators
    from resources.core.domain import SourceName
    from resources.settings import load
    from sql import queries

    settings = with_running_simulators(load())
    with database(settings) as connection:
        rows = list(queries("upkeep").approve(connection, source=source, partition=partition, approved_by=operator()))
    job_id, then = _carry_out(settings, SourceName(source)) if rows else (None, "")
    if json:
        say_json({"source": source, "partitions": rows, "job_id": job_id})
    elif rows:
        say(f"Approved {sum(row['documents'] for row in rows)} deletions of {source}. {then}")
    if not rows:
        note("Nothing of that waits. See: concordance prune list")
    return 0 if rows else 1


def _carry_out(settings: Settings, source: SourceName) -> tuple[str | None, str]:
    """Start the sync that removes what was approved; return its job's id and what to say."""
    from resources.core.errors import BusyError, InvalidRequestError, NotRunningError
    from resources.launch import start_sync

    try:
        job = start_sync(settings, source, partitions=None, full=False, requested_by="prune approve")
    except BusyError:
        return None, "A sync is running; the one after it removes them."
    except (NotRunningError, InvalidRequestError) as error:
        return None, f"The next sync removes them; none could be started now: {error}"
    return job.job_id, f"The sync that removes them has started: job {job.job_id}."


def prune_reject(source: Source, partition: str | None = None, /, *, json: Json = False) -> int:
    """Forget deletions that wait: the documents stay until the source says again that they are gone.

    Parameters
    ----------
    source
        google_drive, slack, upload or files.
    partition
        Only this root, channel or day.
    """
    from orchestration.cli.installed import database
    from resources.settings import load
    from sql import queries

    with database(load()) as connection:
        rows = list(queries("upkeep").reject(connection, source=source, partition=partition))
    if json:
        say_json({"source": source, "partitions": rows})
    elif rows:
        say(f"Kept {sum(row['documents'] for row in rows)} documents of {source}.")
    if not rows:
        note("Nothing of that waits. See: concordance prune list")
    return 0 if rows else 1


def audit_run(source: Source | None = None, /, *, json: Json = False) -> int:
    """Compare permissions in the index with the sources', now; take away what is too much and give what is missing.

    Parameters
    ----------
    source
        google_drive, slack, upload or files. Without it, every source that is set up.
    """
    import msgspec

    from assets.upkeep.audit import audit
    from orchestration.demo.simulated import with_running_simulators
    from resources.settings import load

    settings = with_running_simulators(load())
    reports = [audit(settings, name) for name in _chosen(settings, source)]
    if json:
        say_json({report.source: msgspec.to_builtins(report) for report in reports})
    for report in reports:
        if not json:
            too_much = max(report.excess.postgres, report.excess.qdrant)
            too_little = max(report.missing.postgres, report.missing.qdrant)
            say(
                f"{report.source.value}: {report.checked} documents. Rights too many: {too_much}, too few: {too_little}. "
                f"Mended {report.mended} documents."
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
    """List rights to find documents that were given or taken, and when each took effect."""
    from orchestration.cli.installed import database
    from resources.core import permissions
    from resources.settings import load
    from sql import queries

    whom = None if principal is None else permissions.principal(principal)
    with database(load()) as connection:
        rows = list(
            queries("upkeep").trail(connection, since=datetime.now(UTC) - since, document=document, principal=whom)
        )
    if json:
        say_json(rows)
        return
    for row in rows:
        effect = f"in effect {row['effective_at']:%H:%M:%S}" if row["effective_at"] else "not in effect yet"
        say(
            f"{row['at']:%Y-%m-%d %H:%M:%S}  {row['change']}  {row['principal']}  {row['source']}  {row['title']}  {effect}"
        )
    if not rows:
        note("No right was given or taken. Look further back with --since 30d")
