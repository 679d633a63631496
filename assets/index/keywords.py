"""Refresh the keyword vectors and name words of documents that were renamed or indexed by an earlier version.

Nothing is parsed, embedded or fetched: a keyword vector depends on the passage's words only, a sketch on the stored dense vector. A
document counts as done once both stores have it, so that an interrupted refresh is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from assets.index.points import VERSION, WRITE_POINTS, keywords_of
from assets.index.targets import Target
from resources.core import bm25, sketch
from resources.core.naming import keyword_text, name_words, names_of
from resources.stores import qdrant
from resources.syncing import SyncRun
from sql import queries

registry = queries("registry")
_json = msgspec.json.Encoder()


def refresh_keyword_vectors(run: SyncRun, active: Target) -> int:
    """Make renamed documents searchable by their new names in both stores; return their number in the active collection."""
    where = {"source": run.source.value, "version": VERSION}
    name = active.collection.name
    rows = list(registry.keywords_to_refresh(run.connection, **where, signatures=active.signatures()))
    for group in _groups(rows):
        passages = registry.keyword_passages_to_refresh(run.connection, version=VERSION, doc_ids=_ids(group))
        refreshed = _refresh(run, name, active.collection.bm25_avg_len, group, list(passages))
        with run.connection.transaction():
            registry.name_passages(run.connection, **refreshed)
            registry.keywords_refreshed(run.connection, rows=_done(group))
            registry.raise_version(run.connection)
        run.progress("indexed")
    for other in others(run, name):
        _refresh_beside(run, other)
    return len(rows)


def _refresh_beside(run: SyncRun, name: str) -> None:
    where = {"collection": name, "version": VERSION}
    average = registry.collection(run.connection, name=name)["bm25_avg_len"]
    for group in _groups(list(registry.keywords_to_refresh_beside(run.connection, **where, source=run.source.value))):
        passages = registry.keyword_passages_to_refresh_beside(run.connection, **where, doc_ids=_ids(group))
        refreshed = _refresh(run, name, average, group, list(passages))
        with run.connection.transaction():
            registry.name_passages_beside(run.connection, **refreshed)
            registry.keywords_refreshed_beside(run.connection, collection=name, rows=_done(group))


def _refresh(
    run: SyncRun,
    name: str,
    average: float,
    documents: Sequence[Mapping[str, Any]],
    passages: Sequence[Mapping[str, Any]],
) -> dict[str, list[Any]]:
    """Recompute the keyword vectors of passages in Qdrant and return the values for Postgres: chunk ids, name words, sketches."""
    names = {row["doc_id"]: names_of(row) for row in documents}
    words = {
        row["chunk_id"]: name_words(names[row["doc_id"]], row["chunk_index"], row["chunk_text"]) for row in passages
    }
    texts = [keyword_text(words[row["chunk_id"]], row["chunk_text"]) for row in passages]
    qdrant.set_keywords(run.qdrant, name, dict(zip(words, bm25.encode_documents(texts, average), strict=True)))
    vectors = qdrant.dense_vectors(run.qdrant, name, list(words))
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


def _ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["doc_id"] for row in rows]


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


def _done(rows: Sequence[Mapping[str, Any]]) -> str:
    return _json.encode([{"doc_id": row["doc_id"], "indexed_keywords": keywords_of(row)} for row in rows]).decode()


def others(run: SyncRun, active: str) -> list[str]:
    """Return the existing secondary collections: one under construction, or a replaced one that is kept."""
    known = [row["name"] for row in registry.collections(run.connection) if row["name"] != active]
    there = set(qdrant.collections(run.qdrant)) if known else set[str]()
    return [name for name in known if name in there]
