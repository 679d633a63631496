"""The engines that find candidates: one batched Qdrant query, or Postgres full-text while Qdrant is down.

A plan and the caller's access enter; candidates and warnings leave. Nothing here decides who may read what in the end: that is
the recheck.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.models import QueryResponse

from resources.bm25 import encode_query
from resources.domain import Access
from resources.errors import AbortSyncError, ConcordanceError, RetryLaterError, ServiceUnavailableError
from resources.logging import logger
from resources.qdrant import SKETCH, qdrant_errors
from serving.database import Database
from serving.embedding import QueryEmbedder
from serving.retrieval.agree import agree
from serving.retrieval.cache import Candidate, Candidates
from serving.retrieval.fuse import Leg, fuse
from serving.retrieval.plan import Narrowing, Plan, queries

QDRANT_SECONDS = 10.0

EMBEDDING_DOWN = ("embedding_unavailable", "The embedding model does not answer: only keywords were searched.")
QDRANT_DOWN = ("vector_index_unavailable", "The vector index does not answer: only Postgres full-text was searched.")
POSTGRES_DOWN = (
    "registry_unavailable",
    "Postgres does not answer: results come from the index alone, without those whose permissions were not checked recently.",
)
NO_RERANKER = ("rerank_unavailable", "No reranker is configured: results are in fused order.")

log = logger("serving")


class Retrieved(NamedTuple):
    """Candidates, what went wrong on the way (code, message), and payloads by chunk id where they were asked for."""

    candidates: Candidates
    warnings: list[tuple[str, str]]
    payloads: Mapping[str, Mapping[str, Any]]
    from_index: bool = True


class Engines:
    """Finds candidates; degrades, and says so."""

    def __init__(self, qdrant: AsyncQdrantClient, database: Database, embedder: QueryEmbedder) -> None:
        self._qdrant = qdrant
        self._database = database
        self._embedder = embedder

    async def find(self, search: Plan, access: Access, *, with_payload: bool) -> Retrieved:
        """Return candidates. Raises `ServiceUnavailableError` when neither engine answers."""
        warnings: list[tuple[str, str]] = []
        dense = None
        collection, floor = (
            self._embedder.collection,
            self._embedder.floor,
        )  # by name: the model that embeds the query below is this one's
        if search.mode != "keyword":
            try:
                dense = await self._embedder.query(search.query)
            except RetryLaterError as error:
                log.warning("embedding_unavailable", error=str(error))
                warnings.append(EMBEDDING_DOWN)
                search = search._replace(mode="keyword")
        try:
            return await self._from_qdrant(
                collection, floor, search, access, dense, warnings, with_payload=with_payload
            )
        except ConcordanceError as error:
            if not isinstance(error, ServiceUnavailableError | AbortSyncError):
                raise
            log.warning("qdrant_unavailable", error=str(error))
        if with_payload:
            raise ServiceUnavailableError("Neither Postgres nor the vector index answers. Try again shortly.")
        return await self._from_postgres(search, access, [QDRANT_DOWN])

    async def _from_qdrant(
        self,
        collection: str,
        floor: float,
        search: Plan,
        access: Access,
        dense: list[float] | None,
        warnings: list[tuple[str, str]],
        *,
        with_payload: bool,
    ) -> Retrieved:
        sparse = encode_query(search.query) if search.mode != "vector" else None
        keyword = sparse if sparse is not None and sparse.indices else None
        batch = queries(search, access, dense, keyword, with_payload=with_payload)
        if not batch:
            return Retrieved(Candidates([], False, search.depth), warnings, {})
        try:
            with qdrant_errors("search"):
                async with asyncio.timeout(QDRANT_SECONDS):
                    answers = await self._qdrant.query_batch_points(collection, batch)
        except TimeoutError as error:
            raise ServiceUnavailableError(f"Qdrant took more than {QDRANT_SECONDS:.0f} s.") from error
        payloads = {str(point.id): point.payload for answer in answers[:2] for point in answer.points if point.payload}
        legs = iter(answers)
        dense_hits = _scores(next(legs)) if dense is not None else {}
        keyword_hits = _scores(next(legs)) if keyword is not None else {}
        dense_extra, keyword_extra = (_scores(leg) for leg in legs) if len(answers) == 4 else ({}, {})
        saturated = max(len(dense_hits), len(keyword_hits)) >= search.depth
        sketches = {chunk_id: payload[SKETCH] for chunk_id, payload in payloads.items() if SKETCH in payload}
        dense_leg = Leg(dense_hits, dense_extra, floor)
        ranked = _ranked(search, dense_leg, Leg(keyword_hits, keyword_extra), sketches)
        return Retrieved(Candidates(ranked, saturated, search.depth), warnings, payloads if with_payload else {})

    async def _from_postgres(self, search: Plan, access: Access, warnings: list[tuple[str, str]]) -> Retrieved:
        rows = await self._database.fetch("full_text", full_text_parameters(search, access))
        ranked = _ranked(search._replace(mode="keyword"), Leg({}), Leg({row["chunk_id"]: row["score"] for row in rows}))
        return Retrieved(Candidates(ranked, len(rows) >= search.depth, search.depth), warnings, {}, from_index=False)


def _scores(answer: QueryResponse) -> dict[str, float]:
    return {str(point.id): point.score for point in answer.points}


def _ranked(
    search: Plan, dense: Leg, keyword: Leg, sketches: Mapping[str, str] = MappingProxyType({})
) -> list[Candidate]:
    fused = fuse(search.mode, search.fusion, dense, keyword, search.dense_weight)
    if search.mode == "hybrid":
        fused = agree(fused, sketches, search.agreement)
    dense_ranks, keyword_ranks = dense.ranks(), keyword.ranks()
    return [
        Candidate(
            chunk_id=chunk_id,
            fused=score,
            dense_score=dense.score(chunk_id),
            dense_rank=dense_ranks.get(chunk_id),
            keyword_score=keyword.score(chunk_id),
            keyword_rank=keyword_ranks.get(chunk_id),
        )
        for chunk_id, score in fused.items()
    ]


def full_text_parameters(search: Plan, access: Access) -> dict[str, Any]:
    """Return the parameters of `full_text.sql`: the same access and the same filters as in Qdrant."""
    wanted: Narrowing = search.narrowing
    # a tag may hold one value or a list of them; Qdrant matches either
    tags = [[one for value in values for one in ({key: value}, {key: [value]})] for key, values in wanted.tags]
    return {
        "query": search.query,
        "principals": sorted(access.principals),
        "depth": search.depth,
        "source_types": list(wanted.source_types) or None,
        "collection_ids": list(wanted.collection_ids) or None,
        "document_ids": list(wanted.document_ids) or None,
        "mime_types": list(wanted.mime_types) or None,
        "authors": list(wanted.authors) or None,
        "tags": msgspec.json.encode(tags).decode(),
        "on_created": wanted.field == "created_at",
        "since": wanted.since,
        "before": wanted.before,
        "include_archived": wanted.include_archived,
    }
