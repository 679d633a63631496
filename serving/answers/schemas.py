"""Requests and responses of the answer service, the events of a stream, kept answers, and feedback."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from serving.answers.styles import STYLES, Style, StyleName
from serving.answers.support import Verdict
from serving.citations.format import Format
from serving.filters import Filters
from serving.results import Result
from serving.schemas import Name, Question, Warning_
from serving.understanding.filters import Understand, Understood

MAX_HISTORY = 5
"""Earlier messages that are used, the latest ones. Source: the platform's requirements."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Meta(max_length=20_000)]


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text that the reader selected in a document: the question is about it, and answered from that document alone."""

    document_id: Name
    text: Annotated[str, Meta(min_length=1, max_length=5000)]


class AskRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question. `top_k` documents are answered from, with at most `passages` passages together; unset, the style decides.

    Without a `style`, the answer is `chat` in a conversation, else `short`.
    """

    query: Question
    top_k: Annotated[int, Meta(ge=1, le=20)] = 5
    passages: Annotated[int, Meta(ge=1, le=30)] | None = None
    style: StyleName | None = None
    mode: Literal["hybrid", "vector", "keyword"] = "hybrid"
    fusion: Literal["weighted", "rrf", "dbsf", "minmax"] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    filters: Filters | None = None
    understand: Understand = True
    conversation_history: Annotated[list[Message], Meta(max_length=100)] = []
    selection: Selection | None = None
    citation_format: Format = "inline"
    stream: bool = False

    @property
    def written(self) -> Style:
        """The style to write in."""
        return STYLES[self.style or ("chat" if self.conversation_history else "short")]


class AnswerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `[n]` in `answer` is `sources[n - 1]`. `mode` is `model`, `extractive`, or `none` when nothing was found.

    `standalone` is the question as it was searched, when earlier messages made it differ.
    """

    answer_id: str
    query_id: str
    answer: str
    found: bool
    mode: Literal["model", "extractive", "none"]
    model: str | None
    standalone: str | None
    understood: list[Understood]
    sources: list[Result]
    cited: list[int]
    sentences: list[Verdict]
    removed_citations: int
    removed_links: int
    cached: bool
    held_back: int
    latency_ms: float
    model_ms: float
    warnings: list[Warning_]


class AnswerEvent(msgspec.Struct, frozen=True):
    """A step of a streamed answer; `data` is that of the server-sent event, as JSON."""

    name: Literal["sources", "token", "restart", "check", "done"]
    data: dict[str, Any] | AnswerResponse


class KeptSource(msgspec.Struct, frozen=True):
    """A source as it is today. `revoked`: deleted, or you may no longer read it; then every other field is null."""

    index: int
    status: Literal["current", "changed", "revoked"]
    cited: bool
    doc_id: str | None = None
    chunk_id: str | None = None
    title: str | None = None
    link: str | None = None


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was given, and what became of its sources. With a revoked source its text is withheld (null)."""

    answer_id: str
    query_id: str
    query: str
    standalone: str | None
    answer: str | None
    found: bool
    mode: str
    model: str | None
    created_at: datetime
    completed: bool
    changed: bool
    revoked: bool
    sources: list[KeptSource]
    sentences: list[Verdict]
    removed_citations: int
    latency_ms: float


class FeedbackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether an answer, or a search, was good. Name one of the two ids; `expected_document` is what should have been found."""

    verdict: Literal["good", "bad"]
    answer_id: Name | None = None
    query_id: Name | None = None
    comment: Annotated[str, Meta(max_length=5000)] | None = None
    expected_document: Name | None = None


class FeedbackResponse(msgspec.Struct, frozen=True):
    """The stored feedback."""

    feedback_id: str
