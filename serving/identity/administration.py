"""Keys and browser sessions of all people, for administrators: `/api/admin/keys` and `/api/admin/sessions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from resources.core.domain import Access, Role
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.identity import api_keys
from serving.identity.service import IdentityServices
from serving.identity.session_routes import SessionEnded
from serving.identity.sign_in import events
from sql.cli import KeyEntry
from sql.operators import CommandReads
from sql.sign_in import SessionEntry

_KEY: dict[str, Any] = {
    "key_id": "0a1b2c3d4e5f6071",
    "email": "bot@acme.com",
    "name": "",
    "groups": [],
    "admin": False,
    "scim": False,
    "scopes": None,
    "created_at": "2026-11-22T00:10:00Z",
    "used_at": "2026-11-23T10:00:00Z",
    "expires_at": None,
    "revoked_at": None,
}
_SESSION = {
    "session_id": "6c5d0c3a-1f0e-4f6d-9d0b-0f6a6b4b6f11",
    "email": "ann@acme.com",
    "provider": "google",
    "administrator": False,
    "browser": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
    "created_at": "2025-11-10T09:00:00Z",
    "seen_at": "2025-11-10T11:30:00Z",
    "expires_at": "2025-11-17T09:00:00Z",
}


class KeyList(msgspec.Struct, frozen=True):
    """All API keys, oldest first."""

    keys: list[KeyEntry]
    """Valid and revoked keys."""


class KeyRevoked(msgspec.Struct, frozen=True):
    """A key that is no longer accepted."""

    key_id: str
    """ID of the key."""
    status: Literal["revoked"]
    """The key is revoked."""


class AllSessions(msgspec.Struct, frozen=True):
    """The latest 1000 sessions of all people that are valid, newest first."""

    sessions: list[SessionEntry]
    """Sessions that are valid now."""


@get(
    "/api/admin/keys",
    operation_id="listAllKeys",
    tags=["administration"],
    summary="List all API keys",
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("read") | described(example={"keys": [_KEY]}),
)
async def list_all_keys(identity: NamedDependency[IdentityServices]) -> KeyList:
    """Return all API keys without their secrets. For administrators."""
    return KeyList(await all_keys(identity))


async def all_keys(identity: IdentityServices) -> list[KeyEntry]:
    return await CommandReads(identity.http.database).api_keys()


@delete(
    "/api/admin/keys/{key_id:str}",
    operation_id="revokeAnyKey",
    tags=["administration"],
    summary="Revoke an API key",
    status_code=200,
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write")
    | described(
        problems=("not-found", "invalid-request"),
        parameters={"key_id": _KEY["key_id"]},
        example={"key_id": _KEY["key_id"], "status": "revoked"},
    ),
)
async def revoke_any_key(
    request: Request[Access, Any, Any],
    identity: NamedDependency[IdentityServices],
    key_id: Annotated[str, PathParameter(description="ID of the key, from `GET /api/admin/keys`.", max_length=100)],
) -> KeyRevoked:
    """Revoke a key with immediate effect. For administrators."""
    email = request.user.email
    if not await identity.http.database.in_thread(lambda connection: api_keys.revoke(connection, key_id, by=email)):
        raise ProblemError("not-found", "There is no valid key of this ID.")
    return KeyRevoked(key_id, "revoked")


@get(
    "/api/admin/sessions",
    operation_id="listAllSessions",
    tags=["administration"],
    summary="List all browser sessions",
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("read") | described(example={"sessions": [_SESSION]}),
)
async def list_all_sessions(identity: NamedDependency[IdentityServices]) -> AllSessions:
    """Return the browser sessions of all people. For administrators."""
    return AllSessions(await identity.sessions.all(identity.http.clock()))


@delete(
    "/api/admin/sessions/{session_id:str}",
    operation_id="endAnySession",
    tags=["administration"],
    summary="End a browser session of anyone",
    status_code=200,
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"session_id": _SESSION["session_id"]},
        example={"session_id": _SESSION["session_id"], "status": "ended"},
    ),
)
async def end_any_session(
    request: Request[Access, Any, Any],
    identity: NamedDependency[IdentityServices],
    session_id: Annotated[str, PathParameter(description="ID of the session, from `GET /api/admin/sessions`.")],
) -> SessionEnded:
    """Sign a browser of anyone out. For administrators."""
    missing = ProblemError("not-found", "There is no such session.")
    known = parse_id(session_id, missing)
    ended = await identity.sessions.end(known, None)
    if ended is None:
        raise missing
    event = events.session_ended(ended.email, known, by=request.user.email, reason="ended by an administrator")
    await identity.http.audit.record(event)
    return SessionEnded(known)
