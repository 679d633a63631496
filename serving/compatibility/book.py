"""`POST /ask`, `/ask-local` and `/track`: the book assistant's interface."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.core.json import has_nul
from resources.core.moments import checked
from resources.sources import managed
from serving.answers.on_page import document_on_page
from serving.answers.prompt import NO_DATA
from serving.answers.schemas import AnswerResponse, AskRequest, Selection
from serving.answers.service import Answers
from serving.answers.styles import STYLES
from serving.http.errors import ProblemError
from serving.http.leaving import unless_left
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.authentication import current_access
from serving.search.filters import Filters
from serving.search.results import Result
from serving.search.retrieval.passage import Warning_
from serving.search.schemas import Question
from serving.search.searches import enforce_rate_limit
from sql.serving import WebQueue

PASSAGES = STYLES["page"].passages
NOTHING = f"{NO_DATA}. No relevant book content found for this query."

Collection = Annotated[str, Meta(max_length=2000)]


class BookQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question; `collection_id` keeps it to one book (a root or a folder of it). Each is answered without the earlier ones."""

    query: Question
    """The question: 1 to 1000 characters."""
    collection_id: Collection | None = None
    """A book: a root, or a folder of it. Null: all."""


class LocalQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about `context`, the text that the reader selected in the page `source_file` (its path or address)."""

    query: Question
    """The question: 1 to 1000 characters."""
    context: Annotated[str, Meta(min_length=1, max_length=5000)]
    """The text that the reader selected."""
    source_file: Annotated[str, Meta(min_length=1, max_length=2000)]
    """Path or address of the page with that text."""
    collection_id: Collection | None = None
    """A book: a root, or a folder of it. Null: all."""


class BookSource(msgspec.Struct, frozen=True):
    """A place in the book; `link` opens it."""

    file: str
    """Path of the file, or its title."""
    section: str
    """The heading above the passage, or the title."""
    link: str
    """Opens the file at the passage."""


class BookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer from the book alone; `[n]` in it is `sources[n - 1]`. `unsupported` are sentences that their sources do not support."""

    answer: str
    """The text. `[n]` refers to `sources[n - 1]`."""
    sources: list[BookSource]
    """Places in the book that the answer was made from."""
    answer_id: str
    """ID of the answer, for `GET /api/answers/{answer_id}` and feedback."""
    unsupported: list[str]
    """Sentences that no source supports."""
    warnings: list[Warning_]
    """Reasons why the answer may be incomplete or uncertain."""


class TrackedSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source as it was shown."""

    file: Annotated[str, Meta(max_length=4000)]
    """Path of the file."""
    section: Annotated[str, Meta(max_length=4000)] = ""
    """The heading above the passage."""
    link: Annotated[str, Meta(max_length=4000)] = ""
    """Address of the passage."""


class TrackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its answer as the reader saw them; `timestamp` is ISO 8601."""

    query: Annotated[str, Meta(max_length=5000)]
    """The question."""
    answer: Annotated[str, Meta(max_length=50_000)]
    """The answer as it was shown."""
    timestamp: Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
    """When the question was asked (RFC 3339); UTC without an offset."""
    sources: Annotated[list[TrackedSource], Meta(max_length=100)] = []
    """The sources as they were shown."""


class TrackResponse(msgspec.Struct, frozen=True):
    """The conversation is being stored in the background."""

    conversation_id: str
    """ID of the stored conversation."""
    status: Literal["accepted"] = "accepted"
    """The conversation is being stored."""


def to_ask(query: str, collection_id: str | None, selection: Selection | None = None) -> AskRequest:
    """Return the question that is asked of the one service."""
    filters = (
        Filters(collection_ids=[collection_id], source_types=list(managed())) if collection_id is not None else None
    )
    return AskRequest(
        query=query,
        top_k=PASSAGES,
        style="page",
        filters=filters,
        understand=False,
        selection=selection,
        citation_format="prose",
    )


def from_answer(answer: AnswerResponse) -> BookAnswer:
    """Return the answer with `According to [Chapter - Section]:` before the first sentence of each source."""
    return BookAnswer(
        answer=_attributed(answer) if answer.found else NOTHING,
        sources=[_source(result) for result in answer.sources] if answer.found else [],
        answer_id=answer.answer_id,
        unsupported=[sentence.text for sentence in answer.sentences if not sentence.supported],
        warnings=answer.warnings,
    )


