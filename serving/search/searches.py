"""`POST /api/rag/search`, and what all search interfaces have in common: rate limit, audit and metrics."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, Meta, UnsetType

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.logging import logger
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.cursors import MAX_CURSOR
from serving.http.errors import rate_limited
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.citations.format import Format
from serving.search.facets import Facet, FacetValue, facets
from serving.search.filters import Filters
from serving.search.results import Result, documents_of, results
from serving.search.retrieval.passage import Passage, SearchOutcome, Warning_
from serving.search.retrieval.query import MOST_RESULTS, Respelled, SearchQuery, search_query
from serving.search.retrieval.respell import respelled
from serving.search.schemas import DenseWeight, Fusion, Question, SearchMode
from serving.search.service import SearchServices
from serving.search.understanding.filters import Reading, Understand, Understood
from serving.search.understanding.named import Named

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
    dense_weight: DenseWeight | None = None
    """Share of the search by meaning, 0 to 1. Null: the setting of the installation."""
    depth: Annotated[int, Meta(ge=10, le=500)] | None = None
    """Candidates from each of the two searches. Null: the setting of the installation."""
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Leave out results with a lower `relevance_score`. Null: that of the installation, or those hardly about the query; 0 returns all."""
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
    cursor: Annotated[str, Meta(max_length=MAX_CURSOR)] | None = None
    """`next_cursor` of the page before, with everything else as it was. Null: the first page."""
    total: bool = False
    """True to count the results of all pages."""
    facets: Annotated[list[Facet], Meta(max_length=10)] = []
    """Properties by whose values the results of all pages are counted."""
    names: bool = False
    """True to return the people, channels and folders that the query names at its end, on the first page."""


class Total(msgspec.Struct, frozen=True):
    """The number of results that the caller may read: documents, or passages without grouping."""

    count: int
    """The number of results, at most 200."""
    exact: bool
    """False if there may be more."""


SpellingKind = Annotated[
    Literal["beginning", "error"],
    Meta(title="SpellingKind", description="How a word of the query differs from the words that were searched for."),
]


class Spelling(msgspec.Struct, frozen=True):
    """A word of the query that no passage holds, and the words of passages that were searched for instead."""

    word: str
    """The word as it is in the query, without accents."""
    instead: list[str]
    """What was searched for, the likeliest first."""
    kind: SpellingKind
    """`beginning`: the query ends with it, and `instead` begins with it. `error`: `instead` differs from it by one edit."""


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
    spelling: list[Spelling] | UnsetType = UNSET
    """Words of the query that were completed or corrected, because no passage holds them; absent if there are none."""
    corrected: str | UnsetType = UNSET
    """The query with the corrections; absent if none of its words is taken for an error."""
    names: list[Named] | UnsetType = UNSET
    """People, channels and folders whose name the query ends with, or with the beginning of it, at most 3 of each; absent unless
    requested, or if they could not be looked up in time."""
    next_cursor: str | None
    """The field `cursor` of the next page; null if there is none."""
    total: Total | UnsetType = UNSET
    """The number of results on all pages; absent unless requested."""
    facets: dict[str, list[FacetValue]] | UnsetType = UNSET
    """The most frequent values of each requested facet, at most 20, among the results of all pages; absent unless requested."""


class SearchCursor(msgspec.Struct, frozen=True, array_like=True):
    """Position of a search's next page: what it leaves out, and how the search understood the query."""

    grouped: bool
    understood: bool
    """False if the filters that the query states in words are ignored, because nothing was found with them."""
    seen: Annotated[list[Annotated[bytes, Meta(min_length=16, max_length=16)]], Meta(max_length=MOST_RESULTS)]
    """IDs, sorted: their order would say nothing but the ranking."""


class _Recorded(NamedTuple):
    cursor: SearchCursor
    reading: Reading
    query_id: str
    outcome: SearchOutcome


async def enforce_rate_limit(search: SearchServices, access: Access) -> None:
    """Count a search against the caller's rate limit. Raises the problem `rate-limited`."""
    wait = await search.http.limit.take_shown(access.email)
    if wait > 0:
        search.http.metrics.rate_limited.inc()
        raise rate_limited(f"At most {search.http.settings.search_rate_limit} searches a minute.", wait)


def _returned(outcome: SearchOutcome) -> list[str]:
    return documents_of(outcome.passages)


async def recorded_search(
    search: SearchServices,
    query: SearchQuery,
    asked: str | None = None,
    *,
    action: str = "search",
    returned: Callable[[SearchOutcome], list[str]] = _returned,
) -> tuple[str, SearchOutcome]:
    """Search, record it in the audit log and count it; return its id and outcome. The event is stored before the response is sent.

    `asked` is the query as it was sent, if other words are searched for. `returned` gives the IDs of the documents that the caller gets;
    a search that it refuses with a problem is neither recorded nor counted.
    """
    began = time.perf_counter()
    query_id = str(uuid.uuid4())
    outcome = await search.retriever.search(query)
    await search.http.audit.record(
        AuditEvent(
            email=query.access.email,
            action=action,
            query_id=query_id,
            query=asked or query.text,
            doc_ids=returned(outcome),
        )
    )
    seconds = time.perf_counter() - began
    codes = [one.code for one in outcome.degradations]
    search.http.metrics.searched(
        mode=query.mode, cached=outcome.cached, seconds=seconds, results=len(outcome.passages), warnings=codes
    )
    log.info(
        "search",
        query_id=query_id,
        mode=query.mode,
        fusion=query.fusion,
        results=len(outcome.passages),
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
    opt=limited("search")
    | described(
        repeatable=True,
        request={"query": "What do we offer for StreamSight?", "top_k": 3, "filters": {"source_types": ["files"]}},
        example=examples.SEARCH,
    ),
)
async def search(
    request: Request[Access, Any, Any], data: JSONBody[SearchRequest], search: NamedDependency[SearchServices]
) -> SearchResponse:
    """Find passages that the caller may read, best first, each with its source and location."""
    return await found(search, data, request.user)


