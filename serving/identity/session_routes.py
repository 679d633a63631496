"""`GET /api/sessions` and `DELETE /api/sessions/{session_id}`: one's own browser sessions."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from resources.core.domain import Access
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.service import IdentityServices
from serving.identity.sign_in import events
from sql.sign_in import Session

_SESSION = {
    "session_id": "6c5d0c3a-1f0e-4f6d-9d0b-0f6a6b4b6f11",
    "provider": "google",
    "browser": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
    "created_at": "2025-11-10T09:00:00Z",
    "seen_at": "2025-11-10T11:30:00Z",
    "expires_at": "2025-11-17T09:00:00Z",
    "current": True,
}


class SessionList(msgspec.Struct, frozen=True):
    """The caller's sessions, newest first."""

    sessions: list[Session]
    """Sessions that are valid now."""


class SessionEnded(msgspec.Struct, frozen=True):
    """A session that is over."""

    session_id: str
    """The ID of the session."""
    status: Literal["ended"] = "ended"
    """The session is over."""


@get(
    "/api/sessions",
    operation_id="listSessions",
    tags=["sessions"],
    summary="List one's browser sessions",
    opt=limited("read") | described(example={"sessions": [_SESSION]}),
)
async def list_sessions(request: Request[Access, Any, Any], identity: NamedDependency[IdentityServices]) -> SessionList:
    """Return the sessions of the caller's email."""
    return SessionList(await identity.sessions.own(request.user.email, request.auth, identity.http.clock()))


@delete(
    "/api/sessions/{session_id:str}",
    operation_id="endSession",
    tags=["sessions"],
    summary="End one of one's browser sessions",
    status_code=200,
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"session_id": _SESSION["session_id"]},
        example={"session_id": _SESSION["session_id"], "status": "ended"},
    ),
)
async def end_session(
    request: Request[Access, Any, Any],
    identity: NamedDependency[IdentityServices],
    session_id: Annotated[str, PathParameter(description="ID of the session, from `GET /api/sessions`.")],
) -> SessionEnded:
    """Sign a browser of the caller out. Sessions of others do not exist for the caller."""
    missing = ProblemError("not-found", "There is no such session of yours.")
    known, email = parse_id(session_id, missing), request.user.email
    if await identity.sessions.end(known, email) is None:
        raise missing
    await identity.http.audit.record(events.session_ended(email, known, by=email, reason="ended by its user"))
    return SessionEnded(known)
