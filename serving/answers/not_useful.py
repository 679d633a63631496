"""Answers that were marked not useful, and `POST /api/feedback/{feedback_id}/question`, for curators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from resources.core.errors import InvalidRequestError
from resources.stores.postgres import Connection
from serving.answers.asking import EXAMPLE_ID
from serving.answers.service import Answers
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.search.references import MAX_LENGTH, reference
from sql.operators import NotUseful, OperatorReads
from sql.questions import Questions
from sql.serving import WebReads, WebSession


class NotUsefulPage(NamedTuple):
    """Answers that were marked not useful, newest first."""

    answers: list[NotUseful]
    next_cursor: str | None


class Before(msgspec.Struct, frozen=True):
    """The last feedback of a page."""

    at: datetime
    feedback_id: str


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document that a question should find."""

    document: Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH)]
    """Its ID, or the address of its page. You and the person who asked must be able to read it."""


class QuestionProposed(msgspec.Struct, frozen=True):
    """A question that was proposed for the question set."""

    id: int
    """Number of the question."""


async def not_useful(answers: Answers, limit: int, cursor: str | None) -> NotUsefulPage:
    """Return questions whose answers were marked not useful, without the answers, for curators."""
    before = None if cursor is None else cursors.decode(cursor, Before)
    rows = await OperatorReads(answers.http.database).feedback(
        before_at=before.at if before else None,
        before_id=parse_id(before.feedback_id, InvalidRequestError("cursor: is not one of this list."))
        if before
        else None,
        most=limit + 1,
    )
    page = rows[:limit]
    more = cursors.encode(Before(page[-1].created_at, page[-1].feedback_id)) if len(rows) > limit else None
    return NotUsefulPage(page, more)


@post(
    "/api/feedback/{feedback_id:str}/question",
    operation_id="proposeQuestion",
    status_code=200,
    tags=["administration"],
    summary="Propose a question from feedback",
    guards=[NeedsRole(Role.CURATOR)],
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"feedback_id": EXAMPLE_ID},
        request={"document": EXAMPLE_ID},
        example={"id": 7},
    ),
)
async def propose_question(
    request: Request[Access, Any, Any],
    feedback_id: Annotated[str, PathParameter(description="ID of feedback with the verdict `bad`.", max_length=36)],
    data: JSONBody[Expected],
    answers: NamedDependency[Answers],
) -> QuestionProposed:
    """Propose the question of an answer that was marked not useful, with the document that answers it. For curators and administrators."""
    access = request.user
    known = parse_id(feedback_id, ProblemError("not-found", "There is no such feedback."))
    doc_id = reference(data.document, "document").own_id
    if doc_id is None:
        raise InvalidRequestError("document: give the ID of a document, or the address of its page (/documents/…).")
    if not await WebReads(answers.http.database).document(doc_ids=[doc_id], **answers.http.readable_by(access)):
        raise ProblemError("not-found", "There is no such document that you may read.")

    def propose(connection: Connection) -> int | None:
        with connection.transaction():
            number = Questions(connection).propose(feedback_id=known, doc_id=doc_id, added_by=access.email)
            if number is not None:
                detail = msgspec.json.encode({"question": number, "decision": "propose"}).decode()
                event = AuditEvent(email=access.email, action="question_decided", doc_ids=[doc_id], detail=detail)
                WebSession(connection).audit_insert(**event.row())
            return number

    number = await answers.http.database.in_thread(propose)
    if number is None:
        raise ProblemError(
            "not-found",
            "There is no such feedback, the person who asked may not read this document, or the question is in use already or part of a "
            "conversation.",
        )
    return QuestionProposed(number)
