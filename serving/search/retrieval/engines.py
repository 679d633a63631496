"""Find candidates in Qdrant, by meaning and by words.

Postgres answers alone, by full-text search, while Qdrant is down, and Qdrant alone while Postgres is. The final decision about who may
read what is not made here but by the permission check after retrieval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import msgspec

from resources import tracing
from resources.core.bm25 import encode_query
from resources.core.errors import AbortSyncError, NoCollectionError, ServiceUnavailableError, TemporaryError
from resources.logging import logger
from resources.stores.qdrant import ALIAS
from resources.stores.qdrant_search import PointQuery, QueryHits, VectorSearch
from serving.http.database import Database
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.cache import Candidate, Candidates
from serving.search.retrieval.expand import Expansion
from serving.search.retrieval.full_text import full_text
from serving.search.retrieval.fuse import Leg, fuse
from serving.search.retrieval.passage import Warning_
from serving.search.retrieval.plan import queries, scoring
from serving.search.retrieval.query import SearchQuery, keywords
from sql.serving import WebReads

QDRANT_SECONDS = 10.0

EMBEDDING_DOWN = Warning_("embedding_unavailable", "The embedding model does not answer: only keywords were searched.")
QDRANT_DOWN = Warning_(
    "vector_index_unavailable", "The vector index does not answer: only Postgres full-text was searched."
)
NOTHING_INDEXED = Warning_(
    "nothing_indexed", "Nothing has been indexed yet. Upload a file, or wait for the first sync of a source."
)
POSTGRES_DOWN = Warning_(
    "registry_unavailable",
    "Postgres does not answer: results come from the index alone, without those whose permissions were not checked recently.",
)

log = logger("serving")


class Retrieved(NamedTuple):
    """Candidates, what went wrong on the way, and payloads by chunk id where they were asked for."""

    candidates: Candidates
    degradations: list[Warning_]
    payloads: Mapping[str, Mapping[str, Any]]


class _Dense(NamedTuple):
    """A query's own vector, the one to search with (a different one after expansion), and the factor of the latter's cosines."""

    own: list[float]
    vector: list[float]
    scale: float
    floor: float
    collection: str


class Embedded(NamedTuple):
    """A query's vectors, which all rounds of a search use, and the collection that they belong to. `dense` is None without vectors."""

    collection: str
    reader_ids: bool
    dense: _Dense | None
    expansion: Expansion | None
    degradations: Sequence[Warning_] = ()


class _IndexDownError(Exception):
    """Qdrant does not answer, or not as it should."""

    @property
    def lacks_collection(self) -> bool:
        return isinstance(self.__cause__, NoCollectionError)


