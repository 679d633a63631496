"""`POST /api/rag/search`, and what all search interfaces have in common: rate limit, audit and metrics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access
from resources.logging import logger
from serving.audit import AuditEvent
from serving.citations.format import Format
from serving.deps import Services
from serving.errors import rate_limited
from serving.filters import Filters, narrowing
from serving.openapi.describe import described
from serving.results import Result, results
from serving.retrieval.passage import Degradation, SearchOutcome
from serving.retrieval.query import SearchQuery, search_query
from serving.schemas import Fusion, Question, SearchMode, Warning_
from serving.understanding.filters import Reading, Understand, Understood

log = logger("serving")


class SearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search. `query` has 1 to 1000 characters."""

    query: Question
    """1 to 1000 characters after white space is collapsed. A phrase in quotation marks must occur in the passage or above it."""
    top_k: Annotated[int, Meta(ge=1, le=50)] = 5
    """Number of documents, or of passages if `group_by_document` is false."""
    mode: SearchMode = "hybrid"
    """How to search."""
    fusion: Fusion | None = None
    """How to combine the two searches of mode `hybrid`. Null: the setting of the installation."""
    depth: Annotated[int, Meta(ge=10, le=500)] | None = None
    """Candidates from each of the two searches. Null: the setting of the installation."""
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Leave out results with a lower `relevance_score`. Null: those hardly about the query are left out; 0 returns everything."""
    rerank: bool = False
    """True to order the best passages by the cross-encoder of the installation, if it has one."""
    group_by_document: bool = True
    """True to return only the best passage of each document."""
    neighbours: Annotated[int, Meta(ge=0, le=3)] = 0
    """Number of passages to return before and after each result."""
    explain: bool = False
    """True to return how each result was scored."""
    citation_format: Format = "inline"
    """The format of `citation.text`."""
    filters: Filters | None = None
    """Filters that every result must match. Null: none."""
    understand: Understand = True
    """Apply the filters that the query states in words: true, false, or the kinds to apply."""


class SearchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a search. `held_back` counts documents withheld because their permissions were checked too long ago.

    `understood` are the filters that the query states in words.
    """

    results: list[Result]
    """The results, best first. Keep their order."""
    understood: list[Understood]
    """Filters that the query states in words."""
    query_id: str
    """ID of this search in the audit log, and for feedback."""
    latency_ms: float
    """Time spent in the service, in milliseconds."""
    cached: bool
    """True if the candidates came from the cache; permissions were checked again."""
    held_back: int
    """Number of documents left out because their permissions were checked too long ago."""
    warnings: list[Warning_]
    """Reasons why the results may be incomplete."""


def enforce_rate_limit(services: Services, access: Access) -> None:
    """Count a search against the caller's rate limit. Raises the problem `rate-limited`."""
    wait = services.limit.take(access.email)
    if wait > 0:
        services.metrics.rate_limited.inc()
        raise rate_limited(f"At most {services.settings.search_rate_limit} searches a minute.", wait)


def warnings_of(degradations: Sequence[Degradation]) -> list[Warning_]:
    """Return degradations as the interfaces show them."""
    return [Warning_(code, message) for code, message in degradations]


async def recorded_search(
    services: Services, query: SearchQuery, asked: str | None = None
) -> tuple[str, SearchOutcome]:
    """Search, record it in the audit log and count it; return its id and outcome. The event is stored before the response is sent.

    `asked` is the query as it was sent, if other words are searched for.
    """
    began = time.perf_counter()
    query_id = str(uuid.uuid4())
    outcome = await services.retriever.search(query)
    found = [one.doc_id for one in outcome.passages]
    await services.audit.record(
        AuditEvent(
            email=query.access.email, action="search", query_id=query_id, query=asked or query.text, doc_ids=found
        )
    )
    seconds = time.perf_counter() - began
    codes = [one.code for one in outcome.degradations]
    services.metrics.searched(
        mode=query.mode, cached=outcome.cached, seconds=seconds, results=len(found), warnings=codes
    )
    log.info(
        "search",
        query_id=query_id,
        mode=query.mode,
        fusion=query.fusion,
        results=len(found),
        cached=outcome.cached,
        warnings=codes,
        duration_ms=round(seconds * 1000, 2),
    )
    return query_id, outcome


@post(
    "/api/rag/search",
    operation_id="search",
    status_code=200,
    tags=["search"],
    summary="Search passages",
    opt=described(
        request={"query": "What do we offer for StreamSight?", "top_k": 3, "filters": {"source_types": ["files"]}}
    ),
)
async def search(
    request: Request[Access, Any, Any], data: JSONBody[SearchRequest], services: NamedDependency[Services]
) -> SearchResponse:
    """Find passages that the caller may read, best first, each with its source and location."""
    enforce_rate_limit(services, request.user)
    began = time.perf_counter()
    reading = await services.understanding.read(data.query, request.user, narrowing(data.filters), data.understand)
    query_id, outcome = await recorded_search(services, _query(data, reading, request.user, services), reading.asked)
    if not outcome.passages and reading.narrows:
        reading = reading.without()
        query_id, outcome = await recorded_search(services, _query(data, reading, request.user, services))
    shown = results(
        outcome.passages,
        style=data.citation_format,
        base_url=services.settings.base_url,
        now=services.clock(),
        explain=data.explain,
        expansions=outcome.expansions,
    )
    return SearchResponse(
        results=shown,
        understood=reading.understood,
        query_id=query_id,
        latency_ms=round((time.perf_counter() - began) * 1000, 2),
        cached=outcome.cached,
        held_back=outcome.held_back,
        warnings=warnings_of(outcome.degradations),
    )


def _query(data: SearchRequest, reading: Reading, access: Access, services: Services) -> SearchQuery:
    return search_query(
        reading.text,
        access,
        services.settings,
        limit=data.top_k,
        mode=data.mode,
        fusion=data.fusion,
        depth=data.depth,
        narrowing=reading.narrowing,
        threshold=data.threshold,
        relevant_only=True,
        rerank=data.rerank,
        group=data.group_by_document,
        neighbours=data.neighbours,
    )
