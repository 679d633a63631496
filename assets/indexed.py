"""The `indexed` stage: write pending documents with their chunks and vectors to Postgres, then to Qdrant.

An entry counts as complete only once both stores have it (`indexed_content`). A crash in between leaves the document pending, and a
repetition overwrites the same points. Removals come first, then payload updates, then new content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.chunked import batches, chunk_version, parsed_documents
from assets.index.keywords import others
from assets.index.points import WRITE_POINTS, IndexEntry, PointWriter, Vectors
from assets.index.targets import IndexCollection, Target
from assets.parsed import TABLE as PARSED
from assets.parsed import Pending
from assets.stages.diff import GONE
from assets.stages.identify import own_title
from assets.stages.payload import document_payload, rfc3339
from assets.stages.profiles import Profile
from resources.core.durations import duration
from resources.core.errors import AbortSyncError
from resources.stores import qdrant
from resources.stores.damage import rows_lost
from resources.syncing import SyncRun
from sql import queries

WINDOW_DOCUMENTS = 4000
"""Documents whose chunks and vectors are read from the lake at a time: about 10,000 chunks and 15 MB of vectors."""
REMOVE_DOCUMENTS = 500
REFRESHES = 4

registry = queries("registry")
_json = msgspec.json.Encoder()


def remove_gone(run: SyncRun, collection: IndexCollection) -> int:
    """Remove documents that are not live from every collection and Postgres, verify that, and save a receipt of each deletion."""
    rows = list(registry.to_remove(run.connection, source=run.source.value))
    names = sorted({collection.name, *qdrant.collections(run.qdrant)}) if rows else []
    for part in batches(rows, REMOVE_DOCUMENTS):
        ids = [row["doc_id"] for row in part]
        for name in names:
            qdrant.delete_documents(run.qdrant, name, ids)
            left = qdrant.count_points(run.qdrant, name, ids)
            if left:
                raise AbortSyncError(f"{name} still holds {left} points of deleted documents; run the sync again.")
        receipts = [
            {
                "doc_id": row["doc_id"],
                "source_id": row["source_id"],
                "tombstone_at": row["deleted_at"],
                "source_time": row["gone_at_source"],
                "source_time_is_exact": row["gone_is_exact"],
                "points_deleted": row["chunk_count"],
            }
            for row in part
            if row["deleted_at"] is not None
        ]
        with run.connection.transaction():
            registry.drop_chunks(run.connection, doc_ids=ids)
            registry.removed(run.connection, doc_ids=ids)
            registry.raise_version(run.connection)
            registry.drop_caches(run.connection)
            if receipts:
                registry.save_receipts(run.connection, source=run.source.value, rows=_json.encode(receipts).decode())
        run.counts.deleted += sum(row["state"] in GONE for row in part)
        run.progress("indexed")
    return len(rows)


def update_payloads(run: SyncRun, active: Target) -> int:
    """Update the payloads of documents with changed metadata or permissions; nothing is embedded, vectors are kept."""
    name = active.collection.name
    rows = list(registry.payloads_to_update(run.connection, source=run.source.value, signatures=active.signatures()))
    for part in batches(rows, REMOVE_DOCUMENTS):
        done = _update_payloads(run, name, part)
        with run.connection.transaction():
            registry.payloads_updated(run.connection, rows=done)
            registry.raise_version(run.connection)
        run.touched.update(row["partition"] for row in part)
        run.counts.synced += len(part)
        run.progress("indexed")
    for other in others(run, name):
        behind = list(registry.payloads_to_update_beside(run.connection, source=run.source.value, collection=other))
        for part in batches(behind, REMOVE_DOCUMENTS):
            registry.payloads_updated_beside(run.connection, collection=other, rows=_update_payloads(run, other, part))
    return len(rows)


def _update_payloads(run: SyncRun, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Update the payloads in one collection from registry rows, and return rows that record the update."""
    qdrant.set_payload(run.qdrant, name, {str(row["doc_id"]): document_payload(row) for row in rows})
    return _json.encode(
        [{"doc_id": str(row["doc_id"]), "indexed_payload": row["payload_hash"]} for row in rows]
    ).decode()


