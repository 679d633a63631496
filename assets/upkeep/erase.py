"""Erasure: remove deleted documents from every store and record for each store what was checked and when.

A deleted document leaves the index at once. Its bytes, texts and vectors are kept for a grace time
(CONCORDANCE_RETENTION__ERASE_AFTER), so that a mistake can be undone without parsing and embedding again; then they are erased,
together with answers that quote them. What to erase is derived from the stores, so the next erasure completes an interrupted one.
Syncs wait meanwhile, but not while the files of Postgres and of the vector index are rewritten, which takes longest.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import polars as pl
import structlog

from assets.chunked import TABLE as CHUNKED
from assets.parsed import TABLE as PARSED
from assets.reindex import WORK as REINDEX
from assets.upkeep.erasure_plan import ErasurePlan, plan_erasure
from assets.upkeep.redaction import distinctive, forget, redact
from resources.core.errors import InvalidRequestError
from resources.core.tables import table
from resources.settings import Settings
from resources.stores import leases, qdrant, rewriting
from resources.stores.clients import Stores
from resources.stores.fenced import fenced_session
from resources.stores.lake_erasure import drop_matching, drop_rows, is_scrubbed, left, scrub
from resources.stores.uploads import LOCK as UPLOADS_LOCK
from resources.syncs.jobs import hold_all
from sql.upkeep import Erasure, Retention

BATCH_CONTENTS = 500
"""Blobs deleted at a time; uploads wait meanwhile."""
BATCH_SECONDS = 1.0
"""A batch ends after this time: an object store takes one request for each blob, and Postgres ends a transaction that does nothing."""
_REFUSAL = (
    "`concordance reindex`, `erase` or `backup` has been running for an hour. Run the command again once it has ended."
)

log = structlog.get_logger("erase")


class StoreCheck(msgspec.Struct):
    """The check of one store: when (None: not checked) and with what result."""

    checked_at: datetime | None
    detail: str
    external: bool = False
    """Left to the store's own server. Only `concordance erase --now` or `--document` tries again."""


class ErasureReport(msgspec.Struct):
    """Data removed by one erasure."""

    documents: int = 0
    contents: int = 0
    """Blobs."""
    lake_rows: int = 0
    outdated: int = 0
    """Lake rows of texts and passages of earlier versions."""
    redacted: dict[str, int] = {}
    """Rows that lost their texts, by table."""
    shared: int = 0
    """Contents that are kept because another document has the same."""
    stores: dict[str, StoreCheck] = {}


def erase(
    settings: Settings, *, after: timedelta, document: str | None = None, thorough: bool = False
) -> ErasureReport:
    """Erase what was deleted `after` ago or earlier, or one document. `thorough` rewrites files even if nothing is due.

    Run the sweep first: documents that may still be indexed are left for the next erasure. Waits up to an hour for a reindex, a backup or
    another erasure, and as long again for syncs. Raises `BusyError`, `InvalidRequestError`
    for a document that is not deleted, `AbortSyncError` if the folder for temporary files is full, or `ServiceUnavailableError`.
    """
    # That of `reindex`, which writes to the lake without the sources' leases. It comes first, as in a cutover, so that neither waits for
    # what the other has.
    with leases.alone(settings.postgres_dsn, REINDEX, _REFUSAL, seconds=leases.WAIT_SECONDS) as reindex:
        with hold_all(settings) as held:
            stores = held[0]
            if stores.lease is not None:
                stores.lease.bind(reindex)
            report, due = _erased(stores, after, document, thorough=thorough)
        if due:
            _rewrite_files(settings, reindex, report, due)
    rows = {"lake_rows": report.lake_rows, "outdated": report.outdated}
    log.info("erase_done", documents=report.documents, contents=report.contents, **rows)
    return report


def _erased(
    stores: Stores, after: timedelta, document: str | None, *, thorough: bool
) -> tuple[ErasureReport, list[str]]:
    """Erase rows and blobs; return the report, and the stores whose files are to be rewritten."""
    clocks = datetime.now(UTC), Retention(stores.connection).time().astimezone(UTC)
    # nothing too early where a clock is ahead, and all of it if all is wanted
    cutoff = min(clocks) - after if after else max(clocks)
    if document is not None:
        _check_deleted(stores, document)
    found = plan_erasure(stores, cutoff=cutoff, document=document)
    report = ErasureReport(documents=len(found.documents), contents=len(found.contents), shared=found.shared)
    if found.empty():
        changed = _complete(stores)
    else:
        changed = found.beyond_vectors() or bool(_unscrubbed(stores))
        _erase_rows(stores, found, report, cutoff, document)
    report.outdated = _drop_outdated(stores, found.outdated)
    everything: list[str] = list(rewriting.STORES)
    return report, everything if changed or thorough else Erasure(stores.connection).files_due(stores=everything)


def _complete(stores: Stores) -> bool:
    """Remove the files that an interrupted erasure left although its rows are gone; return False if there are none."""
    interrupted = _unscrubbed(stores)
    for name in interrupted:
        scrub(stores.lake, name, stores.confirm)
    return bool(interrupted)


