"""Write documents to both stores: Postgres rows first, then Qdrant points, then the mark that the entry is complete.

While Qdrant receives one group, Postgres receives the next. A group is marked as complete only once both have it, and in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from assets.chunked import batches
from assets.index.collection import check_capacity
from assets.index.targets import IndexCollection
from assets.stages.payload import CHUNK_FIELDS, chunk_payload, document_payload
from resources.core import bm25, sketch
from resources.core.domain import chunk_id
from resources.core.naming import keyword_text, name_words, names_of
from resources.core.tables import embedded_table
from resources.stores import qdrant
from resources.stores.damage import rows_lost
from resources.syncs.syncing import SyncJob
from sql.rows import Pending

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

WRITE_POINTS = 1000


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A document with all parts of its index entry."""

    document: Pending
    chunks: list[dict[str, Any]]
    version: str
    """Version of the chunks: part of every chunk's id."""
    signature: str
    facts: dict[str, Any]


class _PointRow(msgspec.Struct, frozen=True, kw_only=True):
    point_id: str
    doc_id: str
    chunk: dict[str, Any]
    words: str
    """Words of the document's names that keyword search finds in addition to the text."""


def derived_version(average: float) -> str:
    """Return the version of what is derived from a passage besides its dense vector (keyword vector and sketch).

    `average` is the collection's mean length in words. If the version changes, the next sync derives everything again.
    """
    return f"{bm25.VERSION} {sketch.VERSION} {average:.2f}"


def keywords_of(row: Mapping[str, Any], average: float) -> str:
    """Return the inputs of a document's keyword vectors besides its text, as stored in the registry; see `keywords_to_refresh`."""
    return "\n".join([derived_version(average), *names_of(row)])


class PointWriter:
    """Writes groups of entries, with Postgres one group ahead of Qdrant. Leaving the block completes the last group."""

    def __init__(self, job: SyncJob, collection: IndexCollection) -> None:
        self._job = job
        self._collection = collection
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="points")
        self._flying: tuple[Future[None], list[dict[str, Any]]] | None = None
        self.written = set[str]()
        """Ids of documents whose points may have been written, but whose entries are not marked yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete the current group, unless the block ends with an error."""
        try:
            if kind is None:
                self._complete()
        finally:
            self._pool.shutdown(wait=True)

    def write(self, group: Sequence[IndexEntry], vectors: Vectors) -> None:
        """Write one group."""
        stores = self._job.stores
        ids = [entry.document.doc_id for entry in group]
        name = self._collection.name
        # incomplete while their points are written
        entries = [{"doc_id": entry.document.doc_id, **entry.facts} for entry in group]
        with self._job.writing:
            stores.index.begin_entries(collection=name, rows=entries)
        facts = {str(row["doc_id"]): row for row in stores.index.rows(doc_ids=ids)}
        group = [
            entry for entry in group if entry.document.doc_id in facts
        ]  # an upload may have been deleted meanwhile
        rows = [
            _PointRow(
                point_id=chunk_id(entry.document.doc_id, entry.version, piece["chunk_index"]),
                doc_id=entry.document.doc_id,
                chunk=piece,
                words=name_words(names_of(facts[entry.document.doc_id]), piece["chunk_index"], piece["text"]),
            )
            for entry in group
            for piece in entry.chunks
        ]
        check_capacity(stores, self._collection, len(rows))
        with stores.connection.transaction():
            stores.index.drop_chunks(collection=name, doc_ids=ids)
            self._copy(rows, vectors)
        self._complete()
        stale = [entry.document.doc_id for entry in group if entry.document.was_indexed]
        done = [
            {
                "doc_id": entry.document.doc_id,
                "content": f"{entry.document.content_key}|{entry.signature}",
                "payload": facts[entry.document.doc_id]["payload_hash"],
                "keywords": keywords_of(facts[entry.document.doc_id], self._collection.bm25_avg_len),
                "chunk_count": len(entry.chunks),
            }
            for entry in group
        ]
        self.written.update(str(row["doc_id"]) for row in done)
        self._flying = self._pool.submit(self._send, rows, facts, vectors, stale), done

    def _complete(self) -> None:
        """Wait for the group in Qdrant and mark its documents."""
        if self._flying is None:
            return
        future, done = self._flying
        stores = self._job.stores
        self._flying = None
        future.result()
        with self._job.writing, stores.connection.transaction():
            stores.index.indexed(collection=self._collection.name, rows=done)
            if self._collection.active:  # otherwise no search result has changed
                stores.documents.raise_version()
        self.written.difference_update(str(row["doc_id"]) for row in done)
        self._job.count(synced=len(done) if self._collection.active else 0)

    def _send(
        self, rows: Sequence[_PointRow], facts: Mapping[str, Mapping[str, Any]], vectors: Vectors, stale: Sequence[str]
    ) -> None:
        """Upsert points, then delete points of earlier versions of the documents."""
        shared = {doc_id: document_payload(row) for doc_id, row in facts.items()}
        for part in batches(rows, WRITE_POINTS):
            self._job.stores.confirm()
            texts = [keyword_text(row.words, row.chunk["text"]) for row in part]
            languages = [row.chunk["language"] for row in part]
            sparse = bm25.encode_documents(texts, self._collection.bm25_avg_len, languages)
            qdrant.upsert(
                self._job.stores.qdrant,
                self._collection.name,
                ids=[row.point_id for row in part],
                dense=vectors.rows([row.chunk["text_hash"] for row in part]).tolist(),
                sparse=sparse,
                payloads=[{**shared[row.doc_id], **chunk_payload(row.chunk)} for row in part],
            )
        if stale:
            kept = [row.point_id for row in rows]
            qdrant.delete_documents(self._job.stores.qdrant, self._collection.name, stale, keep=kept)

    def _copy(self, rows: Sequence[_PointRow], vectors: Vectors) -> None:
        columns = ("collection", "chunk_id", "doc_id", "chunk_text", *CHUNK_FIELDS, "tokens", "name_words", "sketch")
        sketches = sketch.encode(vectors.rows([row.chunk["text_hash"] for row in rows]))
        with (
            self._job.stores.connection.cursor() as cursor,
            cursor.copy(f"COPY chunks ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            for row, small in zip(rows, sketches, strict=True):
                values = [row.chunk[name] for name in CHUNK_FIELDS]
                tokens = row.chunk["tokens"]
                ids = (self._collection.name, row.point_id, row.doc_id)
                copy.write_row((*ids, row.chunk["text"], *values, tokens, row.words, small))


class Vectors:
    """Vectors of one window of documents, by text hash."""

    def __init__(self, job: SyncJob, collection: IndexCollection, hashes: set[str]) -> None:
        stores = job.stores
        ordered = sorted(hashes)
        table = embedded_table(collection.model, collection.dimensions)
        found, matrix = stores.keyed.vectors(table, ordered)
        if not found.all():
            whose = [f"{int((~found).sum())} chunks"]
            raise rows_lost(stores.lake, table, stores.source.value, whose, included=job.includes("embedded"))
        self._rows = {text_hash: row for row, text_hash in enumerate(ordered)}
        self._matrix = matrix

    def rows(self, hashes: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per hash, in order."""
        return self._matrix[[self._rows[text_hash] for text_hash in hashes]]
