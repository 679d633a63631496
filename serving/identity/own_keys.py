"""`/api/keys`: API keys that people make for programs of their own.

Such a key acts as its person, within its scopes: groups are looked up at each request, and it has no role without the scope `operate`.
It ends by its expiry, with the account, and when the provider of the session in which it was made vouches no longer.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access
from resources.core.durations import duration
from resources.core.errors import InvalidRequestError, QuotaExceededError
from serving.http.errors import ProblemError
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.administration import KeyRevoked
from serving.identity.api_keys import PREFIX, key_event
from serving.identity.secret_hash import secret_hash
from serving.identity.service import IdentityServices
from serving.identity.sign_in.sessions import FRESH
from sql.fields import Moment
from sql.own_keys import OwnKey, OwnKeyRows
from sql.passkeys import PasskeyReads

MOST = 20
"""Valid keys of a person."""
DAYS = (7, 30, 90, 365)
"""What the page offers, as far as `CONCORDANCE_LIMITS__TOKEN_MAX_LIFETIME` allows it."""
_KEY: dict[str, Any] = {
    "key_id": "0a1b2c3d4e5f6071",
    "name": "Nightly report",
    "scopes": ["read"],
    "created_at": "2026-11-22T00:10:00Z",
    "used_at": None,
    "expires_at": "2027-02-20T00:10:00Z",
}


class OwnKeyList(msgspec.Struct, frozen=True):
    """The caller's own keys, newest first."""

    keys: list[OwnKey]
    """Keys that are valid now."""


ScopeName = Annotated[
    Literal["read", "write", "operate"], Meta(title="KeyScopeName", description="A part of what a person may do.")
]


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that the caller wants for a program."""

    name: Annotated[str, Meta(max_length=100, extra_json_schema={"minLength": 1})]
    """What to call it, such as the program's name."""
    scopes: Annotated[list[ScopeName], Meta(min_length=1, max_length=3)]
    """What it may do: `read` (search, ask, read), `write` (upload, push, change, delete), `operate` (use the caller's roles)."""
    expires_in_days: Annotated[int, Meta(ge=1, le=365)] = 90
    """Days until it expires, at most `CONCORDANCE_LIMITS__TOKEN_MAX_LIFETIME`."""


class CreatedKey(msgspec.Struct, frozen=True):
    """A new key. Its secret is in no later response."""

    key_id: str
    """ID of the key."""
    key: str
    """The key, for the header `Authorization: Bearer KEY`. Keep it: it cannot be shown again."""
    expires_at: Moment
    """When it expires."""


def offered_days(identity: IdentityServices) -> list[int]:
    longest = duration(identity.http.settings.token_max_lifetime)
    return [days for days in DAYS if timedelta(days=days) <= longest] or [max(1, longest.days)]


async def own_keys_of(identity: IdentityServices, access: Access, now: datetime) -> list[OwnKey]:
    """Return the valid keys that the caller has made."""
    return await OwnKeyRows(identity.http.database).own_keys(email=access.email, now=now)


@get(
    "/api/keys",
    operation_id="listKeys",
    tags=["access"],
    summary="List one's API keys",
    opt=limited("read") | described(example={"keys": [_KEY]}),
)
async def list_keys(request: Request[Access, Any, Any], identity: NamedDependency[IdentityServices]) -> OwnKeyList:
    """Return the keys that the caller has created, without their secrets."""
    return OwnKeyList(await own_keys_of(identity, request.user, identity.http.clock()))


@post(
    "/api/keys",
    operation_id="createKey",
    tags=["access"],
    summary="Create an API key",
    opt=limited("write")
    | described(
        problems=("sign-in-only", "quota-exceeded"),
        request={"name": "Nightly report", "scopes": ["read"], "expires_in_days": 90},
        example={
            "key_id": _KEY["key_id"],
            "key": f"ck_{_KEY['key_id']}_EXAMPLE",
            "expires_at": _KEY["expires_at"],
        },
    ),
)
async def create_key(
    request: Request[Access, str | None, Any], data: JSONBody[NewKey], identity: NamedDependency[IdentityServices]
) -> CreatedKey:
    """Create a key that acts as the caller, within its scopes. Only a browser that is signed in may do this, no token or key.

    For a key that may `write` or `operate`, it must have signed in within the last hour.
    """
    name, now, email = " ".join(data.name.replace("\x00", " ").split()), identity.http.clock(), request.user.email
    if request.auth is None:
        raise ProblemError("sign-in-only", "A token or key creates no keys. Sign in with a browser, and open /me.")
    if not name:
        raise InvalidRequestError("name: is empty; give the key a name.")
    lifetime, longest = timedelta(days=data.expires_in_days), identity.http.settings.token_max_lifetime
    if lifetime > duration(longest):
        raise InvalidRequestError(f"expires_in_days: keys are valid for at most {longest} here.")
    if set(data.scopes) - {"read"} and not await PasskeyReads(identity.http.database).is_fresh(
        session_id=request.auth, email=email, since=now - FRESH
    ):
        raise InvalidRequestError(
            "scopes: you signed in too long ago for a key that may write or operate. Sign out, sign in again, and create it within an hour."
        )
    key_id, secret, scopes = secrets.token_hex(8), secrets.token_urlsafe(32), sorted(set(data.scopes))
    stored = await OwnKeyRows(identity.http.database).insert_own(
        session_id=request.auth,
        email=email,
        key_id=key_id,
        key_hash=secret_hash(secret),
        name=name,
        scopes=list[str](scopes),
        now=now,
        expires_at=now + lifetime,
        most=MOST,
    )
    if not stored:
        raise QuotaExceededError(f"You have {MOST} keys, which is the limit. Revoke one first.")
    await identity.http.audit.record(key_event(email, "key_create", key_id, name=name, scopes=scopes))
    return CreatedKey(key_id, f"{PREFIX}{key_id}_{secret}", now + lifetime)


@delete(
    "/api/keys/{key_id:str}",
    operation_id="revokeKey",
    tags=["access"],
    summary="Revoke one of one's API keys",
    status_code=200,
    opt=limited("write")
    | described(
        problems=("not-found", "invalid-request"),
        parameters={"key_id": _KEY["key_id"]},
        example={"key_id": _KEY["key_id"], "status": "revoked"},
    ),
)
async def revoke_key(
    request: Request[Access, Any, Any],
    identity: NamedDependency[IdentityServices],
    key_id: Annotated[str, PathParameter(description="ID of the key, from `GET /api/keys`.", max_length=100)],
) -> KeyRevoked:
    """Revoke a key with immediate effect. Keys of others do not exist for the caller, nor do those that an operator made."""
    email, now = request.user.email, identity.http.clock()
    if not await OwnKeyRows(identity.http.database).revoke_own(key_id=key_id, email=email, now=now):
        raise ProblemError("not-found", "There is no such key of yours.")
    await identity.http.audit.record(key_event(email, "key_revoke", key_id, by=email))
    return KeyRevoked(key_id, "revoked")
