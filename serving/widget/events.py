"""Events for visitors of a widget: the steps of an answer, without scores, ids, people, counts or inner errors."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta

from resources.core.errors import InvalidRequestError, ServiceUnavailableError, TemporaryError
from resources.logging import logger
from serving.answers.cautions import OTHER_LANGUAGE, UNCERTAIN
from serving.answers.citations import CITATION
from serving.answers.schemas import AnswerEvent, AnswerResponse
from serving.answers.unanswered import FOREIGN
from serving.http.errors import UnauthorizedError
from serving.search.results import Result

UNAVAILABLE = "The assistant is temporarily unavailable. Try again."
TRANSLATED = "This answer is in another language than the pages, so only its figures were compared with them. Look at the sections below."

log = logger("serving")


class WidgetSource(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a widget's answer is made from."""

    number: int
    """Its number in the answer, from 1."""
    title: str
    """Title of the document."""
    section_path: list[str]
    """Headings above the passage, outermost first."""
    snippet: str
    """About 100 characters of the passage."""
    link: str | None
    """Opens the page at the passage; null for documents without a page of their own."""


class WidgetSources(msgspec.Struct, frozen=True):
    """The data of the event `sources` of a widget, the first of a stream."""

    sources: list[WidgetSource]
    """The passages; `[n]` in the answer is the one numbered n."""


class WidgetQuote(msgspec.Struct, frozen=True, kw_only=True):
    """What a `[n]` of the answer refers to."""

    number: int
    """Number of the source."""
    text: str
    """What the sentence quotes of the source, as it is there."""


class WidgetClosest(msgspec.Struct, frozen=True, kw_only=True):
    """A page that is close to a question that is not answered."""

    title: str
    """Title of the page."""
    link: str | None
    """Opens the page; null for documents without a page of their own."""


class WidgetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event `done` of a widget, the last of a stream."""

    answer: str
    """The text. `[n]` refers to the source numbered n."""
    found: bool
    """False if the collection does not answer the question."""
    quoted: bool
    """True if sentences of the sources are quoted instead of an answer being written."""
    uncertain: bool
    """True if it is not certain that the quotes answer the question."""
    cited: list[int]
    """Numbers of the sources that the answer cites."""
    quotes: list[WidgetQuote]
    """What each `[n]` refers to, in the order of the text; those in code are left out."""
    unsupported: list[str]
    """Sentences that no source supports, apart from those in another language than their sources."""
    closest: list[WidgetClosest]
    """Pages that are close to the question, if it is not answered."""
    note: str | None
    """That the question is in a language which search by meaning has not learned, or the answer in another than its sources; else null."""


class WidgetEvent(msgspec.Struct, frozen=True):
    """A server-sent event of a widget's answer: `sources`, then `token` repeatedly, and `done`.

    A `restart` voids the tokens before it. `error` ends a stream early.
    """

    event: Annotated[
        Literal["sources", "token", "restart", "done", "error"],
        Meta(
            title="WidgetEventName",
            description="The data is a `WidgetSources`, `TokenEvent`, `WidgetAnswer` or `ErrorEvent`; of `restart` an empty object.",
        ),
    ]
    """The name of the event."""
    data: Annotated[str, Meta(extra_json_schema={"contentMediaType": "application/json"})]
    """The data, as JSON."""


async def visitor_events(events: AsyncGenerator[AnswerEvent], base_url: str) -> AsyncGenerator[AnswerEvent]:
    """Yield the events of an answer as visitors receive them. Raises `ServiceUnavailableError`, which says nothing of its cause."""
    try:
        async with aclosing(events):
            async for event in events:
                if (shown := _shown(event, base_url)) is not None:
                    yield shown
    except (UnauthorizedError, InvalidRequestError):
        raise
    except TemporaryError as error:
        log.warning("widget_answer_failed", error=str(error))
        raise ServiceUnavailableError(UNAVAILABLE, error.retry_after) from error
    except Exception as error:
        log.exception("widget_answer_failed")
        raise ServiceUnavailableError(UNAVAILABLE) from error


def _shown(event: AnswerEvent, base_url: str) -> AnswerEvent | None:
    if isinstance(event.data, AnswerResponse):
        return AnswerEvent("done", msgspec.to_builtins(_answer(event.data, base_url)))
    match event.name:
        case "sources":
            found = cast("list[Result]", event.data["sources"])
            return AnswerEvent("sources", {"sources": [_source(one, base_url) for one in found]})
        case "restart":
            return AnswerEvent("restart", {})
        case "token":
            return event
        case _:
            return None


def _source(result: Result, base_url: str) -> WidgetSource:
    return WidgetSource(
        number=result.citation.index,
        title=result.title,
        section_path=result.section_path,
        snippet=result.snippet,
        link=_public(result.citation.link, base_url),
    )


def _public(link: str, base_url: str) -> str | None:
    """Return a link unless it is to a page of ours, which asks for a sign-in."""
    return None if link.startswith(f"{base_url}/documents/") else link


def _quote(answer: AnswerResponse, number: int, at: int) -> WidgetQuote:
    """Return what the sentence at a place of the answer quotes of a source, else what the answer quotes of it, else the best of it."""
    source, sentences = answer.sources[number - 1], answer.sentences
    quotes = [one for one in answer.quotes if one.source == number]
    here = [one for one in quotes if sentences[one.sentence].start <= at <= sentences[one.sentence].end]
    for one in here or quotes:
        return WidgetQuote(number=number, text=source.chunk_text[one.start : one.end])
    return WidgetQuote(number=number, text=source.snippet)


def _answer(answer: AnswerResponse, base_url: str) -> WidgetAnswer:
    return WidgetAnswer(
        answer=answer.answer,
        found=answer.found,
        quoted=answer.mode == "extractive",
        uncertain=UNCERTAIN in answer.warnings,
        cited=answer.cited,
        quotes=[
            _quote(answer, int(mark[1]), mark.start())
            for mark in CITATION.finditer(answer.answer)
            if mark[1] and 0 < int(mark[1]) <= len(answer.sources)
        ],
        unsupported=[one.text for one in answer.sentences if not one.supported and one.reason != "language"],
        closest=[
            WidgetClosest(title=one.title, link=_public(one.link, base_url))
            for one in (answer.unanswered.closest if answer.unanswered else [])
        ],
        note=TRANSLATED
        if OTHER_LANGUAGE in answer.warnings
        else next((one.message for one in answer.warnings if one.code == FOREIGN), None),
    )
