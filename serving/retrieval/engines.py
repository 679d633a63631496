"""The engines that find candidates: Qdrant by meaning and, as the setting says, its BM25 or Postgres full-text by words.

A plan and the caller's access enter; candidates and warnings leave. Postgres answers alone while Qdrant is down, and Qdrant alone while
Postgres is. Nothing here decides who may read what in the end: that is the recheck.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from qdrant_client import models

from resources.core.bm25 import encode_query
from resources.core.domain import Access
from resources.core.errors import AbortSyncError, ServiceUnavailableError, TemporaryError
from resources.logging import logger
from resources.stores.qdrant_search import QueryHits, VectorSearch
from serving.database import Database
from serving.embedding import QueryEmbedder
from serving.retrieval.cache import Candidate, Candidates
from serving.retrieval.expand import Expansion
from serving.retrieval.full_text import full_text
from serving.retrieval.fuse import Leg, fuse
from serving.retrieval.plan import Plan, queries, scoring

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


class _Dense(NamedTuple):
    """A query's own vector, the one to search with (another when it was expanded), and what the latter's cosines are multiplied by."""

    own: list[float]
    vector: list[float]
    scale: float
    floor: float
    collection: str


class _IndexDownError(Exception):
    """Qdrant does not answer, or not as it should."""


class Engines:
    """Finds candidates; degrades, and says so."""

    def __init__(self, searches: VectorSearch, database: Database, embedder: QueryEmbedder) -> None:
        self._searches = searches
        self._database = database
        self._embedder = embedder

    async def find(
        self, search: Plan, access: Access, expansion: Expansion | None = None, *, with_payload: bool
    ) -> Retrieved:
        """Return candidates; with payloads, which stand in for the registry, from Qdrant alone.

        Raises `ServiceUnavailableError` when nothing answers, or Postgres does not and is asked.
        """
        warnings: list[tuple[str, str]] = []
        dense = None
        collection = self._embedder.collection
        if search.mode != "keyword":
            try:
                dense = await self._embed(search, expansion)
            except TemporaryError as error:
                log.warning("embedding_unavailable", error=str(error))
                warnings.append(EMBEDDING_DOWN)
                search = search._replace(mode="keyword")
        try:
            if search.keyword_engine == "qdrant" or search.mode == "vector" or with_payload:
                found = await self._from_qdrant(collection, search, access, dense, with_payload=with_payload)
            elif dense is not None:
                found = await self._from_both(search, access, dense)
            else:
                found = await self._from_postgres(search, access)
            if dense is not None and expansion is not None and dense.vector is not dense.own:
                found = await self._told(found, search, access, dense, expansion)
        except _IndexDownError as error:
            log.warning("qdrant_unavailable", error=str(error))
            if with_payload:
                raise ServiceUnavailableError(
                    "Neither Postgres nor the vector index answers. Try again shortly."
                ) from error
            warnings[:] = [QDRANT_DOWN]
            found = await self._from_postgres(search, access)
        return found._replace(warnings=warnings)

    async def _embed(self, search: Plan, expansion: Expansion | None) -> _Dense:
        """Return the query's vectors. Collection and floor are read by name: the model that embeds is theirs."""
        collection, floor = self._embedder.collection, self._embedder.floor
        own = await self._embedder.query(search.query)
        if expansion is None or expansion.collection != collection:
            return _Dense(own, own, 1.0, floor, collection)
        return _Dense(own, *expansion.mixed(own), floor, collection)

    async def _from_qdrant(
        self, collection: str, search: Plan, access: Access, dense: _Dense | None, *, with_payload: bool
    ) -> Retrieved:
        """Both legs in one batch."""
        sparse = encode_query(search.query) if search.mode != "vector" else None
        keyword = sparse if sparse is not None and sparse.indices else None
        vector = dense.vector if dense is not None else None
        answers = await self._ask(collection, queries(search, access, vector, keyword, with_payload=with_payload))
        payloads = _payloads(answers[:2]) if with_payload else {}
        legs = iter(answers)
        scale = dense.scale if dense is not None else 1.0
        dense_hits = _scores(next(legs), scale) if dense is not None else {}
        keyword_hits = _scores(next(legs)) if keyword is not None else {}
        dense_extra, keyword_extra = (
            (_scores(next(legs), scale), _scores(next(legs))) if len(answers) == 4 else ({}, {})
        )
        dense_leg = Leg(dense_hits, dense_extra, dense.floor if dense is not None else 0.0)
        return Retrieved(_candidates(search, dense_leg, Leg(keyword_hits, keyword_extra)), [], payloads)

    async def _from_both(self, search: Plan, access: Access, dense: _Dense) -> Retrieved:
        """Qdrant's dense leg beside Postgres full-text, then each one's score of what only the other found."""
        answers, words = await asyncio.gather(
            self._ask(dense.collection, [scoring(search, access, dense.vector)]),
            full_text(self._database, search, access),
        )
        near = _scores(answers[0], dense.scale)
        others = [chunk_id for chunk_id in words if chunk_id not in near]
        more, words_extra = await asyncio.gather(
            self._ask(dense.collection, [scoring(search, access, dense.vector, others)] if others else []),
            full_text(self._database, search, access, [chunk_id for chunk_id in near if chunk_id not in words]),
        )
        near_extra = _scores(more[0], dense.scale) if more else {}
        dense_leg = Leg(near, near_extra, dense.floor)
        return Retrieved(_candidates(search, dense_leg, Leg(words, words_extra)), [], {})

    async def _from_postgres(self, search: Plan, access: Access) -> Retrieved:
        words = await full_text(self._database, search, access)
        return Retrieved(_candidates(search._replace(mode="keyword"), Leg({}), Leg(words)), [], {})

    async def _told(
        self, found: Retrieved, search: Plan, access: Access, dense: _Dense, expansion: Expansion
    ) -> Retrieved:
        """Return the candidates with the cosines of the query itself, which thresholds and the gate of answers are calibrated on."""
        ids = [candidate.chunk_id for candidate in found.candidates.ranked]
        answers = await self._ask(dense.collection, [scoring(search, access, dense.own, ids)] if ids else [])
        own = _scores(answers[0]) if answers else {}
        ranked = [
            msgspec.structs.replace(candidate, dense_score=own.get(candidate.chunk_id))
            for candidate in found.candidates.ranked
        ]
        told = msgspec.structs.replace(found.candidates, ranked=ranked, expansions=expansion.texts)
        return found._replace(candidates=told)

    async def _ask(self, collection: str, batch: Sequence[models.QueryRequest]) -> list[QueryHits]:
        if not batch:
            return []
        try:
            return await self._searches.query(collection, batch, QDRANT_SECONDS)
        except (ServiceUnavailableError, AbortSyncError) as error:
            raise _IndexDownError(str(error)) from error


def _scores(answer: QueryHits, scale: float = 1.0) -> dict[str, float]:
    return {str(point.id): point.score * scale for point in answer.points}


def _payloads(answers: Sequence[QueryHits]) -> dict[str, Mapping[str, Any]]:
    return {str(point.id): point.payload for answer in answers for point in answer.points if point.payload}


def _candidates(search: Plan, dense: Leg, keyword: Leg) -> Candidates:
    """Return the best of both legs, as many as each has at most."""
    ranked = _ranked(search, dense, keyword)
    saturated = max(len(dense.hits), len(keyword.hits)) >= search.depth or len(ranked) > search.depth
    agreement = search.agreement if search.mode == "hybrid" else 0.0
    return Candidates(ranked[: search.depth], saturated, search.depth, agreement=agreement)


def _ranked(search: Plan, dense: Leg, keyword: Leg) -> list[Candidate]:
    fused = fuse(search.mode, search.fusion, dense, keyword, search.dense_weight)
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