def refresh_checks(run: SyncRun, collection: IndexCollection) -> int:
    """Write the time of each partition's last permission check to Qdrant, a few times per `ACL_MAX_AGE`.

    Searches without Postgres depend on it. Documents whose deletion awaits approval keep their earlier time, since their permissions
    have not been read since.
    """
    seconds = duration(run.settings.acl_max_age).total_seconds() / REFRESHES
    rows = list(registry.to_refresh(run.connection, source=run.source.value, seconds=seconds))
    names = [collection.name, *others(run, collection.name)] if rows else []
    for row in rows:
        checked = rfc3339(row["acl_checked_at"])
        for name in names:
            qdrant.set_partition_payload(
                run.qdrant, name, run.source.value, row["partition"], {"acl_checked_at": checked}
            )
        registry.refreshed(
            run.connection, source=run.source.value, partition=row["partition"], painted=row["acl_checked_at"]
        )
    if rows:
        partitions = [row["partition"] for row in rows]
        held = registry.held_checks(run.connection, source=run.source.value, partitions=partitions)
        stale = {row["doc_id"]: {"acl_checked_at": rfc3339(row["held_at"])} for row in held}
        for name in names if stale else ():
            qdrant.set_payload(run.qdrant, name, stale)
    return len(rows)


def index_missing(run: SyncRun, target: Target, pending: Sequence[Pending]) -> dict[str, int]:
    """Write pending documents to both stores. Returns counts of documents and points."""
    collection, profiles = target.collection, target.profiles
    totals = {"documents": 0, "points": 0}
    with PointWriter(run, collection) as writer:
        for part in batches(pending, WINDOW_DOCUMENTS):
            chunks = _chunks(run, part, profiles)
            facts = _facts(run, {document.content_key for document in part})
            _check_complete(run, part, profiles, chunks, facts)
            vectors = Vectors(run, collection, {piece["text_hash"] for pieces in chunks.values() for piece in pieces})
            entries = [
                IndexEntry(
                    document=document,
                    chunks=chunks[key],
                    version=key[1],
                    signature=collection.signature(profiles[document.profile]),
                    facts=facts[document.content_key],
                )
                for document in part
                if (key := _key(document, profiles)) in chunks
            ]
            for group in _groups(entries):
                totals["points"] += writer.write(group, vectors)
                totals["documents"] += len(group)
                if collection.active:
                    run.touched.update(entry.document.partition for entry in group)
                run.progress("indexed")
    return totals


def _check_complete(
    run: SyncRun,
    documents: Sequence[Pending],
    profiles: Mapping[str, Profile],
    chunks: Mapping[tuple[str, str], Any],
    facts: Mapping[str, Any],
) -> None:
    """Raise `AbortSyncError` if the lake lost the text or the chunks of one of these documents.

    A text whose parsing was deferred is not lost. A run that did not parse has no record of deferred texts.
    """
    waiting = [document for document in documents if document.content_key not in facts]
    if "parsed" in run.completed or run.lake.open(PARSED) is None:
        lost = [document.source_id for document in waiting if document.content_key not in run.deferred]
        if lost:
            raise rows_lost(run.lake, PARSED, run.source.value, lost)
    lost = [
        document.source_id
        for document in documents
        if document.content_key in facts and _key(document, profiles) not in chunks
    ]
    if lost:
        raise rows_lost(run.lake, CHUNKED, run.source.value, lost)


def _key(document: Pending, profiles: Mapping[str, Profile]) -> tuple[str, str]:
    """Return the key of a document's chunks: content key and chunk version."""
    return document.content_key, chunk_version(profiles[document.profile])


def _groups(entries: Sequence[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """Yield documents in groups of about `WRITE_POINTS` chunks, without splitting a document."""
    group: list[IndexEntry] = []
    size = 0
    for entry in entries:
        group.append(entry)
        size += len(entry.chunks)
        if size >= WRITE_POINTS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _chunks(
    run: SyncRun, documents: Sequence[Pending], profiles: Mapping[str, Profile]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the chunks by (content key, chunk version), in order; a text without chunks has an empty list."""
    versions = {chunk_version(profile) for profile in profiles.values()}
    frame = (
        run.lake.scan(CHUNKED)
        .filter(
            pl.col("content_key").is_in([document.content_key for document in documents])
            & pl.col("version").is_in(list(versions))
        )
        .sort("at")
        .unique(["content_key", "version", "chunk_index"], keep="last")
        .sort("content_key", "version", "chunk_index")
        .drop("at")
        .collect()
    )
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        pieces = found.setdefault((row["content_key"], row["version"]), [])
        if row["chunk_index"] >= 0:
            pieces.append(row)
    return found


def _facts(run: SyncRun, keys: set[str]) -> dict[str, dict[str, Any]]:
    """Return the properties of parsed texts for the registry: embedded title, language and page count."""
    return {
        key: {
            "document_title": own_title(document.title),
            "language": document.language,
            "page_count": document.page_count,
        }
        for key, document in parsed_documents(run, keys).items()
    }
