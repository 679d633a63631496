"""`POST /api/search` and `POST /api/chat`: NeuroDrive's interface."""

from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access, SourceName, document_id
from resources.sources import capabilities, names
from serving.answers.schemas import AskRequest, Message
from serving.answers.service import Answers
from serving.answers.styles import STYLES
from serving.http.fields import own_id
from serving.http.leaving import unless_left
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.authentication import current_access
from serving.search.filters import Filters, narrowing
from serving.search.results import Result, link_of
from serving.search.retrieval.highlight import snippet
from serving.search.retrieval.passage import Passage, SearchOutcome, Warning_
from serving.search.retrieval.query import normalise, search_query
from serving.search.schemas import DenseWeight, Fusion, Question
from serving.search.searches import enforce_rate_limit, recorded_search

CHAT_PASSAGES = STYLES["comprehensive"].passages
MAX_LIMIT = 50

Id = Annotated[str, Meta(min_length=1, max_length=2000)]


class DriveSearchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search; `folder_id` includes what lies below it."""

    query: Question
    """1 to 1000 characters."""
    folder_id: Id | None = None
    """A folder with everything below it. Null: all."""
    file_id: Id | None = None
    """A file: its ID in Drive or Slack, or its `doc_id`. Null: all."""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = CHAT_PASSAGES
    """Number of passages."""
    fusion: Fusion | None = None
    """How to combine the search by meaning and the search by keywords. Null: the setting of the installation."""
    dense_weight: DenseWeight | None = None
    """Share of the search by meaning, 0 to 1. Null: the setting of the installation."""


class ChatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message; the latest five of `conversation_history` are used."""

    message: Question
    """The message: 1 to 1000 characters."""
    folder_id: Id | None = None
    """A folder with everything below it. Null: all."""
    file_id: Id | None = None
    """A file: its ID in Drive or Slack, or its `doc_id`. Null: all."""
    conversation_history: Annotated[list[Message], Meta(max_length=100)] = []
    """Earlier messages, oldest first; the last 5 are used."""


class File(msgspec.Struct, frozen=True, rename="camel"):
    """A document; `id` is Drive's for a file there, else ours. Either is taken as `file_id`."""

    id: str
    """Drive's ID of a file there, otherwise the `doc_id`."""
    name: str
    """Title of the document."""
    path: str
    """The folders that you may know, and the file name."""
    mime_type: str
    """MIME type of the document."""
    web_view_link: str
    """Opens the document at the passage."""


class DriveResult(msgspec.Struct, frozen=True, rename="camel"):
    """A passage; `highlights` are the query's words in the snippet."""

    file: File
    """The document."""
    snippet: str
    """About 100 characters of the passage."""
    relevance_score: float
    """Relevance of the passage, 0 to 1."""
    highlights: list[str]
    """The query's words in `snippet`."""


class DriveSearchResponse(msgspec.Struct, frozen=True):
    """Relevant passages, best first, at most `limit`."""

    results: list[DriveResult]
    """The passages, best first."""
    warnings: list[Warning_]
    """Reasons why the results may be incomplete."""


