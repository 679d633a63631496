"""Compare the stores of one source with the registry and return the differences. The caller holds the source's lock.

Documents and points are compared page by page, so that memory grows with the differences only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from assets.index.inventory import Inventory
from resources.core.domain import SourceName
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.jobs import stored_sources
from sql.upkeep import Reconciliation

PAGE_DOCUMENTS = 500
"""Documents whose points are looked up at a time."""
HEADS = 16
"""Concurrent requests to the blob store; a local folder needs none."""
FIRST_ID = str(UUID(int=0))


class LakeFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Documents by source id; for those that only the lake has, with their partition."""

    orphans: dict[str, str]
    missing: set[str]
    gone: list[str]
    """Contents whose bytes are missing or damaged."""


class IncompleteDocument(NamedTuple):
    """A live document whose index entry is incomplete."""

    doc_id: str
    source_id: str
    points: int
    """Chunks without a point."""
    rows: int
    """Chunks that Postgres has counted but no longer has."""


def lake_faults(stores: Stores, inventory: Inventory, *, deep: bool = False) -> LakeFaults:
    """Compare the lake with the registry: rows in both directions and the presence of bytes; with `deep`, also their hashes."""
    gone: list[str] = []
    for hashes in inventory.contents():
        missing = _without_bytes(stores, hashes)
        gone += missing
        if deep:
            gone += corrupt(stores, sorted(set(hashes) - set(missing)))
    return LakeFaults(
        orphans=inventory.only_stored(),
        missing={*inventory.unstored(), *inventory.with_contents(gone)},
        gone=gone,
    )


def corrupt(stores: Stores, hashes: list[str]) -> list[str]:
    """Return the contents whose stored bytes do not match their hash. Reads all of them."""
    return [one for one in hashes if hashlib.sha256(stores.blobs.read(one)).hexdigest() != one]


def _without_bytes(stores: Stores, hashes: Sequence[str]) -> list[str]:
    blobs = stores.blobs
    if not hashes or blobs.local_path(hashes[0]) is not None:
        return [content_hash for content_hash in hashes if not blobs.exists(content_hash)]
    with ThreadPoolExecutor(HEADS, thread_name_prefix="blobs") as pool:
        return [found for found, there in zip(hashes, pool.map(blobs.exists, hashes), strict=True) if not there]


class OrphanPoints(NamedTuple):
    """Points of one collection without a chunk of a live document, and the documents in their payloads."""

    collection: str
    ids: list[Any]
    doc_ids: list[str]


def orphan_points(stores: Stores) -> Iterator[OrphanPoints]:
    """Yield points without a chunk of a live document, page by page.

    Points that name none of our sources are attributed to `files`, which every installation has.
    """
    files = stores.source is SourceName.FILES
    others = [name.value for name in stored_sources(stores.connection) if name is not stores.source] if files else []
    chosen = qdrant.of_source(stores.source.value, others)
    for name in qdrant.collections(stores.qdrant):
        for records in qdrant.pages(stores.qdrant, name, chosen, ("doc_id",)):
            there = _live(stores, name, [record.id for record in records if isinstance(record.id, str)])
            found = [
                record for record in records if not isinstance(record.id, str) or str(UUID(record.id)) not in there
            ]
            if found:
                named = {str((record.payload or {}).get("doc_id")) for record in found}
                yield OrphanPoints(name, [record.id for record in found], sorted(filter(_is_id, named)))


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _live(stores: Stores, collection: str, chunk_ids: list[str]) -> set[str]:
    statements = Reconciliation(stores.connection, stores.source.value)
    return set(statements.live_points(collection=collection, chunk_ids=chunk_ids))


def incomplete_documents(stores: Stores) -> Iterator[list[IncompleteDocument]]:
    """Yield live documents with missing points or chunks in the active collection, page by page."""
    there = set(qdrant.collections(stores.qdrant))
    statements = Reconciliation(stores.connection, stores.source.value)
    after = FIRST_ID
    while page := statements.live_page(after=after, most=PAGE_DOCUMENTS):
        after = page[-1].doc_id
        wanted: dict[str, list[str]] = {}
        for row in page:
            wanted.setdefault(row.collection, []).extend(row.chunk_ids)
        found: set[str] = set()
        for name, ids in wanted.items():
            if name in there:
                found |= qdrant.existing(stores.qdrant, name, ids)
        faults = [
            IncompleteDocument(
                doc_id=row.doc_id,
                source_id=row.source_id,
                points=sum(chunk_id not in found for chunk_id in row.chunk_ids),
                rows=max(0, row.chunk_count - len(row.chunk_ids)) if row.content else 0,
            )
            for row in page
        ]
        if damaged := [fault for fault in faults if fault.points or fault.rows]:
            yield damaged
