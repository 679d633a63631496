"""The `indexed` stage: write pending documents with their chunks and vectors to Postgres, then to Qdrant.

An entry counts as complete only once both stores have it (`index_entries.content`). A crash in between leaves the document pending,
and a repetition overwrites the same points. Removals come first, then payload updates, then new content.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.chunked import batches, chunk_version, parsed_documents
from assets.index.doubt import doubting
from assets.index.points import WRITE_POINTS, IndexEntry, PointWriter, Vectors
from assets.index.targets import IndexCollection, Target, secondary_collections
from assets.parsed import TABLE as PARSED
from assets.stages.diff import GONE
from assets.stages.headings import document_title, first_heading
from assets.stages.identify import own_title, passage_version
from assets.stages.payload import document_payload
from assets.stages.profiles import Profile
from resources.core.durations import duration
from resources.core.errors import AbortSyncError
from resources.core.notes import notes
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.damage import rows_lost
from resources.stores.withholding import settle_held
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending
from sql.withheld import PartitionCheck

WINDOW_DOCUMENTS = 4000
"""Documents whose chunks and vectors are read from the lake at a time: about 10,000 chunks and 15 MB of vectors."""
REMOVE_DOCUMENTS = 500
REFRESHES = 4
REFRESHED_PARTITIONS = 500


def remove_gone(
    job: SyncJob, collection: IndexCollection, doc_ids: Sequence[str], *, busy: Container[str] = ()
) -> StageResult:
    """Remove those of these documents that are not live from every collection and Postgres, verify that, and save their receipts.

    Documents that another thread is writing (`busy`) are left out.
    """
    stores = job.stores
    result = StageResult({"removed": 0})
    rows = [
        row
        for row in stores.index.to_remove(doc_ids=list(doc_ids))
        if row.doc_id not in busy and stores.covers(row.partition)
    ]
    names = sorted({collection.name, *qdrant.collections(stores.qdrant)}) if rows else []
    for part in batches(rows, REMOVE_DOCUMENTS):
        ids = [row.doc_id for row in part]
        stores.index.begin_removal(doc_ids=ids)
        stores.confirm()
        receipts = [
            {
                "doc_id": row.doc_id,
                "source_id": row.source_id,
                "tombstone_at": row.deleted_at,
                "source_time": row.gone_at_source,
                "source_time_is_exact": row.gone_is_exact,
                "points_deleted": row.chunk_count,
            }
            for row in part
            if row.deleted_at is not None
        ]
        with doubting(stores, names, ids):
            for name in names:
                qdrant.delete_documents(stores.qdrant, name, ids)
                left = qdrant.count_points(stores.qdrant, name, ids)
                if left:
                    raise AbortSyncError(f"{name} still holds {left} points of deleted documents; run the sync again.")
            with stores.connection.transaction():
                stores.index.removed(doc_ids=ids)
                stores.documents.raise_version()
                if receipts:
                    stores.index.save_receipts(rows=receipts)
        for row in part:
            result.count(row.partition, removed=1)
        job.count(deleted=sum(row.state in GONE for row in part))
        job.progress("indexed")
    return result


def update_payloads(job: SyncJob, active: Target, doc_ids: Sequence[str]) -> StageResult:
    """Update the payloads of those of these documents whose metadata or permissions changed; nothing is embedded, vectors are kept."""
    stores = job.stores
    name = active.collection.name
    result = StageResult({"payloads_updated": 0})
    listed = list(doc_ids)
    found = stores.index.payloads_to_update(collection=name, signatures=active.signatures(), doc_ids=listed)
    rows = _covered(stores, found)
    for row in rows:
        result.count(row["partition"], payloads_updated=1)
    result.touched.update(result.partitions)
    for part in batches(rows, REMOVE_DOCUMENTS):
        with job.writing:
            write_payloads(stores, name, part)
        job.count(synced=len(part))
        job.progress("indexed")
    for other in secondary_collections(stores, name):
        rest = _covered(stores, stores.index.payloads_to_update(collection=other, signatures=None, doc_ids=listed))
        for part in batches(rest, REMOVE_DOCUMENTS):
            write_payloads(stores, other, part)
    return result


def _covered(stores: Stores, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of documents that this process may write to."""
    return [row for row in rows if stores.covers(row["partition"])]


