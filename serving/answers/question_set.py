"""`/api/questions`: the question set that measures search quality, for curators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from resources.stores.postgres import Connection
from serving.answers.service import Answers
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.fields import PAGE, Cursor, Limit
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from sql.operators import OperatorReads, QuestionState, SetEntry
from sql.questions import Questions
from sql.serving import WebSession

_QUESTION: dict[str, Any] = {
    "id": 7,
    "question": "How many unused holidays may I carry over?",
    "email": "ann@acme.com",
    "never": False,
    "state": "proposed",
    "origin": "feedback",
    "added_at": "2026-11-22T00:10:00Z",
    "documents": 1,
    "titles": ["Leave"],
}
QuestionVerdict = Annotated[
    Literal["accept", "remove"],
    Meta(title="QuestionDecision", description="`accept`: use a proposed question. `remove`: delete it from the set."),
]


class QuestionList(msgspec.Struct, frozen=True):
    """A page of the question set, oldest first."""

    questions: list[SetEntry]
    """The questions of this page."""
    next_cursor: str | None
    """The parameter `cursor` of the next page; null on the last one."""


class QuestionChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decision on a question."""

    decision: QuestionVerdict
    """What becomes of it."""


class QuestionDecided(msgspec.Struct, frozen=True):
    """A question that was decided on."""

    id: int
    """Number of the question."""
    decision: QuestionVerdict
    """What was decided."""


@get(
    "/api/questions",
    operation_id="listQuestions",
    tags=["administration"],
    summary="List the question set",
    guards=[NeedsRole(Role.CURATOR)],
    opt=limited("read")
    | described(
        parameters={"state": "proposed", "limit": 10},
        example={"questions": [_QUESTION], "next_cursor": None},
    ),
)
async def list_questions(
    request: Request[Access, Any, Any],
    answers: NamedDependency[Answers],
    only: Annotated[
        QuestionState | None, QueryParameter(name="state", description="Only questions in this state.")
    ] = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> QuestionList:
    """Return the questions that measure search quality. For curators; titles only of documents that the caller may read."""
    return await question_page(answers, request.user, only, limit, cursor)


async def question_page(
    answers: Answers, access: Access, state: str | None, limit: int, cursor: str | None
) -> QuestionList:
    """Return a page of the question set, for curators."""
    rows = await OperatorReads(answers.http.database).questions(
        state=state,
        after=0 if cursor is None else cursors.decode(cursor, int),
        most=limit + 1,
        **answers.http.readable_by(access),
    )
    page = rows[:limit]
    return QuestionList(page, cursors.encode(page[-1].id) if len(rows) > limit else None)


@post(
    "/api/questions/{question_id:str}",
    operation_id="decideQuestion",
    status_code=200,
    tags=["administration"],
    summary="Accept or remove a question",
    guards=[NeedsRole(Role.CURATOR)],
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"question_id": "7"},
        request={"decision": "accept"},
        example={"id": 7, "decision": "accept"},
    ),
)
async def decide_question(
    request: Request[Access, Any, Any],
    question_id: Annotated[str, PathParameter(description="Number of the question (`id`).", max_length=16)],
    data: JSONBody[QuestionChoice],
    answers: NamedDependency[Answers],
) -> QuestionDecided:
    """Accept a question that feedback proposed, or remove one from the set. For curators and administrators."""
    access = request.user
    number = int(question_id) if question_id.isascii() and question_id.isdigit() else 0

    def decide(connection: Connection) -> bool:
        statements = Questions(connection)
        change = statements.accept if data.decision == "accept" else statements.remove
        with connection.transaction():
            if not change(ids=[number]):
                return False
            detail = msgspec.json.encode({"question": number, "decision": data.decision}).decode()
            event = AuditEvent(email=access.email, action="question_decided", detail=detail)
            WebSession(connection).audit_insert(**event.row())
            return True

    if not await answers.http.database.in_thread(decide):
        raise ProblemError("not-found", "There is no such question, or it was accepted already.")
    return QuestionDecided(number, data.decision)