class ChatSource(msgspec.Struct, frozen=True, rename="camel"):
    """Source of the answer; `[n]` in the message is the n-th."""

    file: File
    """The document."""
    snippet: str
    """About 100 characters of the passage."""
    relevance_score: float
    """Relevance of the passage, 0 to 1."""


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `unsupported` are sentences that their sources do not support."""

    message: str
    """The answer. `[n]` refers to `sources[n - 1]`."""
    sources: list[ChatSource]
    """What the answer was made from."""
    answer_id: str
    """ID of the answer, for `GET /api/answers/{answer_id}` and feedback."""
    unsupported: list[str]
    """Sentences that no source supports."""
    warnings: list[Warning_]
    """Reasons why the answer may be incomplete or uncertain."""


def _filters(folder_id: str | None, file_id: str | None) -> Filters | None:
    """Return the filters. A source's own id leads to its document without looking anything up.

    Where that id contains the path, which not everyone who may read a document may know, it is named by its `doc_id` alone.
    """
    if folder_id is None and file_id is None:
        return None
    documents: list[str] = []
    if file_id is not None:
        documents += [document_id(source, file_id) for source in names() if not capabilities(source).named_by_path]
        documents += filter(None, [own_id(file_id)])
    return Filters(collection_ids=[folder_id] if folder_id is not None else [], document_ids=documents)


def _file(source: Passage | Result, link: str) -> File:
    own = source.source_type == SourceName.GOOGLE_DRIVE
    path = source.path if source.path.startswith(("/", "#")) else f"/{source.path}"
    return File(source.source_id if own else source.doc_id, source.title, path, source.mime_type, link)


def _result(passage: Passage, base_url: str) -> DriveResult:
    cut = snippet(passage.chunk_text, passage.matches, passage.headings)
    words = {cut.text[start:end].casefold(): (start, end) for start, end in reversed(cut.spans)}
    highlights = [cut.text[start:end] for start, end in sorted(words.values())]
    file = _file(passage, link_of(passage, base_url, cut.start))
    return DriveResult(file, cut.text, passage.relevance, highlights)


@post(
    "/api/search",
    operation_id="searchFiles",
    status_code=200,
    tags=["compatibility"],
    summary="Search, as NeuroDrive asks",
    opt=limited("search")
    | described(
        repeatable=True,
        request={"query": "holiday rules", "limit": 5},
        example={
            "results": [
                {
                    "file": examples.FILE,
                    "snippet": "Five unused days may be carried over.",
                    "relevanceScore": 0.8,
                    "highlights": ["unused days"],
                }
            ],
            "warnings": [],
        },
    ),
)
async def search_files(
    request: Request[Access, Any, Any], data: JSONBody[DriveSearchRequest], answers: NamedDependency[Answers]
) -> DriveSearchResponse:
    """Find relevant passages that the caller may read; irrelevant ones are omitted."""
    await enforce_rate_limit(answers.search, request.user)
    query = search_query(
        data.query,
        request.user,
        answers.http.settings,
        limit=MAX_LIMIT,
        relevant_only=True,
        fusion=data.fusion,
        dense_weight=data.dense_weight,
        rerank=answers.http.settings.rerank_model is not None,
        group=False,
        narrowing=narrowing(_filters(data.folder_id, data.file_id)),
    )

    def documents(outcome: SearchOutcome) -> list[str]:
        return list(dict.fromkeys(one.doc_id for one in outcome.passages[: data.limit]))

    _, outcome = await recorded_search(answers.search, query, returned=documents)
    return DriveSearchResponse(
        [_result(one, answers.http.settings.base_url) for one in outcome.passages[: data.limit]],
        outcome.degradations,
    )


@post(
    "/api/chat",
    operation_id="chat",
    status_code=200,
    tags=["compatibility"],
    summary="Answer a message, as NeuroDrive asks",
    opt=limited("answer")
    | described(
        repeatable=True,
        request={
            "message": "And how many may I carry over?",
            "conversation_history": [
                {"role": "user", "content": "How many holidays do I have?"},
                {"role": "assistant", "content": "You have 28 days a year [1]."},
            ],
        },
        example={
            "message": "Five days [1].",
            "sources": [
                {"file": examples.FILE, "snippet": "Five unused days may be carried over.", "relevanceScore": 0.8}
            ],
            "answer_id": "3f9d3c1e-8a55-4c7a-9d0e-5b1f0a2c4d6e",
            "unsupported": [],
            "warnings": [],
        },
    ),
)
async def chat(
    request: Request[Access, Any, Any], data: JSONBody[ChatRequest], answers: NamedDependency[Answers]
) -> ChatResponse:
    """Answer from documents that the caller may read, in the context of up to five earlier messages."""
    await enforce_rate_limit(answers.search, request.user)
    question = AskRequest(
        query=normalise(data.message, "message"),
        top_k=CHAT_PASSAGES,
        style="comprehensive",
        filters=_filters(data.folder_id, data.file_id),
        understand=False,
        conversation_history=data.conversation_history,
    )
    asked = answers.ask(question, request.user, current_access(answers.identity, request))
    answer = await unless_left(request, asked)
    sources = answer.sources if answer.found else []
    return ChatResponse(
        message=answer.answer,
        sources=[ChatSource(_file(one, one.citation.link), one.snippet, one.relevance_score) for one in sources],
        answer_id=answer.answer_id,
        unsupported=[sentence.text for sentence in answer.sentences if not sentence.supported],
        warnings=answer.warnings,
    )
