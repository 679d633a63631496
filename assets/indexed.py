"""indexed: pending documents with their chunks and vectors enter; Postgres, then Qdrant hold them, and the ledger says so.

A document's entry counts as complete only after both stores have it (`indexed_content`); a crash in between leaves it pending,
and doing it again overwrites the same points. Removals come first, then payloads alone, then new content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.chunked import batches, chunk_version, parsed_documents
from assets.collection import Collection, check_capacity
from assets.parsed import Pending
from assets.stages.payload import CHUNK_FIELDS, chunk_payload, document_payload
from assets.stages.profiles import Profile
from resources import bm25, qdrant
from resources.domain import State, chunk_id
from resources.errors import AbortSyncError
from resources.syncing import SyncRun
from resources.tables import embedded_table
from sql import queries

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_DOCUMENTS = 4000
"""Documents whose chunks and vectors are read from the lake at a time: some 10,000 chunks and 15 MB of vectors."""
WRITE_POINTS = 1000
REMOVE_DOCUMENTS = 500

registry = queries("registry")
_json = msgspec.json.Encoder()


def remove_gone(run: SyncRun, collection: Collection) -> int:
    """Take documents that are not live out of Qdrant and Postgres, verify, and keep a receipt of each deletion."""
    rows = list(registry.to_remove(run.connection, source=run.source.value))
    for part in batches(rows, REMOVE_DOCUMENTS):
        ids = [row["doc_id"] for row in part]
        qdrant.delete_documents(run.qdrant, collection.name, ids)
        left = qdrant.count_points(run.qdrant, collection.name, ids)
        if left:
            raise AbortSyncError(f"Qdrant still holds {left} points of deleted documents; run the sync again.")
        receipts = [
            {
                "doc_id": row["doc_id"],
                "source_id": row["source_id"],
                "tombstone_at": row["deleted_at"],
                "points_deleted": row["chunk_count"],
            }
            for row in part
            if row["deleted_at"] is not None
        ]
        with run.connection.transaction():
            registry.drop_chunks(run.connection, doc_ids=ids)
            registry.removed(run.connection, doc_ids=ids)
            if receipts:
                registry.save_receipts(run.connection, source=run.source.value, rows=_json.encode(receipts).decode())
            registry.raise_version(run.connection)
        run.counts.deleted += sum(row["state"] == State.DELETED for row in part)
        run.progress("indexed")
    return len(rows)


def repaint(run: SyncRun, collection: Collection, profiles: Mapping[str, Profile]) -> int:
    """Bring payloads up to date where only metadata or permissions changed: nothing is embedded, vectors stay."""
    wanted = collection.signatures(profiles)
    rows = list(registry.to_repaint(run.connection, source=run.source.value, signatures=wanted))
    for part in batches(rows, REMOVE_DOCUMENTS):
        qdrant.set_payload(run.qdrant, collection.name, {str(row["doc_id"]): document_payload(row) for row in part})
        done = [{"doc_id": str(row["doc_id"]), "indexed_payload": row["payload_hash"]} for row in part]
        with run.connection.transaction():
            registry.repainted(run.connection, rows=_json.encode(done).decode())
            registry.raise_version(run.connection)
        run.touched.update(row["partition"] for row in part)
        run.counts.synced += len(part)
        run.progress("indexed")
    return len(rows)


def index_missing(
    run: SyncRun, collection: Collection, pending: Sequence[Pending], profiles: Mapping[str, Profile]
) -> dict[str, int]:
    """Write pending documents to both stores. Returns counts of documents and points."""
    totals = {"documents": 0, "points": 0}
    for part in batches(pending, WINDOW_DOCUMENTS):
        chunks = _chunks(run, part, profiles)
        documents = [document for document in part if _key(document, profiles) in chunks]
        vectors = _Vectors(run, {piece["text_hash"] for pieces in chunks.values() for piece in pieces})
        facts = _facts(run, {document.content_key for document in documents})
        for group in _groups(documents, chunks, profiles):
            points = _write(run, collection, group, chunks, vectors, facts, profiles)
            totals["documents"] += len(group)
            totals["points"] += points
            run.touched.update(document.partition for document in group)
            run.progress("indexed")
    return totals


def _key(document: Pending, profiles: Mapping[str, Profile]) -> tuple[str, str]:
    """Return what a document's chunks are found by."""
    return document.content_key, chunk_version(profiles[document.profile])