def _attributed(answer: AnswerResponse) -> str:
    text, before = "", 0
    said: int | None = None
    for sentence in answer.sentences:
        cited = sentence.citations[0] if sentence.citations else None
        text += answer.answer[before : sentence.start]
        if cited is not None and cited != said and cited <= len(answer.sources):
            text += f"{answer.sources[cited - 1].citation.text}: "
        text += answer.answer[sentence.start : sentence.end]
        before, said = sentence.end, cited
    return text + answer.answer[before:]


def _source(result: Result) -> BookSource:
    section = result.section_path[-1] if result.section_path else result.title
    return BookSource(result.path or result.title, section, result.citation.link)


@post(
    "/ask",
    operation_id="askBook",
    status_code=200,
    tags=["compatibility"],
    summary="Answer a question, as the book asks",
    opt=limited("answer")
    | described(
        repeatable=True,
        request={"query": "How many unused holidays may I carry over?"},
        example=examples.BOOK_ANSWER,
    ),
)
async def ask_book(
    request: Request[Access, Any, Any], data: JSONBody[BookQuestion], answers: NamedDependency[Answers]
) -> BookAnswer:
    """Answer from up to three passages that the caller may read, named in prose. A model that stays down is an error."""
    await enforce_rate_limit(answers.search, request.user)
    question = to_ask(data.query, data.collection_id)
    asked = answers.ask(question, request.user, current_access(answers.identity, request), fallback=False)
    return from_answer(await unless_left(request, asked))


@post(
    "/ask-local",
    operation_id="askBookSelection",
    status_code=200,
    tags=["compatibility"],
    summary="Answer about selected text, as the book asks",
    opt=limited("answer")
    | described(
        repeatable=True,
        problems=("not-found",),
        request={
            "query": "What does this mean?",
            "context": "Strictly for the executive team.",
            "source_file": "company/executive/project-sandpiper.md",
        },
        example=examples.BOOK_ANSWER,
    ),
)
async def ask_selection(
    request: Request[Access, Any, Any], data: JSONBody[LocalQuestion], answers: NamedDependency[Answers]
) -> BookAnswer:
    """Answer a question about selected text from its own file only."""
    await enforce_rate_limit(answers.search, request.user)
    doc_id = await document_on_page(answers, request.user, data.source_file, data.collection_id)
    if doc_id is None:
        raise ProblemError("not-found", "source_file: there is no such file, or you may not see it.")
    ask = to_ask(data.query, None, Selection(doc_id, data.context))
    asked = answers.ask(ask, request.user, current_access(answers.identity, request), fallback=False)
    return from_answer(await unless_left(request, asked))


@post(
    "/track",
    operation_id="trackConversation",
    status_code=202,
    tags=["compatibility"],
    summary="Log a conversation",
    opt=limited("track")
    | described(
        request={
            "query": "How many holidays do I have?",
            "answer": "You have 28 days a year [1].",
            "timestamp": "2026-11-22T10:00:00Z",
            "sources": [{"file": "hr/holidays.md", "section": "Holidays"}],
        },
        example={"conversation_id": "0c1d7a52-0f0a-4f6c-8c55-6a1f1d1c1b1a", "status": "accepted"},
    ),
)
async def track(
    request: Request[Access, Any, Any], data: JSONBody[TrackRequest], answers: NamedDependency[Answers]
) -> TrackResponse:
    """Store a reader's question and answer. It is written in the background, whether or not the database answers."""
    asked_at = checked(data.timestamp, "timestamp")
    sources = msgspec.json.encode(data.sources).decode()
    if "\x00" in data.query + data.answer or has_nul(sources):
        raise InvalidRequestError("query, answer and sources must not contain a NUL character.")
    conversation_id = str(uuid.uuid4())
    WebQueue(answers.http.background).conversation_insert(
        conversation_id=conversation_id,
        email=request.user.email,
        query=data.query,
        answer=data.answer,
        sources=sources,
        asked_at=asked_at,
    )
    return TrackResponse(conversation_id)
