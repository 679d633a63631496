"""The commands `erase` and `receipts`, which access the stores directly."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.installed import database
from orchestration.cli.output import note, say, say_json, say_json_each
from orchestration.cli.upkeep import WEEK, Document, Since
from resources.core.domain import document_id
from resources.core.durations import duration
from resources.settings import load
from resources.syncs.jobs import stored_sources
from sql.upkeep import Receipts
from sql.upkeep_rows import DeletionReceipt


def erase(
    *,
    document: Document = None,
    now: Annotated[
        bool,
        Parameter(
            negative="", help="Erase all deleted documents, without waiting for CONCORDANCE_RETENTION__ERASE_AFTER."
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Every file that may contain erased text is then rewritten; searches continue meanwhile."""
    from assets.upkeep.erase import erase as carry_out
    from assets.upkeep.sweep import sweep

    settings = load()
    with database(settings) as connection:
        sources = stored_sources(connection)
    for source in sources:
        sweep(settings, source)
    thorough = now or document is not None
    after = timedelta() if thorough else duration(settings.erase_after)
    report = carry_out(settings, after=after, document=document, thorough=thorough)
    left = {store: check for store, check in report.stores.items() if check.checked_at is None}
    if json:
        say_json(msgspec.to_builtins(report))
    else:
        redacted = sum(report.redacted.values())
        say(
            f"Erased {report.documents} documents: {report.contents} contents and {report.lake_rows} lake rows. "
            f"Redacted or dropped {redacted} rows of answers, searches and other records."
        )
        if report.shared:
            note(f"  {report.shared} contents were kept because other documents have the same content.")
        if report.outdated:
            note(f"  {report.outdated} rows of texts and passages of earlier versions were removed from the lake.")
        for store, check in left.items():
            note(f"  not rewritten: {store}: {check.detail}")
    return int(not all(check.external for check in left.values()))


def receipts(*, document: Document = None, since: Since = WEEK, json: Json = False) -> None:
    with database(load()) as connection:
        ids = [] if document is None else [document_id(source, document) for source in stored_sources(connection)]
        rows = Receipts(connection).receipts(since=datetime.now(UTC) - since, document=document, doc_ids=ids)
        if json:
            say_json_each(rows)
            return
        row = None
        for row in rows:
            _show(row)
    if row is None:
        note("Nothing was deleted in this period. For a longer one, use --since 30d")


def _show(row: DeletionReceipt) -> None:
    late, about = row.seconds_to_invisible, "" if row.source_time_is_exact else "at most "
    say(
        f"{row.tombstone_at:%Y-%m-%d %H:%M:%S}  {row.source}  {row.source_id or row.doc_id}  "
        + (f"invisible {about}{late:.0f} s after the source" if late is not None else "time at the source unknown")
    )
    say(f"  index: {row.points_deleted} points gone {_at(row.points_gone_at)}, checked {_at(row.verified_at)}")
    say(f"  search cache: gone {_at(row.caches_gone_at)}, checked {_at(row.verified_at)}")
    if row.erased_at is None:
        say("  blobs, lake, answers, searches, files: not erased yet, not checked")
    for store, check in sorted(row.stores.items()):
        when = f"checked {check['checked_at'][:19].replace('T', ' ')}" if check["checked_at"] else "not checked"
        say(f"  {store}: {check['detail']}, {when}")


def _at(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}" if time is not None else "not yet"
