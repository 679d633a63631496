"""Refresh the keyword vectors and name words of documents that were renamed or indexed by an earlier version.

Nothing is parsed, embedded or fetched: a keyword vector depends on the passage's words only, a sketch on the stored dense vector. A
document counts as done once both stores have it, so that an interrupted refresh is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from assets.index.doubt import doubting
from assets.index.points import WRITE_POINTS, derived_version, keywords_of
from assets.index.targets import Target, secondary_collections
from resources.core import bm25, sketch
from resources.core.naming import keyword_text, name_words, names_of
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob
from sql.rows import OutdatedPassage


def refresh_keyword_vectors(job: SyncJob, active: Target, doc_ids: Sequence[str]) -> int:
    """Make those of these documents that were renamed searchable by their new names in both stores.

    Returns their number in the active collection.
    """
    collection = active.collection
    refreshed = _refresh_collection(job, collection.name, collection.bm25_avg_len, active.signatures(), doc_ids)
    for other in secondary_collections(job.stores, collection.name):
        if (found := job.stores.collections.collection(name=other)) is not None:
            _refresh_collection(job, other, found.bm25_avg_len, None, doc_ids)
    return refreshed


def _refresh_collection(
    job: SyncJob, name: str, average: float, signatures: Mapping[str, str] | None, doc_ids: Sequence[str]
) -> int:
    stores = job.stores
    version = derived_version(average)
    rows = [
        row
        for row in stores.index.keywords_to_refresh(
            collection=name, signatures=signatures, version=version, doc_ids=list(doc_ids)
        )
        if stores.covers(row["partition"])
    ]
    for group in _groups(rows):
        ids = [row["doc_id"] for row in group]
        stores.confirm()
        passages = stores.index.keyword_passages_to_refresh(collection=name, doc_ids=ids, version=version)
        done = [{"doc_id": row["doc_id"], "keywords": keywords_of(row, average)} for row in group]
        with doubting(stores, [name], ids):
            refreshed = _refresh(stores, name, average, group, passages)
            with job.writing, stores.connection.transaction():
                stores.index.name_passages(collection=name, **refreshed)
                stores.index.keywords_refreshed(collection=name, rows=done)
                stores.documents.raise_version()
        job.progress("indexed")
    return len(rows)


def _refresh(
    stores: Stores,
    name: str,
    average: float,
    documents: Sequence[Mapping[str, Any]],
    passages: Sequence[OutdatedPassage],
) -> dict[str, list[Any]]:
    """Recompute the keyword vectors of passages in Qdrant and return the values for Postgres: chunk ids, name words, sketches."""
    names = {row["doc_id"]: names_of(row) for row in documents}
    words = {row.chunk_id: name_words(names[row.doc_id], row.chunk_index, row.chunk_text) for row in passages}
    texts = [keyword_text(words[row.chunk_id], row.chunk_text) for row in passages]
    sparse = bm25.encode_documents(texts, average, [row.language for row in passages])
    qdrant.set_keywords(stores.qdrant, name, dict(zip(words, sparse, strict=True)))
    vectors = qdrant.dense_vectors(stores.qdrant, name, list(words))
    sketches = (
        dict(zip(vectors, sketch.encode(np.array(list(vectors.values()), dtype=np.float32)), strict=True))
        if vectors
        else {}
    )
    return {
        "chunk_ids": list(words),
        "words": list(words.values()),
        "sketches": [sketches.get(point) for point in words],
    }


def _groups(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield documents in groups of about `WRITE_POINTS` passages."""
    group: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += max(1, row["chunk_count"])
        if size >= WRITE_POINTS:
            yield group
            group, size = [], 0
    if group:
        yield group
