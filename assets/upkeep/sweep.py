"""The daily deletion sweep: verify that nothing of deleted documents is left in any store, and complete their receipts.

A sync removes what it tombstones in the same run. The sweep verifies that for every deletion and every collection, and removes what a
crash left behind. It also drops the saved state of interrupted listings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from assets.index.comparison import FIRST_ID
from assets.index.doubt import doubting
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.jobs import hold
from sql.upkeep import Sweep
from sql.upkeep_rows import GoneDocument

PAGE_DOCUMENTS = 1000


class SweepReport(msgspec.Struct):
    """Numbers of points that the sweep of one source checked and removed."""

    source: SourceName
    documents: int = 0
    """Deleted and lost documents that were checked."""
    points: int = 0
    chunks: int = 0
    notes: int = 0
    """Rows of interrupted listings that will not be resumed."""
    receipts: int = 0
    """Deletions verified for the first time."""


def sweep(settings: Settings, source: SourceName) -> SweepReport:
    """Remove what is left of deleted documents and complete their receipts, without contacting the source.

    Syncs of the source wait meanwhile. Raises `AbortSyncError` if points remain, `BusyError` or `ServiceUnavailableError`.
    """
    report = SweepReport(source=source)
    with hold(settings, source) as stores:
        names = qdrant.collections(stores.qdrant)
        statements = Sweep(stores.connection, source.value)
        after = FIRST_ID
        while page := statements.gone(after=after, most=PAGE_DOCUMENTS):
            after = page[-1].doc_id
            _clear(stores, names, page, report)
        report.notes += statements.forget_listings() + statements.forget_fetched()
    return report


def _clear(stores: Stores, names: list[str], page: list[GoneDocument], report: SweepReport) -> None:
    """Remove a page of documents from Qdrant, then from Postgres together with their receipts in one transaction."""
    ids = [row.doc_id for row in page]
    chunks = sum(row.chunks for row in page)
    lingering = [row.doc_id for row in page if row.indexed or row.chunks]
    if lingering:
        stores.index.begin_removal(doc_ids=lingering)
    stores.confirm()
    with doubting(stores, names, ids):
        points = sum(_remove(stores, name, ids) for name in names)
        with stores.connection.transaction():
            if points or lingering:
                stores.index.removed(doc_ids=lingering)
                stores.documents.raise_version()
            statements = Sweep(stores.connection, stores.source.value)
            proved = statements.verify_receipts(rows=[_receipt(row) for row in page if row.deleted_at is not None])
    report.documents += len(page)
    report.points += points
    report.chunks += chunks
    report.receipts += len(proved)


def _remove(stores: Stores, name: str, doc_ids: list[str]) -> int:
    """Delete the points of these documents from a collection and return their number."""
    found = qdrant.count_points(stores.qdrant, name, doc_ids)
    if found:
        qdrant.delete_documents(stores.qdrant, name, doc_ids)
        left = qdrant.count_points(stores.qdrant, name, doc_ids)
        if left:
            raise AbortSyncError(f"{name} still holds {left} points of deleted documents; run the sweep again.")
    return found


def _receipt(row: GoneDocument) -> dict[str, Any]:
    """Return a receipt for a deletion that no sync recorded; a document that was never indexed counts as removed at its deletion."""
    gone_at = datetime.now(UTC) if row.indexed or row.chunks else row.deleted_at
    return {
        "doc_id": row.doc_id,
        "source_id": row.source_id,
        "tombstone_at": row.deleted_at,
        "source_time": row.gone_at_source,
        "source_time_is_exact": row.gone_is_exact,
        "points_deleted": row.chunk_count,
        "points_gone_at": gone_at,
        "caches_gone_at": gone_at,
    }
