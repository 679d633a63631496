"""Revoke a token of ours before it expires: first in the vector index, which needs no database, then in Postgres."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from resources.core.durations import duration
from resources.core.errors import InvalidRequestError
from serving.http.audit import AuditEvent
from serving.identity.tokens import token_id
from serving.identity.withholding import Withholding
from sql.serving import WebSession
from sql.sign_in import SignInSession

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection

MAX_LENGTH = 200
LISTED = timedelta(days=366)
"""A revoked token is on the deny-list for this long at least, and for a day longer than any token is accepted: the longest lifetime may be
raised again, and clocks of processes may differ."""


class Revoked(NamedTuple):
    """A token that is refused from now on; `email` is its user's if the whole token was given."""

    token_id: str
    email: str
    expires: datetime


def withhold(settings: Settings, revoked: Revoked) -> None:
    """Refuse a token without Postgres. The services add it to the deny-list there once it is back.

    Raises `ServiceUnavailableError`.
    """
    withholding = Withholding(settings)
    try:
        withholding.token_alone(revoked.token_id, revoked.expires.timestamp())
    finally:
        withholding.close()


def identify(settings: Settings, token: str) -> Revoked:
    """Return what is to be refused by a token or its `jti`. Raises `InvalidRequestError`."""
    found, email = token.strip(), ""
    expires = datetime.now(UTC) + max(duration(settings.token_max_lifetime) + timedelta(days=1), LISTED)
    if "." in found:
        claims = _claims(found)
        found, email = token_id(found, claims), str(claims.get("sub", ""))
    if not found or len(found) > MAX_LENGTH:
        raise InvalidRequestError("Give the whole token, or the `jti` in it.")
    return Revoked(found, email, expires)


def record(settings: Settings, connection: Connection, revoked: Revoked, *, by: str) -> None:
    """Add a token to the deny-list in the index and in Postgres, and to the audit log. Idempotent for the lists."""
    withholding = Withholding(settings)
    try:
        withholding.token(connection, revoked.token_id, revoked.expires.timestamp())
    finally:
        withholding.close()
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
