"""Requests and responses of the answer service, the events of a stream, kept answers, and feedback."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from serving.answers.quoted import Quoted
from serving.answers.styles import STYLES, Style, StyleName
from serving.answers.support import Verdict
from serving.http.fields import Name
from serving.search.citations.format import Format
from serving.search.filters import Filters
from serving.search.results import DocumentReference, Result
from serving.search.retrieval.passage import Warning_
from serving.search.schemas import DenseWeight, Fusion, Question, SearchMode
from serving.search.understanding.filters import Understand, Understood
from sql.fields import AnswerMode, Moment

MAX_HISTORY = 5
"""Earlier messages that are used, the latest ones. Source: the platform's requirements."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An earlier message of the conversation."""

    role: Annotated[Literal["user", "assistant"], Meta(title="MessageRole", description="Who wrote a message.")]
    """Who wrote the message."""
    content: Annotated[str, Meta(max_length=20_000)]
    """The text of the message."""


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text that the reader selected in a document: the question is about it, and answered from that document alone."""

    document_id: Name
    """ID of the document (`doc_id`)."""
    text: Annotated[str, Meta(min_length=1, max_length=5000)]
    """The selected text."""


class AskRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question. `top_k` documents are answered from, with at most `passages` passages together; unset, the style decides.

    Without a `style`, the answer is `chat` in a conversation, else `short`.
    """

    query: Question
    """The question: 1 to 1000 characters after white space is collapsed."""
    top_k: Annotated[int, Meta(ge=1, le=20)] = 5
    """Number of documents to answer from."""
    passages: Annotated[int, Meta(ge=1, le=30)] | None = None
    """Number of passages of these documents. Null: that of the style."""
    style: StyleName | None = None
    """How the language model writes. Null: `chat` with a `conversation_history`, else `short`."""
    mode: SearchMode = "hybrid"
    """How to search."""
    fusion: Fusion | None = None
    """How to combine the two searches of mode `hybrid`. Null: the setting of the installation."""
    dense_weight: DenseWeight | None = None
    """Share of the search by meaning, 0 to 1. Null: the setting of the installation."""
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Leave out passages with a lower `relevance_score`. Null: those hardly about the question are left out."""
    filters: Filters | None = None
    """Filters that every source must match. Null: none."""
    understand: Understand = True
    """Apply the filters that the question states in words: true, false, or the kinds to apply."""
    conversation_history: Annotated[list[Message], Meta(max_length=100)] = []
    """Earlier messages, oldest first; the last 5 are used."""
    selection: Selection | None = None
    """Text that the question is about; only its document is searched. Null: all documents."""
    citation_format: Format = "inline"
    """The format of `citation.text`."""
    stream: bool = False
    """True for server-sent events, as with the header `Accept: text/event-stream`."""
    show_prompt: bool = False
    """Also return what the language model is sent, or would be sent if there were one."""

    @property
    def written(self) -> Style:
        """The style to write in."""
        return STYLES[self.style or ("chat" if self.conversation_history else "short")]


class PromptMessage(msgspec.Struct, frozen=True):
    """A message that the language model is sent."""

    role: str
    """`system`: the instructions. `user`: the sources and the question."""
    content: str
    """The text of the message."""


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """What was searched for a question that the documents do not answer, and what to do."""

    message: str
    """What was searched, and what to do, in sentences."""
    documents: int | None
    """How many documents you can read, filters aside; 10,001 stands for more than 10,000. Null if unknown."""
    closest: list[DocumentReference]
    """The documents that are closest to the question, at most three."""


class AnswerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `[n]` in `answer` is `sources[n - 1]`. `mode` is `model`, `extractive`, or `none` when nothing was found.

    `standalone` is the question as it was searched, when earlier messages made it differ.
    """

    answer_id: str
    """ID of the answer, for `GET /api/answers/{answer_id}` and feedback."""
    query_id: str
    """ID of the search in the audit log."""
    answer: str
    """The text. `[n]` refers to `sources[n - 1]`."""
    found: bool
    """False if the sources do not answer the question."""
    mode: AnswerMode
    """Who wrote the answer."""
    model: str | None
    """The language model; null if none was called."""
    standalone: str | None
    """The question as it was searched, if earlier messages made it differ; else null."""
    understood: list[Understood]
    """Filters that the question states in words."""
    sources: list[Result]
    """The passages, numbered by `citation.index`."""
    cited: list[int]
    """Numbers of the sources that the answer cites."""
    sentences: list[Verdict]
    """The sentences of the answer, and whether their sources support them."""
    quotes: list[Quoted]
    """What the sentences quote of the sources."""
    removed_citations: int
    """Number of invented citations that were removed."""
    removed_links: int
    """Number of links that were removed."""
    cached: bool
    """True if the text comes from the answer cache; sources and permissions are current."""
    held_back: int
    """Number of documents left out because their permissions were checked too long ago."""
    latency_ms: float
    """Time spent in the service, in milliseconds."""
    model_ms: float
    """The language model's share of `latency_ms`, waiting for a turn included."""
    warnings: list[Warning_]
    """Reasons why the answer may be incomplete or uncertain."""
    unanswered: Unanswered | UnsetType = UNSET
    """What was searched, and what to do; absent if something was found."""
    prompt: list[PromptMessage] | UnsetType = UNSET
    """What the language model is sent, only with `show_prompt`; empty if no passage is about the question."""


