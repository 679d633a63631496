"""`POST /api/ask`, `GET /api/answers/{answer_id}` and `POST /api/feedback`."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from resources.core.domain import Access
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.logging import logger
from serving.answers import store
from serving.answers.schemas import (
    AnswerEvent,
    AnswerResponse,
    AskRequest,
    CheckEvent,
    ErrorEvent,
    FeedbackRequest,
    FeedbackResponse,
    KeptAnswer,
    RestartEvent,
    SourcesEvent,
    TokenEvent,
)
from serving.answers.service import Answers
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError, explain
from serving.http.fields import parse_id
from serving.http.heartbeat import with_heartbeats
from serving.http.leaving import unless_left
from serving.http.openapi import examples
from serving.http.openapi.describe import EVENTS, JSON, Answer, described, event_stream
from serving.http.request_limits import limited
from serving.identity.authentication import current_access
from serving.search.searches import enforce_rate_limit
from sql.serving import WebReads

SETTLE_SECONDS = 2.0
EVENT_STREAM = "text/event-stream"

STREAM = {
    "sources": SourcesEvent,
    "token": TokenEvent,
    "restart": RestartEvent,
    "check": CheckEvent,
    "done": AnswerResponse,
    "error": ErrorEvent,
}
"""The events of a streamed answer and their data."""

EXAMPLE_ID = "3f9d3c1e-8a55-4c7a-9d0e-5b1f0a2c4d6e"
log = logger("serving")


def _message(event: AnswerEvent | None) -> ServerSentEventMessage:
    if event is None:
        return ServerSentEventMessage(data=None, comment="")  # a sign of life
    return ServerSentEventMessage(data=msgspec.json.encode(event.data).decode(), event=event.name)


async def as_events(
    first: AnswerEvent | None, rest: AsyncGenerator[AnswerEvent | None]
) -> AsyncGenerator[ServerSentEventMessage]:
    """Yield server-sent events. A failure becomes the event `error`, since the status has been sent."""
    try:
        yield _message(first)
        async for event in rest:
            yield _message(event)
    except Exception as error:  # noqa: BLE001 (the edge of this process: no other handler sees it)
        if isinstance(error, ConcordanceError):
            log.warning("answer_stream_failed", error=str(error))
        detail = explain(error, (), reads=True).detail
        yield ServerSentEventMessage(data=msgspec.json.encode({"detail": detail}).decode(), event="error")
    finally:
        await rest.aclose()


async def next_event(events: AsyncGenerator[AnswerEvent | None]) -> AnswerEvent | None:
    """Return the first event of a stream, or None for a sign of life before it, as a coroutine that can be cancelled."""
    return await anext(events)


def wants_events(request: Request[Any, Any, Any], data: AskRequest) -> bool:
    """Return True if the body or the `Accept` header requests a stream."""
    return data.stream or EVENT_STREAM in request.headers.get("accept", "")


@post(
    "/api/ask",
    operation_id="ask",
    status_code=200,
    tags=["answers"],
    summary="Answer a question from the documents",
    opt=limited("answer")
    | described(
        repeatable=True,
        request={"query": "How many unused holidays may I carry over?", "top_k": 5},
        components=tuple(STREAM.values()),
        answers={
            200: Answer(
                "The answer, whole or as server-sent events",
                {JSON: AnswerResponse, EVENTS: event_stream(STREAM)},
                example=examples.ANSWER,
            )
        },
    ),
)
async def ask(
    request: Request[Access, Any, Any], data: JSONBody[AskRequest], answers: NamedDependency[Answers]
) -> Response[AnswerResponse] | ServerSentEvent:
    """Answer from documents that the caller may read; each sentence is cited and checked against its source.

    With `stream: true` or `Accept: text/event-stream`, the answer is sent as server-sent events: `sources`, `token`…, `check`, `done`.
    """
    await enforce_rate_limit(answers.search, request.user)
    if not wants_events(request, data):
        asked = answers.ask(data, request.user, current_access(answers.identity, request))
        return Response(await unless_left(request, asked), status_code=200)
    events = with_heartbeats(answers.stream(data, request.user, current_access(answers.identity, request)))
    first = await unless_left(request, next_event(events))  # what fails before the first heartbeat still has a status
    return ServerSentEvent(as_events(first, events), status_code=200)


async def settle(answers: Answers) -> None:
    """Wait briefly for queued writes, since answers are stored after they are returned."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            await answers.http.audit.settle()
            await answers.http.background.settle()