def write_payloads(stores: Stores, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write the payloads of registry rows to one collection, and record that they are as wanted."""
    payloads = {str(row["doc_id"]): document_payload(row) for row in rows}
    done = [{"doc_id": str(row["doc_id"]), "payload": row["payload_hash"]} for row in rows]
    stores.index.begin_payloads(collection=name, doc_ids=list(payloads))
    stores.confirm()
    with doubting(stores, [name], payloads):
        qdrant.set_payload(stores.qdrant, name, payloads)
        with stores.connection.transaction():
            stores.index.payloads_updated(collection=name, rows=done)
            stores.documents.raise_version()


def refresh_checks(stores: Stores) -> int:
    """Write the time of each partition's last permission check where searches without Postgres read it, a few times per `ACL_MAX_AGE`.

    Documents whose deletion awaits approval keep their earlier time, since their permissions have not been read since. Points carry no
    time, so a check that finds nothing changed writes no point of a document.
    """
    source = stores.source.value
    seconds = duration(stores.settings.acl_max_age).total_seconds() / REFRESHES
    rows = [row for row in stores.index.to_refresh(seconds=seconds) if stores.covers(row.partition)]
    if rows:
        settle_held(stores.connection, stores.withheld, source)  # before the time of their partitions
    for part in batches(rows, REFRESHED_PARTITIONS):
        stores.withheld.checked(PartitionCheck(source, row.partition, row.acl_checked_at) for row in part)
        stores.index.refreshed(rows=[(row.partition, row.acl_checked_at) for row in part])
    return len(rows)


def index_missing(job: SyncJob, target: Target, pending: Sequence[Pending]) -> StageResult:
    """Write pending documents to both stores."""
    stores = job.stores
    collection, profiles = target.collection, target.profiles
    result = StageResult({"documents": 0, "points": 0})
    writer = PointWriter(job, collection)
    with doubting(stores, [collection.name], writer.written), writer:
        for part in batches(pending, WINDOW_DOCUMENTS):
            chunks = _chunks(stores, part, profiles)
            facts = _facts(stores, {document.content_key for document in part})
            _check_complete(job, part, profiles, chunks, facts)
            vectors = Vectors(job, collection, {piece["text_hash"] for pieces in chunks.values() for piece in pieces})
            entries = [
                IndexEntry(
                    document=document,
                    chunks=chunks[key],
                    version=passage_version(profiles[document.profile].version),
                    signature=collection.signature(profiles[document.profile]),
                    facts=_named(facts[document.content_key], document.title),
                )
                for document in part
                if (key := _key(document, profiles)) in chunks
            ]
            for group in _groups(entries):
                writer.write(group, vectors)
                for entry in group:
                    result.count(entry.document.partition, documents=1, points=len(entry.chunks))
                if collection.active:
                    result.touched.update(entry.document.partition for entry in group)
                job.progress("indexed")
    return result


def _check_complete(
    job: SyncJob,
    documents: Sequence[Pending],
    profiles: Mapping[str, Profile],
    chunks: Mapping[tuple[str, str], Any],
    facts: Mapping[str, Any],
) -> None:
    """Raise `AbortSyncError` if the lake lost the text or the chunks of one of these documents.

    A text whose parsing was deferred is not lost. A run that did not parse has no record of deferred texts.
    """
    stores = job.stores
    waiting = [document for document in documents if document.content_key not in facts]
    parsed = job.results.get("parsed")
    if parsed is not None or stores.lake.open(PARSED) is None:
        deferred = parsed.deferred if parsed is not None else ()
        lost = [document.doc_id for document in waiting if document.content_key not in deferred]
        if lost:
            raise rows_lost(stores.lake, PARSED, stores.source.value, lost, included=job.includes("parsed"))
    lost = [
        document.doc_id
        for document in documents
        if document.content_key in facts and _key(document, profiles) not in chunks
    ]
    if lost:
        raise rows_lost(stores.lake, CHUNKED, stores.source.value, lost, included=job.includes("chunked"))


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
    stores: Stores, documents: Sequence[Pending], profiles: Mapping[str, Profile]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the chunks by (content key, chunk version), in order; a text without chunks has an empty list."""
    versions = {chunk_version(profile) for profile in profiles.values()}
    frame = (
        stores.keyed.rows(CHUNKED, {document.content_key for document in documents})
        .filter(pl.col("version").is_in(list(versions)))
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


def _facts(stores: Stores, keys: set[str]) -> dict[str, dict[str, Any]]:
    """Return the properties of parsed texts for the registry: embedded title, first heading, language, page count and notes."""
    return {
        key: {
            "document_title": own_title(document.title),
            "first_heading": first_heading(document),
            "language": document.language,
            "page_count": document.page_count,
            "notes": msgspec.to_builtins(notes(document.warnings)),
        }
        for key, document in parsed_documents(stores, keys).items()
    }


def _named(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the properties with the title of a document of this name, since files of other names may have the same text."""
    title = document_title(name, facts["document_title"], facts["first_heading"])
    return {**facts, "document_title": title}
