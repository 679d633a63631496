"""`GET /api/held-deletions` and `POST /api/held-deletions/{source}`: mass deletions that wait for a decision."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role, SourceName
from resources.core.errors import BusyError, InvalidRequestError, NotRunningError, TemporaryError
from resources.sources import parse
from resources.stores.postgres import Connection
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.fields import Name
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole, sees_reasons
from serving.sources.service import SourceServices
from serving.sources.sync import LAUNCH_SECONDS
from sql.fields import Moment
from sql.operators import DecidedPartition, HeldDeletions, Prune
from sql.serving import WebSession

_HELD: dict[str, Any] = {
    "source": "slack",
    "partition": "C0GENERAL",
    "title": "general",
    "documents": 120,
    "of_documents": 400,
    "held_at": "2026-11-22T00:10:00Z",
    "last_held_at": "2026-11-22T00:10:00Z",
    "approved_at": None,
    "approved_by": None,
    "examples": [],
}


Verdict = Annotated[
    Literal["approve", "reject"],
    Meta(
        title="DeletionDecision",
        description="`approve`: the next sync deletes. `reject`: the documents stay until the source reports the deletions again.",
    ),
]


class HeldList(msgspec.Struct, frozen=True):
    """All deletions that wait, or were approved and not yet carried out."""

    held: list[HeldDeletions]
    """By source and root or channel."""


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decision on held deletions."""

    decision: Verdict
    """What becomes of them."""
    partition: Name | None = None
    """ID of the root or channel. Null: all of the source."""
    last_held_at: Moment | None = None
    """Decide on those alone that waited then, such as the `last_held_at` of what was shown.

    Null: on all; a rejection then takes back approvals that no sync has carried out yet.
    """


class DecisionMade(msgspec.Struct, frozen=True):
    """A decision, and the sync that carries it out."""

    source: str
    """The source."""
    decision: Verdict
    """What was decided."""
    partitions: list[DecidedPartition]
    """What was decided on."""
    left: int
    """Deletions that began to wait later, and still do."""
    job_id: str | None
    """The sync that deletes; null if nothing is to be deleted, or a later sync does."""
    message: str
    """What happens next, in words."""


@get(
    "/api/held-deletions",
    operation_id="listHeldDeletions",
    tags=["sync"],
    summary="Deletions that wait for approval",
    guards=[NeedsRole(Role.OPERATOR, Role.AUDITOR)],
    opt=limited("read") | described(example={"held": [_HELD]}),
)
async def list_held_deletions(
    request: Request[Access, Any, Any], source_services: NamedDependency[SourceServices]
) -> HeldList:
    """Return mass deletions that wait. For operators and auditors; auditors see no names of documents."""
    return HeldList(await held(source_services, request.user))


async def held(source_services: SourceServices, access: Access) -> list[HeldDeletions]:
    """Return the deletions that wait, as an operator or auditor may see them."""
    rows = await source_services.http.database.in_thread(lambda connection: Prune(connection).held())
    return rows if sees_reasons(access) else [msgspec.structs.replace(one, examples=[]) for one in rows]


@post(
    "/api/held-deletions/{source:str}",
    operation_id="decideHeldDeletions",
    status_code=200,
    tags=["sync"],
    summary="Approve or reject deletions that wait",
    guards=[NeedsRole(Role.OPERATOR)],
    opt=limited("write")
    | described(
        problems=("unknown-source", "not-found"),
        parameters={"source": "slack"},
        request={"decision": "approve", "partition": "C0GENERAL", "last_held_at": "2026-11-22T00:10:00Z"},
        example={
            "source": "slack",
            "decision": "approve",
            "partitions": [{"partition": "C0GENERAL", "documents": 120}],
            "left": 0,
            "job_id": "49431f12-4f0c-4c8e-a0a7-5c1d3f7f6f10",
            "message": "A sync that deletes them has started.",
        },
    ),
)
async def decide_held_deletions(
    request: Request[Access, Any, Any],
    source: Annotated[str, PathParameter(description="The source whose deletions wait.")],
    data: JSONBody[Decision],
    source_services: NamedDependency[SourceServices],
) -> DecisionMade:
    """Approve deletions and start the sync that carries them out, or keep the documents. For operators and administrators."""
    access = request.user
    try:
        name = parse(source)
    except ValueError as error:
        raise ProblemError("unknown-source", str(error)) from None
    decided = await source_services.http.database.in_thread(
        lambda connection: decide(
            connection,
            name.value,
            data.decision,
            partition=data.partition,
            last_held_at=data.last_held_at,
            by=access.email,
        )
    )
    if not decided.partitions:
        raise ProblemError("not-found", "No matching deletions are pending.")
    job_id, message = None, "The documents stay until the source reports their deletion again."
    if data.decision == "approve":
        job_id, message = await _start(source_services, name, access.email)
    if said := later(decided.left):
        message = f"{message} {said}"
    return DecisionMade(name.value, data.decision, decided.partitions, decided.left, job_id, message)


class Decided(NamedTuple):
    """What was decided on, and how many deletions still wait."""

    partitions: list[DecidedPartition]
    left: int


def later(left: int) -> str:
    """Say that deletions began to wait after those that were decided on."""
    return f"{left:,} more began to wait meanwhile, to be decided on separately." if left else ""


def decide(
    connection: Connection,
    source: str,
    verdict: Literal["approve", "reject"],
    *,
    partition: str | None,
    last_held_at: datetime | None,
    by: str,
) -> Decided:
    """Decide on the deletions of a source or of one of its partitions, and record it, in one transaction."""
    statements = Prune(connection)
    if verdict == "approve":
        decided = statements.approve(source=source, partition=partition, last_held_at=last_held_at, approved_by=by)
    else:
        decided = statements.reject(source=source, partition=partition, last_held_at=last_held_at)
    if decided:
        counts = {one.partition: one.documents for one in decided}
        detail = msgspec.json.encode({"source": source, "decision": verdict, "documents": counts}).decode()
        event = AuditEvent(email=by, action="held_deletions_decided", detail=detail)
        WebSession(connection).audit_insert(**event.row())
    return Decided(decided, statements.left(source=source, partition=partition))


async def _start(source_services: SourceServices, source: SourceName, email: str) -> tuple[str | None, str]:
    """Start the sync that deletes; return its job and what to say. What cannot start now is left to the next scheduled sync."""
    try:
        started = await source_services.launch(source, requested_by=email, seconds=LAUNCH_SECONDS)
    except BusyError as error:
        if error.merged:
            return error.job_id, "The running sync deletes them."
        return None, "A sync is running; the next one deletes them."
    except (NotRunningError, InvalidRequestError, TemporaryError) as error:
        return None, f"The next sync deletes them. It could not be started now: {error}"
    return started.job_id, "A sync that deletes them has started."