class Engines:
    """Finds candidates, with fewer engines while some are down."""

    def __init__(self, searches: VectorSearch, database: Database, embedder: QueryEmbedder) -> None:
        self._searches = searches
        self._database = database
        self._embedder = embedder

    async def embed(self, query: SearchQuery, expansion: Expansion | None = None) -> Embedded:
        """Return the query's vectors, none if only keywords are searched or the model does not answer."""
        collection, reader_ids = self._embedder.collection, self._embedder.reader_ids
        if query.mode == "keyword":
            return Embedded(collection, reader_ids, None, expansion)
        try:
            return Embedded(collection, reader_ids, await self._vectors(query, expansion), expansion)
        except TemporaryError as error:
            log.warning("embedding_unavailable", error=str(error))
            return Embedded(collection, reader_ids, None, expansion, [EMBEDDING_DOWN])

    async def find(self, query: SearchQuery, embedded: Embedded, *, with_payload: bool) -> Retrieved:
        """Return candidates; with payloads, which stand in for the registry, from Qdrant alone.

        Raises `ServiceUnavailableError` when nothing answers, or Postgres does not and is asked.
        """
        collection, reader_ids, dense, expansion, degradations = embedded
        degradations = list(degradations)
        stored = None if collection == ALIAS else collection
        if dense is None:
            query = query._replace(mode="keyword")
        try:
            found = await self._from_qdrant(collection, query, dense, with_payload=with_payload, by_number=reader_ids)
            if dense is not None and expansion is not None and dense.vector is not dense.own:
                found = await self._with_original_scores(found, query, dense, expansion)
        except _IndexDownError as error:
            if (
                not with_payload
                and error.lacks_collection
                and await WebReads(self._database).active_collection() is None
            ):
                return Retrieved(Candidates([], saturated=False, depth=query.depth), [NOTHING_INDEXED], {})
            log.warning("qdrant_unavailable", error=str(error))
            if with_payload:
                raise ServiceUnavailableError(
                    "Neither Postgres nor the vector index answers. Try again shortly."
                ) from error
            degradations = [*(one for one in degradations if one != EMBEDDING_DOWN), QDRANT_DOWN]
            found = await self._from_postgres(query, stored)
        candidates = msgspec.structs.replace(found.candidates, collection=stored)
        return found._replace(candidates=candidates, degradations=degradations)

    async def _vectors(self, query: SearchQuery, expansion: Expansion | None) -> _Dense:
        """Return the query's vectors. Collection and floor are read by name: the model that embeds is theirs."""
        collection, floor = self._embedder.collection, self._embedder.floor
        own = await self._embedder.query(query.text)
        if expansion is None or expansion.collection != collection:
            return _Dense(own, own, 1.0, floor, collection)
        return _Dense(own, *expansion.mixed(own), floor, collection)

    async def _from_qdrant(
        self, collection: str, query: SearchQuery, dense: _Dense | None, *, with_payload: bool, by_number: bool
    ) -> Retrieved:
        """Search both legs in one batch; `by_number`: points have the numbers of their readers."""
        sparse = encode_query(keywords(query), self._embedder.languages) if query.mode != "vector" else None
        keyword = sparse if sparse is not None and sparse.indices else None
        vector = dense.vector if dense is not None else None
        batch = queries(query, vector, keyword, with_payload=with_payload, by_number=by_number)
        with tracing.span("bm25_search", words=len(keyword.indices)) if keyword is not None else nullcontext():
            answers = await self._ask(collection, batch)  # one request answers both legs
        payloads = _payloads(answers[:2]) if with_payload else {}
        legs = iter(answers)
        scale = dense.scale if dense is not None else 1.0
        dense_hits = _scores(next(legs), scale) if dense is not None else {}
        keyword_hits = _scores(next(legs)) if keyword is not None else {}
        dense_extra, keyword_extra = (
            (_scores(next(legs), scale), _scores(next(legs))) if len(answers) == 4 else ({}, {})
        )
        dense_leg = Leg(dense_hits, dense_extra, dense.floor if dense is not None else 0.0)
        return Retrieved(_candidates(query, dense_leg, Leg(keyword_hits, keyword_extra)), [], payloads)

    async def _from_postgres(self, query: SearchQuery, collection: str | None) -> Retrieved:
        words = await full_text(self._database, query, collection)
        return Retrieved(_candidates(query._replace(mode="keyword"), Leg({}), Leg(words)), [], {})

    async def _with_original_scores(
        self, found: Retrieved, query: SearchQuery, dense: _Dense, expansion: Expansion
    ) -> Retrieved:
        """Return the candidates with the cosines of the query itself: thresholds and the answer gate are calibrated on these."""
        ids = [candidate.chunk_id for candidate in found.candidates.ranked]
        answers = await self._ask(dense.collection, [scoring(query, dense.own, ids)] if ids else [])
        own = _scores(answers[0]) if answers else {}
        ranked = [
            msgspec.structs.replace(candidate, dense=own.get(candidate.chunk_id))
            for candidate in found.candidates.ranked
        ]
        restored = msgspec.structs.replace(found.candidates, ranked=ranked, expansions=expansion.texts)
        return found._replace(candidates=restored)

    async def _ask(self, collection: str, batch: Sequence[PointQuery]) -> list[QueryHits]:
        if not batch:
            return []
        try:
            with tracing.span("qdrant_search", queries=len(batch)):
                return await self._searches.query(collection, batch, QDRANT_SECONDS)
        except (ServiceUnavailableError, AbortSyncError) as error:
            raise _IndexDownError(str(error)) from error


def _scores(answer: QueryHits, scale: float = 1.0) -> dict[str, float]:
    return {str(point.id): point.score * scale for point in answer.points}


def _payloads(answers: Sequence[QueryHits]) -> dict[str, Mapping[str, Any]]:
    return {str(point.id): point.payload for answer in answers for point in answer.points if point.payload}


def _candidates(query: SearchQuery, dense: Leg, keyword: Leg) -> Candidates:
    """Return the best of both legs, as many as each has at most."""
    with tracing.span("result_fusion", dense=len(dense.hits), keyword=len(keyword.hits)):
        ranked = _ranked(query, dense, keyword)
    saturated = max(len(dense.hits), len(keyword.hits)) >= query.depth or len(ranked) > query.depth
    agreement = query.agreement if query.mode == "hybrid" else 0.0
    return Candidates(ranked[: query.depth], saturated, query.depth, agreement=agreement)


def _ranked(query: SearchQuery, dense: Leg, keyword: Leg) -> list[Candidate]:
    fused = fuse(query.mode, query.fusion, dense, keyword, query.dense_weight)
    near, words = dense.scores(), keyword.scores()
    dense_ranks, keyword_ranks = dense.ranks(), keyword.ranks()
    return [
        Candidate(
            chunk_id=chunk_id,
            fused=score,
            dense=near.get(chunk_id),
            dense_rank=dense_ranks.get(chunk_id),
            keyword=words.get(chunk_id),
            keyword_rank=keyword_ranks.get(chunk_id),
        )
        for chunk_id, score in fused.items()
    ]