class AnswerEvent(msgspec.Struct, frozen=True):
    """A step of a streamed answer; `data` is that of the server-sent event, as JSON."""

    name: Literal["sources", "token", "restart", "check", "done"]
    data: dict[str, Any] | AnswerResponse


class SourcesEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event `sources`, the first of a stream."""

    answer_id: str
    """ID of the answer."""
    query_id: str
    """ID of the search in the audit log."""
    sources: list[Result]
    """The passages, numbered by `citation.index`."""
    understood: list[Understood]
    """Filters that the question states in words."""
    warnings: list[Warning_]
    """Reasons why the answer may be incomplete."""


class TokenEvent(msgspec.Struct, frozen=True):
    """The data of the event `token`, which is repeated."""

    text: str
    """The next part of the answer."""


class RestartEvent(msgspec.Struct, frozen=True):
    """The data of the event `restart`: discard the text so far, and go on with the tokens that follow."""

    warnings: list[Warning_]
    """Why the answer is written again."""


class CheckEvent(msgspec.Struct, frozen=True):
    """The data of the event `check`, after the last token."""

    sentences: list[Verdict]
    """The sentences of the answer, and whether their sources support them."""
    removed_citations: int
    """Number of invented citations that were removed."""
    removed_links: int
    """Number of links that were removed."""


class ErrorEvent(msgspec.Struct, frozen=True):
    """The data of the event `error`, which ends a stream early."""

    detail: str
    """What went wrong, and what to do about it."""


class KeptSource(msgspec.Struct, frozen=True):
    """A source as it is today. `revoked`: deleted, or you may no longer read it; then every other field is null."""

    index: int
    """Number of the source, from 1."""
    status: Annotated[
        Literal["current", "changed", "revoked"],
        Meta(
            title="SourceState",
            description="`changed`: the passage has another text now. `revoked`: it was deleted, or you may no longer read it.",
        ),
    ]
    """The state of the passage today."""
    cited: bool
    """True if the answer cites it."""
    doc_id: str | None = None
    """ID of the document; null if revoked."""
    chunk_id: str | None = None
    """ID of the passage; null if revoked."""
    chunk_index: int | None = None
    """Position of the passage in the document, from 0; null if it is gone."""
    title: str | None = None
    """Title of the document; null if revoked."""
    link: str | None = None
    """Opens the document at the passage; null if revoked."""


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was given, and what became of its sources. With a revoked source its text is withheld (null).

    Others than who asked see it once it is shared, if they may read every source and none has changed.
    """

    answer_id: str
    """ID of the answer."""
    query_id: str
    """ID of the search in the audit log."""
    own: bool
    """True if you asked."""
    asked_by: str
    """Email of the person who asked."""
    shared_at: Moment | None
    """Since when it is shared by link; null if it is not."""
    query: str | None
    """The question; null if someone else asked and a source is revoked for you or has changed."""
    standalone: str | None
    """The question as it was searched, if earlier messages made it differ and you asked; else null."""
    answer: str | None
    """The text; null if a source is revoked, or if someone else asked and a source has changed."""
    found: bool
    """False if the sources did not answer the question."""
    mode: AnswerMode
    """Who wrote the answer."""
    model: str | None
    """The language model; null if none was called."""
    created_at: Moment
    """When the question was asked."""
    completed: bool
    """False if the reader left during streaming."""
    changed: bool
    """True if the text of a source has changed."""
    revoked: bool
    """True if a source was deleted or may no longer be read."""
    sources: list[KeptSource]
    """The sources as they are today."""
    sentences: list[Verdict]
    """The sentences of the answer; empty if `answer` is null."""
    quotes: list[Quoted]
    """What the sentences quote of the sources as they are today; empty if `answer` is null."""
    removed_citations: int
    """Number of invented citations that were removed."""
    warnings: list[Warning_]
    """Reasons why the answer may be uncertain; those that were about services and documents of then are left out."""
    latency_ms: float
    """Time spent in the service, in milliseconds."""


class FeedbackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Feedback on an answer or a search. Name one of the two ids; `expected_document` is what should have been found."""

    verdict: Annotated[Literal["good", "bad"], Meta(title="FeedbackVerdict", description="A rating.")]
    """Your rating."""
    answer_id: Name | None = None
    """An answer of yours. Give this or `query_id`."""
    query_id: Name | None = None
    """A search of yours. Give this or `answer_id`."""
    comment: Annotated[str, Meta(max_length=5000)] | None = None
    """What was good or bad. Null: no comment."""
    expected_document: Name | None = None
    """ID of the document that should have been found (`doc_id`). Null: none in particular."""


class FeedbackResponse(msgspec.Struct, frozen=True):
    """The stored feedback."""

    feedback_id: str
    """ID of the feedback."""