def _groups(
    documents: Sequence[Pending],
    chunks: Mapping[tuple[str, str], list[dict[str, Any]]],
    profiles: Mapping[str, Profile],
) -> Iterator[list[Pending]]:
    """Yield documents in groups of about `WRITE_POINTS` chunks, each document whole."""
    group: list[Pending] = []
    size = 0
    for document in documents:
        group.append(document)
        size += len(chunks[_key(document, profiles)])
        if size >= WRITE_POINTS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _write(
    run: SyncRun,
    collection: Collection,
    group: Sequence[Pending],
    chunks: Mapping[tuple[str, str], list[dict[str, Any]]],
    vectors: _Vectors,
    facts: Mapping[str, Mapping[str, Any]],
    profiles: Mapping[str, Profile],
) -> int:
    """Write one group: Postgres in one transaction, then Qdrant, then the mark that both are complete."""
    ids = [document.doc_id for document in group]
    rows = {str(row["doc_id"]): row for row in registry.rows(run.connection, doc_ids=ids)}
    group = [document for document in group if document.doc_id in rows]  # an upload may have been deleted meanwhile
    old = {row["chunk_id"] for row in registry.chunk_ids(run.connection, doc_ids=ids)}
    entries = [
        (chunk_id(document.doc_id, chunk_version(profiles[document.profile]), piece["chunk_index"]), document, piece)
        for document in group
        for piece in chunks[_key(document, profiles)]
    ]
    check_capacity(run, collection, len(entries) - len(old))
    with run.connection.transaction():
        registry.begin_indexing(run.connection, doc_ids=ids)
        registry.drop_chunks(run.connection, doc_ids=ids)
        _copy_chunks(run, entries)
    new = [entry[0] for entry in entries]
    _upsert(run, collection, entries, rows, vectors)
    qdrant.delete_points(run.qdrant, collection.name, sorted(old.difference(new)))
    done = [
        {
            "doc_id": document.doc_id,
            "indexed_content": f"{document.content_key}|{collection.signature(profiles[document.profile])}",
            "indexed_payload": rows[document.doc_id]["payload_hash"],
            "chunk_count": len(chunks[_key(document, profiles)]),
            "language": facts[document.content_key]["language"],
            "page_count": facts[document.content_key]["page_count"],
        }
        for document in group
    ]
    with run.connection.transaction():
        registry.indexed(run.connection, rows=_json.encode(done).decode())
        registry.raise_version(run.connection)
    run.counts.synced += len(group)
    return len(entries)


def _upsert(
    run: SyncRun,
    collection: Collection,
    entries: Sequence[tuple[str, Pending, dict[str, Any]]],
    rows: Mapping[str, Mapping[str, Any]],
    vectors: _Vectors,
) -> None:
    from qdrant_client import models  # 0.5 s of import that only writing needs

    shared = {doc_id: document_payload(row) for doc_id, row in rows.items()}
    for part in batches(entries, WRITE_POINTS):
        sparse = bm25.encode_documents([piece["text"] for _, _, piece in part], collection.bm25_avg_len)
        points = models.Batch(
            ids=[entry[0] for entry in part],
            vectors={
                qdrant.DENSE: [vectors.of(piece["text_hash"]) for _, _, piece in part],
                qdrant.KEYWORD: [models.SparseVector(indices=v.indices, values=v.values) for v in sparse],
            },
            payloads=[{**shared[document.doc_id], **chunk_payload(piece)} for _, document, piece in part],
        )
        qdrant.upsert(run.qdrant, collection.name, points)


def _copy_chunks(run: SyncRun, entries: Sequence[tuple[str, Pending, dict[str, Any]]]) -> None:
    columns = ("chunk_id", "doc_id", "chunk_text", *CHUNK_FIELDS, "tokens")
    names = ", ".join(columns)
    with run.connection.cursor() as cursor, cursor.copy(f"COPY chunks ({names}) FROM STDIN") as copy:
        for point_id, document, piece in entries:
            values = [piece[name] for name in CHUNK_FIELDS]
            copy.write_row((point_id, document.doc_id, piece["text"], *values, piece["tokens"]))


def _chunks(
    run: SyncRun, documents: Sequence[Pending], profiles: Mapping[str, Profile]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return each (content key, chunk version)'s chunks in order; a text without chunks has an empty list."""
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
    """Return language and page count of parsed texts."""
    return {
        key: {"language": document.language, "page_count": document.page_count}
        for key, document in parsed_documents(run, keys).items()
    }


class _Vectors:
    """Vectors of one window of documents, by text hash."""

    def __init__(self, run: SyncRun, hashes: set[str]) -> None:
        ordered = sorted(hashes)
        table = embedded_table(run.embedder.model, run.embedder.dimensions)
        found, matrix = run.lake.vectors(table, ordered)
        if not found.all():
            raise AbortSyncError(
                f"{int((~found).sum())} chunks have no vector in the lake yet. Materialize the asset embedded, then indexed."
            )
        self._rows = {text_hash: row for row, text_hash in enumerate(ordered)}
        self._matrix: NDArray[Any] = matrix

    def of(self, text_hash: str) -> list[float]:
        """Return one vector as the client sends it."""
        return self._matrix[self._rows[text_hash]].tolist()