def _unscrubbed(stores: Stores) -> list[str]:
    return [name for name in stores.lake.names() if not is_scrubbed(stores.lake, name)]


def _check_deleted(stores: Stores, document: str) -> None:
    found = Erasure(stores.connection).named(document=document)
    if not found:
        raise InvalidRequestError(
            f"There is no document {document}, or it is erased already. See: concordance receipts"
        )
    alive = [row for row in found if row.state != "deleted"]
    if alive:
        raise InvalidRequestError(
            f"{alive[0].source_id} is not deleted (it is {alive[0].state}). Delete it at its source and sync first."
        )


def _erase_rows(
    stores: Stores, found: ErasurePlan, report: ErasureReport, cutoff: datetime, document: str | None
) -> None:
    """Redact texts that quote the documents, then erase their rows: the words that identify such texts come from those rows."""
    words = distinctive(stores.connection, found.words)
    since = found.since or datetime.min.replace(tzinfo=UTC)
    report.redacted = redact(stores.connection, found.documents, words, since)
    ids = [row.doc_id for row in found.documents]
    Erasure(stores.connection).forget_versions(doc_ids=ids)
    _drop_blobs(stores, found)
    kept_blobs = [content for content in found.contents if stores.blobs.exists(content)]
    texts = {name: ("text_hash", found.texts) for name in stores.lake.names() if name.startswith("embedded_")}
    # vectors first: after an interruption, only the chunks tell which are those of a single document
    keyed = {**texts, CHUNKED: ("content_key", found.keys), PARSED: ("content_key", found.keys)}
    for name, (column, values) in keyed.items():
        stores.keyed.forget(name, values)
        report.lake_rows += drop_rows(stores.lake, name, column, values, stores.confirm)
    for name, numbers in found.changes.items():
        report.lake_rows += drop_rows(stores.lake, name, "seq", numbers, stores.confirm)
    remaining = {name: left(stores.lake, name, column, values) for name, (column, values) in keyed.items()}
    remaining |= {name: left(stores.lake, name, "doc_id", ids) for name in found.changes}
    for name in stores.lake.names():
        scrub(stores.lake, name, stores.confirm)
    now = datetime.now(UTC)
    report.stores = {
        "blobs": StoreCheck(now, _said(len(kept_blobs), "contents") + _shared(found.shared)),
        **{f"lake.{name}": StoreCheck(now, _said(rows, "rows")) for name, rows in sorted(remaining.items())},
        **{
            f"postgres.{table}": StoreCheck(now, f"{rows} rows {'dropped' if table in _DROPPED else 'redacted'}")
            for table, rows in report.redacted.items()
        },
        "postgres.documents": StoreCheck(now, "dropped"),
    }
    with stores.connection.transaction():
        forget(stores.connection, found.documents, cutoff, document)
        Erasure(stores.connection).note_erased(doc_ids=ids, stores=report.stores)


def _drop_outdated(stores: Stores, outdated: pl.DataFrame) -> int:
    """Delete rows of texts and passages of earlier versions; return how many."""
    done = 0
    for rows in outdated.partition_by("name"):
        name = rows["name"][0]
        stores.keyed.forget_times(name, rows.select("content_key", "written_at"))
        key, version, *_ = table(name).key
        done += drop_matching(stores.lake, name, rows.select(key, pl.col("version").alias(version)), stores.confirm)
        scrub(stores.lake, name, stores.confirm)
    return done


_DROPPED = frozenset({"questions", "answer_cache"})


def _drop_blobs(stores: Stores, found: ErasurePlan) -> None:
    """Delete blobs. A concurrent upload of the same bytes waits, or finds them gone and is refused with a reason."""
    statements = Erasure(stores.connection)
    done = 0
    while done < len(found.contents):
        part = found.contents[done : done + BATCH_CONTENTS]
        with stores.connection.transaction():
            statements.lock_uploads(key=UPLOADS_LOCK)
            taken = set(statements.uploads_using(content_hashes=part))
            ends = time.monotonic() + BATCH_SECONDS
            for content in part:
                if content not in taken:
                    stores.blobs.delete(content)
                done += 1
                if time.monotonic() > ends:
                    break


def _rewrite_files(settings: Settings, reindex: leases.Lease, report: ErasureReport, due: Collection[str]) -> None:
    """Rewrite the files of Postgres and the vector index, which contain deleted rows and points until then."""
    with fenced_session(settings.postgres_dsn, reindex) as connection, closing(qdrant.client(settings)) as client:
        notes = rewriting.rewrite(settings, connection, client, due)
        now = datetime.now(UTC)
        checks = {
            store: StoreCheck(now if note.done else None, note.detail, note.external) for store, note in notes.items()
        }
        report.stores |= checks
        with connection.transaction():
            Erasure(connection).note_files(stores=checks)


def _said(number: int, what: str) -> str:
    return f"nothing left of {what}" if not number else f"{number} {what} left: another document needs them"


def _shared(number: int) -> str:
    return f"; {number} stay because other documents have the same" if number else ""
