"""One search from end to end: a request and the caller's access enter, the answer leaves.

Order: cached candidates or fresh ones → recheck against the registry → boost, threshold, duplicates, grouping → results. Cache
rows are queued and never waited for; the event for the audit log is kept before the answer leaves.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from resources.core.domain import Access
from resources.core.durations import duration
from resources.logging import logger
from resources.settings import Settings
from serving.access.rights import Rights
from serving.audit import Audit, AuditEvent
from serving.background import Background
from serving.database import Database, RegistryDownError
from serving.embedding import QueryEmbedder
from serving.metrics import Metrics
from serving.retrieval import cache, hits, rank
from serving.retrieval.agree import agreed
from serving.retrieval.engines import NO_RERANKER, POSTGRES_DOWN, Engines, Retrieved
from serving.retrieval.expand import UNAVAILABLE, Expander, Expansion
from serving.retrieval.plan import Plan, plan
from serving.retrieval.rerank import Reranker
from serving.retrieval.results import results
from serving.retrieval.scale import Scale
from serving.schemas import Neighbour, SearchRequest, SearchResponse, Warning_

MAX_DEPTH = 2000
INDEX_INCOMPLETE = (
    "index_incomplete",
    "The index lacks a part of what was indexed, so documents may be missing here. Syncs write it again.",
)
_DEEPER = 4

log = logger("serving")


class _Answer(NamedTuple):
    ranked: list[rank.Ranked]
    warnings: list[tuple[str, str]]
    cached: bool
    held_back: int
    registry: bool
    expansions: list[str]
    reranked: bool = False


class Passages(NamedTuple):
    """What answers are made from: passages, best first. `registry`: Postgres said who may read them, so that it may be written to."""

    ranked: list[rank.Ranked]
    warnings: list[tuple[str, str]]
    held_back: int
    registry: bool


def held_back_warning(documents: int, limit: str) -> tuple[str, str]:
    """Return the warning that documents are left out for the age of their permissions."""
    subject, it = ("1 document is", "it") if documents == 1 else (f"{documents} documents are", "them")
    message = (
        f"{subject} left out for now: who may read {it} was last checked more than {limit} ago. "
        "The next sync that reaches the source brings back what you may read."
    )
    return ("held_back", message)


class Retriever:
    """The one search service; every route only translates to it and from it."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        engines: Engines,
        embedder: QueryEmbedder,
        background: Background,
        audit: Audit,
        rights: Rights,
        metrics: Metrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reranker: Reranker | None = None,
        expander: Expander | None = None,
        incomplete: Callable[[], bool] = lambda: False,
    ) -> None:
        """`incomplete` tells whether the index lacks passages that the registry lists."""
        self._incomplete = incomplete
        self._reranker = reranker
        self._expander = expander
        self._settings = settings
        self._database = database
        self._engines = engines
        self._embedder = embedder
        self._background = background
        self._audit = audit
        self._rights = rights
        self._metrics = metrics
        self._clock = clock
        self._max_age = duration(settings.acl_max_age)

    async def search(self, request: SearchRequest, access: Access) -> SearchResponse:
        """Answer a search. Raises `InvalidRequestError` naming the field, or `ServiceUnavailableError` when nothing answers."""
        began = time.perf_counter()
        search = plan(request, self._settings)
        query_id, now = str(uuid.uuid4()), self._clock()
        answer = await self._answer(search, request, access, now)
        shown = answer.ranked[: request.top_k]
        warnings = [*self._warnings(answer), *([NO_RERANKER] if request.rerank and not answer.reranked else [])]
        if answer.held_back:
            warnings.append(held_back_warning(answer.held_back, self._settings.acl_max_age))
        around = None
        if request.neighbours:
            around = await self._neighbours(shown, request.neighbours, access, now) if answer.registry else {}
        response = SearchResponse(
            results=results(
                shown,
                query=search.query,
                style=request.citation_format,
                base_url=self._settings.base_url,
                now=now,
                explain=request.explain,
                neighbours=around,
                expansions=answer.expansions,
            ),
            query_id=query_id,
            latency_ms=round((time.perf_counter() - began) * 1000, 2),
            cached=answer.cached,
            held_back=answer.held_back,
            warnings=[Warning_(code, message) for code, message in warnings],
        )
        found = [result.doc_id for result in response.results]
        await self._audit.record(
            AuditEvent(email=access.email, action="search", query_id=query_id, query=search.query, doc_ids=found)
        )
        self._count(search, response, time.perf_counter() - began)
        return response

    async def passages(self, request: SearchRequest, access: Access) -> Passages:
        """Return the passages of a search as they are ranked, for those who go on with them. Raises as `search` does."""
        search = plan(request, self._settings)
        answer = await self._answer(search, request, access, self._clock())
        warnings = self._warnings(answer)
        if answer.held_back:
            warnings.append(held_back_warning(answer.held_back, self._settings.acl_max_age))
        return Passages(answer.ranked[: request.top_k], warnings, answer.held_back, answer.registry)

    async def _answer(self, search: Plan, request: SearchRequest, access: Access, now: datetime) -> _Answer:
        try:
            return await self._with_registry(search, request, access, now)
        except RegistryDownError as error:
            # No connection for a while. A busy Postgres raises `OverloadedError`, which is answered with 503.
            log.warning("search_without_registry", error=str(error))
        expansion, missed = await self._expand(search)
        found = await self._engines.find(search, access, expansion, with_payload=True)
        checked = hits.from_payloads(
            found.payloads,
            access,
            now - self._max_age,
            self._rights.current(),
            collection_ids=search.narrowing.collection_ids,
        )
        candidates = agreed(found.candidates, checked.hits)
        ranked = self._rank(search, candidates, checked.hits, request, access, now)
        warnings = [*missed, *found.warnings, POSTGRES_DOWN]
        added = found.candidates.expansions
        answer = _Answer(ranked, warnings, cached=False, held_back=checked.held_back, registry=False, expansions=added)
        return await self._reranked(answer, search, candidates, checked.hits, request, access, now)

    async def _with_registry(self, search: Plan, request: SearchRequest, access: Access, now: datetime) -> _Answer:
        seconds = self._settings.search_cache_seconds
        cache_key = cache.key(search, access, self._embedder.model)
        known = await cache.lookup(self._database, cache_key) if seconds else cache.Found(0, None)
        found = Retrieved(known.candidates, [], {}) if known.candidates is not None else None
        cached = found is not None
        expansion, missed = None, None
        while True:
            if found is None:
                if missed is None:
                    expansion, missed = await self._expand(search)
                found = await self._engines.find(search, access, expansion, with_payload=False)
            ids = [candidate.chunk_id for candidate in found.candidates.ranked]
            checked = await hits.recheck(
                self._database,
                access,
                ids,
                now - self._max_age,
                archived=search.narrowing.include_archived,
                collection_ids=search.narrowing.collection_ids,
            )
            candidates = agreed(found.candidates, checked.hits)
            ranked = self._rank(search, candidates, checked.hits, request, access, now)
            if len(ranked) >= request.top_k or not found.candidates.saturated or found.candidates.depth >= MAX_DEPTH:
                break
            # Chunks that fell away or share documents left too few: look deeper.
            search = search._replace(depth=min(MAX_DEPTH, found.candidates.depth * _DEEPER))
            found, cached = None, False
        warnings, added = [*(missed or ()), *found.warnings], found.candidates.expansions
        if seconds and not cached and not warnings and not self._incomplete():
            self._background.put("cache_store", cache.row(cache_key, found.candidates, known.version, seconds))
        answer = _Answer(ranked, warnings, cached=cached, held_back=checked.held_back, registry=True, expansions=added)
        return await self._reranked(answer, search, candidates, checked.hits, request, access, now)

    def _warnings(self, answer: _Answer) -> list[tuple[str, str]]:
        """Return an answer's warnings. The one of an incomplete index is the same whoever asks, and whatever is missing."""
        return [*answer.warnings, *([INDEX_INCOMPLETE] if self._incomplete() else [])]

    async def _expand(self, search: Plan) -> tuple[Expansion | None, list[tuple[str, str]]]:
        """Return what the language model adds to the query, if it is to, and the warning that it did not."""
        if self._expander is None or search.expansion == "off":
            return None, []
        expansion = await self._expander.expand(search)
        return expansion, [] if expansion is not None else [UNAVAILABLE]

    async def _reranked(
        self,
        answer: _Answer,
        search: Plan,
        candidates: Sequence[cache.Candidate],
        passages: Mapping[str, hits.Hit],
        request: SearchRequest,
        access: Access,
        now: datetime,
    ) -> _Answer:
        """Return the answer in the order of the cross-encoder, if one is asked for and there is one."""
        if not request.rerank or self._reranker is None:
            return answer
        scores = await self._reranker.scores(search.query, candidates, passages)
        if scores is None:
            return answer
        threshold = self._reranker.threshold if request.threshold is None else request.threshold
        ranked = rank.rank(
            candidates,
            passages,
            reader=access.email,
            now=now,
            threshold=threshold,
            group=request.group_by_document,
            scale=Scale.of(search, candidates, self._embedder.floor),
            reranked=scores,
        )
        return answer._replace(ranked=ranked, reranked=True)

    def _rank(
        self,
        search: Plan,
        candidates: Sequence[cache.Candidate],
        passages: Mapping[str, hits.Hit],
        request: SearchRequest,
        access: Access,
        now: datetime,
    ) -> list[rank.Ranked]:
        return rank.rank(
            candidates,
            passages,
            reader=access.email,
            now=now,
            threshold=request.threshold,
            group=request.group_by_document,
            scale=Scale.of(search, candidates, self._embedder.floor),
        )

    async def _neighbours(
        self, shown: Sequence[rank.Ranked], distance: int, access: Access, now: datetime
    ) -> dict[tuple[str, int], list[Neighbour]]:
        rows = await self._database.fetch(
            "neighbours",
            {
                "doc_ids": [one.hit.doc_id for one in shown],
                "chunk_indexes": [one.hit.chunk_index for one in shown],
                "distance": distance,
                "principals": sorted(access.principals),
                "fresh_since": now - self._max_age,
            },
        )
        around: dict[tuple[str, int], list[Neighbour]] = {}
        for row in rows:
            place: tuple[str, int] = (row.pop("doc_id"), row.pop("around"))
            around.setdefault(place, []).append(Neighbour(**row))
        return around

    def _count(self, search: Plan, response: SearchResponse, seconds: float) -> None:
        codes = [warning.code for warning in response.warnings]
        self._metrics.searched(
            mode=search.mode, cached=response.cached, seconds=seconds, results=len(response.results), warnings=codes
        )
        log.info(
            "search",
            query_id=response.query_id,
            mode=search.mode,
            fusion=search.fusion,
            results=len(response.results),
            cached=response.cached,
            warnings=codes,
            duration_ms=response.latency_ms,
        )
