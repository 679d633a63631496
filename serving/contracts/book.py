"""The book assistant: bodies and answers of `POST /ask`, `/ask-local` and `/track`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from serving.answers.prompt import NO_DATA
from serving.answers.schemas import Answer, AskRequest, Selection
from serving.schemas import Filters, Question, Result, Warning_

PASSAGES = 3
"""Passages an answer is made from. Source: the book assistant's FR-012."""
NOTHING = f"{NO_DATA}. No relevant book content found for this query."

Collection = Annotated[str, Meta(max_length=2000)]


class BookQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question; `collection_id` keeps it to one book (a root or a folder of it). Each stands alone."""

    query: Question
    collection_id: Collection | None = None


class LocalQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about `context`, the text that the reader selected in the page `source_file` (its path or address)."""

    query: Question
    context: Annotated[str, Meta(min_length=1, max_length=5000)]
    source_file: Annotated[str, Meta(min_length=1, max_length=2000)]
    collection_id: Collection | None = None


class BookSource(msgspec.Struct, frozen=True):
    """A place in the book; `link` opens it."""

    file: str
    section: str
    link: str


class BookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer from the book alone; `[n]` in it is `sources[n - 1]`. `unsupported` are sentences that no source of theirs bears out."""

    answer: str
    sources: list[BookSource]
    answer_id: str
    unsupported: list[str]
    warnings: list[Warning_]


class TrackedSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source as it was shown."""

    file: Annotated[str, Meta(max_length=4000)]
    section: Annotated[str, Meta(max_length=4000)] = ""
    link: Annotated[str, Meta(max_length=4000)] = ""


class TrackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its answer as the reader saw them; `timestamp` is ISO 8601."""

    query: Annotated[str, Meta(max_length=5000)]
    answer: Annotated[str, Meta(max_length=50_000)]
    timestamp: datetime
    sources: Annotated[list[TrackedSource], Meta(max_length=100)] = []


class TrackResponse(msgspec.Struct, frozen=True):
    """It is being written; nobody waits for that."""

    conversation_id: str
    status: str = "accepted"


def to_ask(query: str, collection_id: str | None, selection: Selection | None = None) -> AskRequest:
    """Return the question that is asked of the one service."""
    filters = Filters(collection_ids=[collection_id]) if collection_id is not None else None
    return AskRequest(
        query=query, top_k=PASSAGES, passages=PASSAGES, filters=filters, selection=selection, citation_format="prose"
    )


def from_answer(answer: Answer) -> BookAnswer:
    """Return the answer with `According to [Chapter - Section]:` before the first sentence of each source."""
    return BookAnswer(
        answer=_attributed(answer) if answer.found else NOTHING,
        sources=[_source(result) for result in answer.sources] if answer.found else [],
        answer_id=answer.answer_id,
        unsupported=[sentence.text for sentence in answer.sentences if not sentence.supported],
        warnings=answer.warnings,
    )


def _attributed(answer: Answer) -> str:
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