async def found(search: SearchServices, data: SearchRequest, access: Access) -> SearchResponse:
    """Search for a caller of any interface that takes a `SearchRequest`, within the caller's rate limit."""
    await enforce_rate_limit(search, access)
    began = time.perf_counter()
    cursor = _cursor(data)
    facets([], data.facets)  # unknown ones are refused before anything is searched
    reading = await search.understanding.read(data.query, access, data.filters, data.understand)
    if not cursor.understood:
        reading = reading.without()
    names = None
    searching = _searched(search, data, cursor, reading, access)
    if data.names and data.cursor is None:
        naming = search.naming.of(reading.asked, reading.understood, access, search.http.fresh_since())
        searched, names = await asyncio.gather(searching, naming)
    else:
        searched = await searching
    cursor, reading, query_id, outcome = searched
    shown = results(
        outcome.passages,
        style=data.citation_format,
        base_url=search.http.settings.base_url,
        now=search.http.clock(),
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
        warnings=outcome.degradations,
        spelling=[
            Spelling(one.word, list(one.instead), "beginning" if one.beginning else "error")
            for one in outcome.respelled
        ]
        or UNSET,
        corrected=respelled(reading.asked, errors) if (errors := _errors(outcome)) else UNSET,
        names=UNSET if names is None else names,
        next_cursor=_next(cursor, outcome),
        total=Total(len(outcome.matches), outcome.exact) if data.total else UNSET,
        facets=facets(outcome.matches, data.facets) if data.facets else UNSET,
    )


async def ranking(
    search: SearchServices, query: str, access: Access, *, top_k: int, action: str
) -> tuple[Sequence[Passage], list[str]]:
    """Return what a search for the query finds, best first, and the parts of the query that narrow it.

    The audit log has the action and names no document.
    """
    data = SearchRequest(query, top_k=top_k)
    reading = await search.understanding.read(query, access, None, data.understand)
    found = await _searched(search, data, _cursor(data), reading, access, action=action, returned=lambda _: [])
    return found.outcome.passages, [one.text for one in found.reading.understood if one.applied]


async def _searched(
    search: SearchServices,
    data: SearchRequest,
    cursor: SearchCursor,
    reading: Reading,
    access: Access,
    *,
    action: str = "search",
    returned: Callable[[SearchOutcome], list[str]] = _returned,
) -> _Recorded:
    """Search, and again without the filters understood if nothing is found with them."""

    async def record() -> tuple[str, SearchOutcome]:
        query = _query(data, cursor, reading, access, search)
        return await recorded_search(search, query, reading.asked, action=action, returned=returned)

    query_id, outcome = await record()
    if not outcome.passages and reading.narrows and data.cursor is None:
        cursor, reading = msgspec.structs.replace(cursor, understood=False), reading.without()
        query_id, outcome = await record()
    return _Recorded(cursor, reading, query_id, outcome)


def _errors(outcome: SearchOutcome) -> list[Respelled]:
    return [one for one in outcome.respelled if not one.beginning]


def _cursor(data: SearchRequest) -> SearchCursor:
    """Return the cursor of a request. Raises `InvalidRequestError`."""
    if data.cursor is None:
        return SearchCursor(data.group_by_document, understood=True, seen=[])
    cursor = cursors.decode(data.cursor, SearchCursor)
    if cursor.grouped != data.group_by_document:
        raise InvalidRequestError("cursor: is of a search with another `group_by_document`. Send the same request.")
    return cursor


def _next(cursor: SearchCursor, outcome: SearchOutcome) -> str | None:
    if not outcome.more:
        return None
    seen = sorted(uuid.UUID(one).bytes for one in outcome.seen)
    return cursors.encode(msgspec.structs.replace(cursor, seen=seen))


def _query(
    data: SearchRequest, cursor: SearchCursor, reading: Reading, access: Access, search: SearchServices
) -> SearchQuery:
    return search_query(
        reading.text,
        access,
        search.http.settings,
        limit=data.top_k,
        mode=data.mode,
        fusion=data.fusion,
        dense_weight=data.dense_weight,
        depth=data.depth,
        narrowing=reading.narrowing,
        threshold=data.threshold,
        relevant_only=not reading.open,
        respell=not reading.open,
        rerank=data.rerank,
        group=data.group_by_document,
        neighbours=data.neighbours,
        seen=frozenset(str(uuid.UUID(bytes=one)) for one in cursor.seen),
        counted=data.total or bool(data.facets),
    )
