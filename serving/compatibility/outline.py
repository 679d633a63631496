"""`POST /api/rag.search`: Outline's RAG search in its own spelling (camelCase), with its errors by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import ConcordanceError, InvalidRequestError
from serving.http.errors import ProblemError, handle, handle_http, handle_validation, rate_limited
from serving.http.fields import Name, parse_id
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.problems import PREFIX
from serving.http.request_limits import limited
from serving.search.filters import Filters, narrowing
from serving.search.results import link_of
from serving.search.retrieval.engines import EMBEDDING_DOWN
from serving.search.retrieval.fuse import clamp
from serving.search.retrieval.highlight import snippet
from serving.search.retrieval.passage import SCORE_DIGITS, Passage, SearchOutcome, Warning_
from serving.search.retrieval.query import normalise, search_query
from serving.search.schemas import DenseWeight, Fusion, Question
from serving.search.searches import enforce_rate_limit, recorded_search
from serving.search.service import SearchServices
from sql.fields import Moment
from sql.serving import WebReads

MIN_QUERY = 3
MAX_LIMIT = 50


class RagSearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A search. `query` has 3 to 1000 characters; without `threshold` the model's calibrated one counts."""

    query: Question
    """3 to 1000 characters after white space is collapsed."""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 10
    """Number of passages."""
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Leave out passages with a lower `score`. Null: those hardly about the query are left out."""
    collection_id: Annotated[str, Meta(max_length=2000)] | None = None
    """A root, folder or channel with everything below it. Null: all."""
    document_id: Name | None = None
    """ID of a document. Null: all."""
    include_context: bool = True
    """False to leave `context` empty."""
    mode: Annotated[Literal["vector", "hybrid"], Meta(title="RagSearchMode", description="How to search.")] = "vector"
    """`vector` searches by meaning, `hybrid` by meaning and keywords."""
    fusion: Fusion | None = None
    """How to combine the two searches of mode `hybrid`. Null: the setting of the installation."""
    dense_weight: DenseWeight | None = None
    """Share of the search by meaning, 0 to 1. Null: the setting of the installation."""


class RagDocument(msgspec.Struct, frozen=True, rename="camel"):
    """The document that a passage belongs to."""

    id: str
    """ID of the document."""
    title: str
    """Title of the document."""
    url: str
    """Opens the document at the passage."""
    collection_id: str | None
    """The document's collection. Null for a folder that you may not know."""
    updated_at: Moment | None
    """When the document was last modified; null if unknown."""


class RagResult(msgspec.Struct, frozen=True, rename="camel"):
    """A passage; `score` is its cosine, in mode `hybrid` or after reranking the `relevance_score` of a search. `context` is empty unless
    asked for."""

    id: str
    """ID of the passage."""
    document: RagDocument
    """The document."""
    score: float
    """The cosine, 0 to 1; in mode `hybrid` or after reranking, the `relevance_score` of a search."""
    context: str
    """The passage; empty unless `includeContext`."""
    chunk_index: int
    """Position of the passage in the document, from 0."""


class Pagination(msgspec.Struct, frozen=True):
    """`total` counts what passed the threshold, at most 50."""

    limit: int
    """The limit of the request."""
    total: int
    """Number of passages that passed the threshold, at most 50."""


class RagSearchResponse(msgspec.Struct, frozen=True):
    """Passages, best first. `warnings` as in `POST /api/rag/search`."""

    data: list[RagResult]
    """The passages, best first."""
    pagination: Pagination
    """How many there are."""
    warnings: list[Warning_]
    """Reasons why the results may be incomplete."""


