"""Revoke a token of ours before it expires: first in HOME, which needs no database, then in Postgres."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from resources.core.durations import duration
from resources.core.errors import InvalidRequestError
from serving.http.audit import AuditEvent
from serving.identity.revoked import FOLDER, RevokedTokens
from serving.identity.tokens import token_id
from sql.signing_in import SignInSession
from sql.web import WebSession

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection

MAX_LENGTH = 200


class Revoked(NamedTuple):
    """A token that is refused from now on; `email` is its user's if the whole token was given."""

    token_id: str
    email: str
    expires: datetime


def deny(settings: Settings, token: str) -> Revoked:
    """Refuse a token, or the token with this `jti`, from now on. Needs no database. Raises `InvalidRequestError`."""
    found, email, expires = token.strip(), "", datetime.now(UTC) + duration(settings.token_max_lifetime)
    if "." in found:
        claims = _claims(found)
        found, email = token_id(found, claims), str(claims.get("sub", ""))
    if not found or len(found) > MAX_LENGTH:
        raise InvalidRequestError("Give the whole token, or the `jti` in it.")
    RevokedTokens(settings.home / FOLDER).add(found, expires.timestamp())
    return Revoked(found, email, expires)


def record(connection: Connection, revoked: Revoked, *, by: str) -> None:
    """Add a token to the deny-list in Postgres and to the audit log. Idempotent for the list."""
    SignInSession(connection).revoke_token(
        token_id=revoked.token_id, revoked_by=by, expires_at=revoked.expires, now=datetime.now(UTC)
    )
    detail = json.dumps({"token_id": revoked.token_id, "by": by})
    WebSession(connection).audit_insert(**AuditEvent(email=revoked.email, action="token_revoked", detail=detail).row())


def _claims(token: str) -> dict[str, Any]:
    """Return a token's claims, unverified: revoking a forged or expired token harms no one."""
    try:
        return jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        raise InvalidRequestError("This is not a token. Give the whole token, or the `jti` in it.") from None