def no_answer() -> ProblemError:
    return ProblemError("not-found", "There is no such answer, or it is not yours.")


@get(
    "/api/answers/{answer_id:str}",
    operation_id="getAnswer",
    tags=["answers"],
    summary="An answer and its sources today",
    opt=limited("read")
    | described(
        problems=("not-found",),
        parameters={"answer_id": EXAMPLE_ID},
        example=examples.KEPT_ANSWER,
    ),
)
async def get_answer(
    request: Request[Access, Any, Any],
    answers: NamedDependency[Answers],
    answer_id: Annotated[str, PathParameter(description="ID of the answer (`answer_id`).")],
) -> KeptAnswer:
    """Return an answer to the user who asked, or a shared one, with the current state of each source: current, changed or revoked."""
    return await kept_answer(answers, request.user, answer_id)


async def kept_answer(answers: Answers, access: Access, answer_id: str) -> KeptAnswer:
    """Return an answer as it is now for a caller. Opening another user's answer is recorded. Raises the problem `not-found`."""
    known_id = parse_id(answer_id, no_answer())
    for attempt in (1, 2):
        answer = await store.load(
            answers.http.database,
            known_id,
            access,
            fresh_since=answers.http.fresh_since(),
            base_url=answers.http.settings.base_url,
        )
        if answer is not None:
            if not answer.own:
                shown = sorted({one.doc_id for one in answer.sources if one.doc_id})
                detail = msgspec.json.encode({"answer_id": known_id, "asked_by": answer.asked_by}).decode()
                await answers.http.audit.record(
                    AuditEvent(email=access.email, action="answer_open", doc_ids=shown, detail=detail)
                )
            return answer
        if attempt == 1:
            await settle(answers)
    raise no_answer()


def _id(name: str, text: str | None) -> str | None:
    return None if text is None else parse_id(text, InvalidRequestError(f"{name}: {text!r} is not a valid ID."))


@post(
    "/api/feedback",
    operation_id="feedback",
    status_code=201,
    tags=["answers"],
    summary="Rate an answer or a search",
    opt=limited("write")
    | described(
        problems=("not-found",),
        request={"verdict": "bad", "answer_id": EXAMPLE_ID, "comment": "That was last year."},
        example={"feedback_id": "5d2a7a52-0f0a-4f6c-8c55-6a1f1d1c1b1a"},
    ),
)
async def feedback(
    request: Request[Access, Any, Any], data: JSONBody[FeedbackRequest], answers: NamedDependency[Answers]
) -> FeedbackResponse:
    """Store the caller's feedback on their own answer or search. If it names a document, it becomes a proposed test question."""
    if data.answer_id is None and data.query_id is None:
        raise InvalidRequestError("answer_id: give the id of an answer, or query_id of a search.")
    store = partial(
        WebReads(answers.http.database).feedback_insert,
        feedback_id=str(uuid.uuid4()),
        email=request.user.email,
        principals=sorted(request.user.principals),
        answer_id=_id("answer_id", data.answer_id),
        query_id=_id("query_id", data.query_id),
        verdict=data.verdict,
        comment=data.comment.replace("\x00", "") if data.comment else None,
        expected_doc_id=_id("expected_document", data.expected_document),
    )
    if data.answer_id is None:  # the audit log may have the search of an answer that is not written yet
        await settle(answers)
    for attempt in (1, 2):
        feedback_id = await store()
        if feedback_id is not None:
            return FeedbackResponse(feedback_id)
        if attempt == 1:
            await settle(answers)
    raise no_answer()