def _kept(body: RagSearchRequest, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages that reach the threshold, best first. A reranker has left out the others."""
    if any(one.scores.rerank is not None for one in passages):
        return list(passages)
    kept = [one for one in passages if _score(body, one) >= (body.threshold or 0.0)]
    return sorted(kept, key=lambda one: -_score(body, one)) if body.mode == "vector" else kept


def _score(body: RagSearchRequest, passage: Passage) -> float:
    cosine = passage.scores.dense
    if body.mode == "vector" and cosine is not None and passage.scores.rerank is None:
        return round(clamp(cosine), SCORE_DIGITS)
    return passage.relevance


def _result(body: RagSearchRequest, passage: Passage, base_url: str) -> RagResult:
    cut = snippet(passage.chunk_text, passage.matches, passage.headings)
    address = link_of(passage, base_url, cut.start)
    document = RagDocument(passage.doc_id, passage.title, address, passage.collection_id, passage.modified_at)
    context = passage.chunk_text if body.include_context else ""
    return RagResult(passage.chunk_id, document, _score(body, passage), context, passage.chunk_index)


NAMES = {
    "invalid-request": "InvalidQueryError",
    "rate-limited": "EmbeddingRateLimited",
    "service-unavailable": "EmbeddingServiceUnavailable",
    "not-found": "NoEmbeddingsAvailable",
}
"""Outline's name for each problem, returned as `error` in addition to the usual members."""

Problem = Response[dict[str, Any]]


def _named(response: Problem) -> Problem:
    name = NAMES.get(str(response.content["type"]).removeprefix(PREFIX))
    if name is not None:
        response.content["error"] = name
    return response


def _known(request: Request[Any, Any, Any], error: ConcordanceError) -> Problem:
    return _named(handle(request, error))


def _invalid(request: Request[Any, Any, Any], error: ValidationException) -> Problem:
    return _named(handle_validation(request, error))


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Problem:
    return _named(handle_http(request, error))


def _check(body: RagSearchRequest) -> None:
    if len(normalise(body.query)) < MIN_QUERY:
        raise InvalidRequestError(f"query: is too short; it must have at least {MIN_QUERY} characters.")
    if body.document_id is not None:
        parse_id(body.document_id, InvalidRequestError(f"documentId: {body.document_id!r} is not a valid document ID."))


def _documents(search: SearchServices, body: RagSearchRequest, outcome: SearchOutcome) -> list[str]:
    """Return the IDs of the documents that the response names. Raises the problem of a search by meaning that has no vector."""
    if body.mode == "vector" and EMBEDDING_DOWN in outcome.degradations:
        raise _no_vectors(search)
    return list(dict.fromkeys(one.doc_id for one in _kept(body, outcome.passages)[: body.limit]))


def _no_vectors(search: SearchServices) -> ProblemError:
    wait = search.embedder.retry_after
    if wait is not None:
        return rate_limited("The embedding service accepts no more requests for now. Search with mode hybrid.", wait)
    return ProblemError(
        "service-unavailable", "The embedding model does not answer. Try again shortly, or search with mode hybrid."
    )


@post(
    "/api/rag.search",
    operation_id="ragSearch",
    status_code=200,
    tags=["compatibility"],
    summary="Search passages, as Outline asks",
    exception_handlers={ConcordanceError: _known, ValidationException: _invalid, HTTPException: _http},
    opt=limited("search")
    | described(
        repeatable=True,
        problems=("not-found",),
        request={"query": "How do I request a holiday?", "limit": 5, "mode": "hybrid"},
        example={
            "data": [
                {
                    "id": examples.CHUNK_ID,
                    "document": {
                        "id": examples.DOC_ID,
                        "title": "Holidays",
                        "url": examples.LINK,
                        "collectionId": "company",
                        "updatedAt": examples.MOMENT,
                    },
                    "score": 0.8,
                    "context": "Five unused days may be carried over.",
                    "chunkIndex": 0,
                }
            ],
            "pagination": {"limit": 10, "total": 1},
            "warnings": [],
        },
    ),
)
async def rag_search(
    request: Request[Access, Any, Any], data: JSONBody[RagSearchRequest], search: NamedDependency[SearchServices]
) -> RagSearchResponse:
    """Find passages that the caller may read, by meaning (`vector`) or by meaning and keywords (`hybrid`)."""
    await enforce_rate_limit(search, request.user)
    _check(data)
    wanted = Filters(
        collection_ids=[data.collection_id] if data.collection_id is not None else [],
        document_ids=[data.document_id] if data.document_id is not None else [],
    )
    reranking = search.http.settings.rerank_model is not None
    query = search_query(
        data.query,
        request.user,
        search.http.settings,
        limit=MAX_LIMIT,
        mode=data.mode,
        fusion=data.fusion,
        dense_weight=data.dense_weight,
        relevant_only=data.threshold is None,
        rerank=reranking,
        threshold=data.threshold if reranking else None,
        group=data.mode == "hybrid",
        narrowing=narrowing(wanted),
    )
    _, outcome = await recorded_search(search, query, returned=lambda outcome: _documents(search, data, outcome))
    statements = WebReads(search.http.database)
    if not outcome.passages and not await statements.any_chunk(principals=sorted(request.user.principals)):
        raise ProblemError("not-found", "No document that you may read has been indexed yet.")
    kept = _kept(data, outcome.passages)
    return RagSearchResponse(
        [_result(data, one, search.http.settings.base_url) for one in kept[: data.limit]],
        Pagination(data.limit, len(kept)),
        outcome.degradations,
    )
