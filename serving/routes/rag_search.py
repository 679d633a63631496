"""`POST /api/rag.search`: search through Outline's interface, with Outline's names for errors."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import JSONBody

from resources.core.domain import Access
from resources.core.errors import ConcordanceError, InvalidRequestError
from serving.answers.gate import gate_of
from serving.contracts.rag_search import MIN_QUERY, RagSearchRequest, RagSearchResponse, from_search, to_search
from serving.contracts.relevance import NOT_EMBEDDED, least_cosine
from serving.deps import Services
from serving.errors import PREFIX, ProblemError, handle_http, handle_known, handle_validation, rate_limited
from serving.references import parse_id
from serving.retrieval.plan import normalise
from serving.routes.search import enforce_rate_limit

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
    return _named(handle_known(request, error))


def _invalid(request: Request[Any, Any, Any], error: ValidationException) -> Problem:
    return _named(handle_validation(request, error))


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Problem:
    return _named(handle_http(request, error))


def _check(body: RagSearchRequest) -> None:
    if len(normalise(body.query)) < MIN_QUERY:
        raise InvalidRequestError(f"query: is too short; it must have at least {MIN_QUERY} characters.")
    if body.document_id is not None:
        parse_id(body.document_id, InvalidRequestError(f"documentId: {body.document_id!r} is not a valid document ID."))


def _no_vectors(services: Services) -> ProblemError:
    wait = services.embedder.retry_after
    if wait is not None:
        return rate_limited("The embedding service accepts no more requests for now. Search with mode hybrid.", wait)
    return ProblemError(
        "service-unavailable", "The embedding model does not answer. Try again shortly, or search with mode hybrid."
    )


@post(
    "/api/rag.search",
    operation_id="ragSearch",
    status_code=200,
    tags=["search"],
    summary="Search passages, as Outline asks",
    exception_handlers={ConcordanceError: _known, ValidationException: _invalid, HTTPException: _http},
)
async def rag_search(
    request: Request[Access, Any, Any], data: JSONBody[RagSearchRequest], services: NamedDependency[Services]
) -> RagSearchResponse:
    """Find passages that the caller may read, by meaning (`vector`) or by meaning and keywords (`hybrid`)."""
    enforce_rate_limit(services, request.user)
    _check(data)
    found = await services.retriever.search(to_search(data), request.user)
    if data.mode == "vector" and any(warning.code == NOT_EMBEDDED for warning in found.warnings):
        raise _no_vectors(services)
    if not found.results:
        readable = await services.database.fetch("any_chunk", {"principals": sorted(request.user.principals)})
        if not readable[0]["indexed"]:
            raise ProblemError("not-found", "No document that you may read has been indexed yet.")
    model = services.embedder.model
    gate = gate_of(model, services.settings.answer_gate)
    return from_search(data, found, default=least_cosine(model), gate=gate)
