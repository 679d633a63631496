"""The keyword leg while the vector index is down: full-text search in Postgres, ranked by `ts_rank`.

It uses the same access and the same filters as the vector index. Fusion divides its scores by the best, as it does BM25's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from resources import tracing
from resources.core.naming import split_compounds
from serving.http.database import Database
from serving.search.retrieval.query import Narrowing, SearchQuery, keywords
from sql.serving import WebReads

MOST_PASSAGES = 2000
"""Passages of one word, and of all words together, that are ranked; ranking is what takes the time."""
MOST_WORDS = 16
"""Words of a query that passages are searched for, the longest first; all of its words count in the ranking."""


async def full_text(database: Database, query: SearchQuery, collection: str | None) -> dict[str, float]:
    """Return the score of a collection's chunks with any of the query's words. Raises `ServiceUnavailableError`."""
    with tracing.span("bm25_search"):
        found = await WebReads(database).full_text(**parameters(query, collection))
    return {one.chunk_id: one.score for one in found}


def parameters(query: SearchQuery, collection: str | None) -> dict[str, Any]:
    """Return the parameters of `full_text.sql`."""
    return filters_of(query.narrowing) | {
        "query": split_compounds(keywords(query)),
        "collection": collection,
        "principals": sorted(query.access.principals),
        "depth": query.depth,
        "most": MOST_PASSAGES,
        "most_words": MOST_WORDS,
        "document_ids": list(query.narrowing.document_ids) or None,
        "left_out_chunks": list(query.left_out.chunk_ids),
        "left_out_partitions": [f"{source}/{partition}" for source, partition in query.left_out.partitions],
    }


def filters_of(wanted: Narrowing) -> dict[str, Any]:
    """Return the parameters of statements that filter documents, except `document_ids`."""
    # a tag may hold one value or a list of them; Qdrant matches either
    tags = [[one for value in values for one in ({key: value}, {key: [value]})] for key, values in wanted.tags]
    return {
        "source_types": list(wanted.source_types) or None,
        "collection_ids": list(wanted.collection_ids) or None,
        "mime_types": list(wanted.mime_types) or None,
        "authors": list(wanted.authors) or None,
        "tags": msgspec.json.encode(tags).decode(),
        "on_created": wanted.field == "created_at",
        "since": wanted.since,
        "before": wanted.before,
        "include_archived": wanted.include_archived,
    }
