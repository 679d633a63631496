"""Outline's RAG search: the body and the answer of `POST /api/rag.search`, in its own spelling (camelCase)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serving.contracts.relevance import FLOOR, judged
from serving.schemas import Filters, Name, Question, Result, SearchRequest, SearchResponse, Warning_

MIN_QUERY = 3
MAX_LIMIT = 50


class RagSearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A search. `query` has 3 to 1000 characters; without `threshold` the model's calibrated one counts."""

    query: Question
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 10
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    collection_id: Annotated[str, Meta(max_length=2000)] | None = None
    document_id: Name | None = None
    include_context: bool = True
    mode: Literal["vector", "hybrid"] = "vector"


class RagDocument(msgspec.Struct, frozen=True, rename="camel"):
    """The document that a passage belongs to."""

    id: str
    title: str
    url: str
    collection_id: str | None
    updated_at: datetime | None


class RagResult(msgspec.Struct, frozen=True, rename="camel"):
    """A passage; `score` is its cosine, in mode `hybrid` the `relevance_score` of a search. `context` is empty unless asked for."""

    id: str
    document: RagDocument
    score: float
    context: str
    chunk_index: int


class Pagination(msgspec.Struct, frozen=True):
    """`total` counts what passed the threshold, at most 50."""

    limit: int
    total: int


class RagSearchResponse(msgspec.Struct, frozen=True):
    """Passages, best first. `warnings` as in `POST /api/rag/search`."""

    data: list[RagResult]
    pagination: Pagination
    warnings: list[Warning_]


def to_search(body: RagSearchRequest) -> SearchRequest:
    """Return the search that is asked of the one service; thresholds are applied to its answer, on the scale of the scores told."""
    return SearchRequest(
        query=body.query,
        top_k=MAX_LIMIT,
        mode=body.mode,
        group_by_document=body.mode == "hybrid",
        explain=True,
        filters=Filters(
            collection_ids=[body.collection_id] if body.collection_id is not None else [],
            document_ids=[body.document_id] if body.document_id is not None else [],
        ),
    )


def from_search(
    body: RagSearchRequest, found: SearchResponse, *, default: float, gate: float | None
) -> RagSearchResponse:
    """Return the answer; `default` is the cosine below which a passage counts as irrelevant, `gate` the one of answers."""
    scored = [(_score(body, result), result) for result in found.results]
    if body.threshold is not None:
        least = body.threshold
    elif body.mode == "vector":
        least = default
    else:
        least = FLOOR if judged(body.query, found.results, gate) else 2.0
    kept = [pair for pair in scored if pair[0] >= least]
    if body.mode == "vector":
        kept.sort(key=lambda pair: -pair[0])
    data = [_result(body, score, result) for score, result in kept[: body.limit]]
    return RagSearchResponse(data, Pagination(body.limit, len(kept)), found.warnings)


def _score(body: RagSearchRequest, result: Result) -> float:
    cosine = result.explain.dense_score if result.explain else None
    if body.mode == "vector" and cosine is not None:
        return round(min(1.0, max(0.0, cosine)), 6)
    return result.relevance_score


def _result(body: RagSearchRequest, score: float, result: Result) -> RagResult:
    document = RagDocument(result.doc_id, result.title, result.citation.link, result.collection_id, result.modified_at)
    context = result.chunk_text if body.include_context else ""
    return RagResult(result.chunk_id, document, score, context, result.chunk_index)
