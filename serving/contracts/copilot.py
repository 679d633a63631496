"""NeuroDrive: bodies and answers of `POST /api/search` and `POST /api/chat`, in their own spelling (camelCase)."""

from __future__ import annotations

import contextlib
import uuid
from typing import Annotated

import msgspec
from msgspec import Meta

from resources.core.domain import SourceName, document_id
from resources.sources import names
from serving.answers.schemas import Answer, AskRequest, Message
from serving.contracts.relevance import FLOOR, NOT_RERANKED, judged
from serving.schemas import Filters, Question, Result, SearchRequest, SearchResponse, Warning_

CHAT_PASSAGES = 15
"""Passages an answer is made from at most. Source: NeuroDrive, CHAT_LIMIT."""
MAX_LIMIT = 50

Id = Annotated[str, Meta(min_length=1, max_length=2000)]


class DriveSearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search; `folder_id` includes what lies below it."""

    query: Question
    folder_id: Id | None = None
    file_id: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = CHAT_PASSAGES


class ChatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message; the latest five of `conversation_history` are used."""

    message: Question
    folder_id: Id | None = None
    file_id: Id | None = None
    conversation_history: Annotated[list[Message], Meta(max_length=100)] = []


class File(msgspec.Struct, frozen=True, rename="camel"):
    """A document; `id` is Drive's for a file there, else ours. Either is taken as `file_id`."""

    id: str
    name: str
    path: str
    mime_type: str
    web_view_link: str


class DriveResult(msgspec.Struct, frozen=True, rename="camel"):
    """A passage; `highlights` are the query's words in the snippet."""

    file: File
    snippet: str
    relevance_score: float
    highlights: list[str]


class DriveSearchResponse(msgspec.Struct, frozen=True):
    """Relevant passages, best first, at most `limit`."""

    results: list[DriveResult]
    warnings: list[Warning_]


class ChatSource(msgspec.Struct, frozen=True, rename="camel"):
    """What the answer was made from; `[n]` in the message is the n-th."""

    file: File
    snippet: str
    relevance_score: float


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `unsupported` are sentences that no source of theirs bears out."""

    message: str
    sources: list[ChatSource]
    answer_id: str
    unsupported: list[str]
    warnings: list[Warning_]


def to_search(body: DriveSearchRequest) -> SearchRequest:
    """Return the search that is asked of the one service; reranked where there is a reranker."""
    return SearchRequest(
        query=body.query,
        top_k=MAX_LIMIT,
        rerank=True,
        group_by_document=False,
        explain=True,
        filters=_filters(body.folder_id, body.file_id),
    )


def from_search(body: DriveSearchRequest, found: SearchResponse, gate: float | None) -> DriveSearchResponse:
    """Return the relevant results: a reranker has left the others out already, else the gate and the same floor do."""
    warnings = [warning for warning in found.warnings if warning.code != NOT_RERANKED]
    reranked = len(warnings) == len(found.warnings)
    relevant = reranked or judged(body.query, found.results, gate)
    kept = [result for result in found.results if relevant and (reranked or result.relevance_score >= FLOOR)]
    return DriveSearchResponse([_result(result) for result in kept[: body.limit]], warnings)


def to_ask(body: ChatRequest) -> AskRequest:
    """Return the question that is asked of the one service."""
    return AskRequest(
        query=body.message,
        top_k=CHAT_PASSAGES,
        passages=CHAT_PASSAGES,
        filters=_filters(body.folder_id, body.file_id),
        conversation_history=body.conversation_history,
    )


def from_answer(answer: Answer) -> ChatResponse:
    """Return the answer; without relevant documents it says so and has no sources."""
    return ChatResponse(
        message=answer.answer,
        sources=[ChatSource(_file(one), one.snippet, one.relevance_score) for one in answer.sources]
        if answer.found
        else [],
        answer_id=answer.answer_id,
        unsupported=[sentence.text for sentence in answer.sentences if not sentence.supported],
        warnings=answer.warnings,
    )


def _filters(folder_id: str | None, file_id: str | None) -> Filters | None:
    """Return the filters. A source's own id leads to its document without looking anything up.

    Of files that id is their path, which not everyone who may read one may know: they are named by their `doc_id` alone.
    """
    if folder_id is None and file_id is None:
        return None
    documents: list[str] = []
    if file_id is not None:
        documents += [document_id(source, file_id) for source in names() if source is not SourceName.FILES]
        with contextlib.suppress(ValueError):  # an id of the source's own
            documents.append(str(uuid.UUID(file_id)))
    return Filters(collection_ids=[folder_id] if folder_id is not None else [], document_ids=documents)


def _file(result: Result) -> File:
    own = result.source_type == SourceName.GOOGLE_DRIVE
    path = result.path if result.path.startswith(("/", "#")) else f"/{result.path}"
    return File(result.source_id if own else result.doc_id, result.title, path, result.mime_type, result.citation.link)


def _result(result: Result) -> DriveResult:
    words = {result.snippet[span.start : span.end].casefold(): span for span in reversed(result.highlights)}
    spans = sorted(words.values(), key=lambda span: span.start)
    highlights = [result.snippet[span.start : span.end] for span in spans]
    return DriveResult(_file(result), result.snippet, result.relevance_score, highlights)
