"""`GET /api/answers` and `/api/answers/{answer_id}/share`: one's own questions, and sharing an answer by link."""

import json
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from litestar import Request, delete, get, put
from litestar.di import NamedDependency
from litestar.params import PathParameter

from resources.core.domain import Access
from serving.answers.asking import EXAMPLE_ID, no_answer, settle
from serving.answers.service import Answers
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.fields import PAGE, Cursor, Limit, parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from sql.fields import Moment
from sql.serving import WebReads
from sql.serving_rows import Asked

AnswerId = Annotated[str, PathParameter(description="ID of the answer (`answer_id`).")]


class AskedList(msgspec.Struct, frozen=True):
    """A page of the caller's questions, newest first."""

    answers: list[Asked]
    """The questions of this page."""
    next_cursor: str | None
    """The parameter `cursor` of the next page; null on the last one."""


class AnswerDeleted(msgspec.Struct, frozen=True):
    """A question that is gone, with its answer."""

    answer_id: str
    """ID of the answer."""
    status: Literal["deleted"] = "deleted"
    """The answer is not kept any more."""


class ShareState(msgspec.Struct, frozen=True):
    """Sharing state of an answer."""

    answer_id: str
    """ID of the answer."""
    link: str
    """The address that opens it, for people who are signed in and may read every source."""
    shared_at: Moment | None
    """Since when it is shared; null if it is not."""


def _shared(since: str | None) -> dict[str, Any]:
    """Return an example of a `ShareState`."""
    return {"answer_id": EXAMPLE_ID, "link": f"https://search.example/answers/{EXAMPLE_ID}", "shared_at": since}


@get(
    "/api/answers",
    operation_id="listAnswers",
    tags=["answers"],
    summary="List one's own questions",
    opt=limited("read")
    | described(
        parameters={"limit": 10},
        example={
            "answers": [
                {
                    "answer_id": EXAMPLE_ID,
                    "created_at": "2026-11-22T00:16:33Z",
                    "query": "How many unused holidays may I carry over?",
                    "found": True,
                    "mode": "model",
                    "shared_at": None,
                }
            ],
            "next_cursor": None,
        },
    ),
)
async def list_answers(
    request: Request[Access, Any, Any],
    answers: NamedDependency[Answers],
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> AskedList:
    """List the questions that the caller asked, newest first, for as long as answers are kept."""
    return await questions_of(answers, request.user, limit, cursor)


async def questions_of(
    answers: Answers, access: Access, limit: int, cursor: str | None, contains: str = ""
) -> AskedList:
    """Return a page of a person's questions, or of those that contain a text."""
    at, last = cursors.decode(cursor, tuple[Moment, UUID]) if cursor is not None else (None, None)
    await settle(answers)
    rows = await WebReads(answers.http.database).answers_of(
        email=access.email,
        before_at=at,
        before_id=str(last) if last else None,
        contains=contains.lower() or None,
        most=limit + 1,
    )
    page = rows[:limit]
    more = cursors.encode((page[-1].created_at, UUID(page[-1].answer_id))) if len(rows) > limit else None
    return AskedList(page, more)


@delete(
    "/api/answers/{answer_id:str}",
    operation_id="deleteAnswer",
    status_code=200,
    tags=["answers"],
    summary="Delete one's own question and its answer",
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"answer_id": EXAMPLE_ID},
        example={"answer_id": EXAMPLE_ID, "status": "deleted"},
    ),
)
async def delete_answer(
    request: Request[Access, Any, Any], answers: NamedDependency[Answers], answer_id: AnswerId
) -> AnswerDeleted:
    """Delete a question of the caller's with its answer; a link to it is closed. What the audit log and feedback say of it stays."""
    known_id = parse_id(answer_id, no_answer())
    await settle(answers)
    if not await WebReads(answers.http.database).answer_delete(answer_id=known_id, email=request.user.email):
        raise no_answer()
    await answers.http.audit.record(
        AuditEvent(email=request.user.email, action="answer_delete", detail=json.dumps({"answer_id": known_id}))
    )
    return AnswerDeleted(known_id)


@put(
    "/api/answers/{answer_id:str}/share",
    operation_id="shareAnswer",
    status_code=200,
    tags=["answers"],
    summary="Share an answer by link",
    opt=limited("write")
    | described(
        problems=("not-found", "not-shareable"),
        parameters={"answer_id": EXAMPLE_ID},
        example=_shared("2026-11-22T08:00:00Z"),
    ),
)
async def share_answer(
    request: Request[Access, Any, Any], answers: NamedDependency[Answers], answer_id: AnswerId
) -> ShareState:
    """Let people open an answer of the caller's who may read every one of its sources. Sent again, it changes nothing.

    An answer that was written in a conversation may rest on earlier messages, so it cannot be shared.
    """
    state = await _share(answers, request.user, answer_id, shared=True)
    if state.shared_at is None:
        raise ProblemError(
            "not-shareable",
            "An answer can be shared if it was found in documents and written outside a conversation, unless one of the "
            "documents is not to be shared. Ask the question by itself, and share that answer.",
        )
    return state


@delete(
    "/api/answers/{answer_id:str}/share",
    operation_id="unshareAnswer",
    status_code=200,
    tags=["answers"],
    summary="Stop sharing an answer",
    opt=limited("write")
    | described(repeatable=True, problems=("not-found",), parameters={"answer_id": EXAMPLE_ID}, example=_shared(None)),
)
async def unshare_answer(
    request: Request[Access, Any, Any], answers: NamedDependency[Answers], answer_id: AnswerId
) -> ShareState:
    """Close the link of an answer of the caller's for everyone else."""
    return await _share(answers, request.user, answer_id, shared=False)


async def _share(answers: Answers, access: Access, answer_id: str, *, shared: bool) -> ShareState:
    known_id = parse_id(answer_id, no_answer())
    await settle(answers)
    row = await WebReads(answers.http.database).answer_share(answer_id=known_id, email=access.email, shared=shared)
    if row is None:
        raise no_answer()
    if row.shared_at is not None or not shared:
        action = "answer_share" if shared else "answer_unshare"
        await answers.http.audit.record(
            AuditEvent(email=access.email, action=action, detail=json.dumps({"answer_id": known_id}))
        )
    return ShareState(known_id, f"{answers.http.settings.base_url}/answers/{known_id}", row.shared_at)
