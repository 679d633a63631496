"""API keys for programs: `ck_<id>_<secret>`, of which only a hash is stored.

The secret has 256 random bits, so a plain SHA-256 is as strong as any slow hash. It is compared in constant time.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from resources.core import permissions
from resources.core.errors import InvalidRequestError, StorageFullError
from serving.http.audit import AuditEvent
from serving.http.errors import UnauthorizedError
from serving.identity.secret_hash import secret_hash
from sql.serving import WebReads, WebSession

if TYPE_CHECKING:
    from resources.stores.postgres import Connection
    from serving.http.database import Database
    from sql.serving_rows import StoredKey

PREFIX = "ck_"
INVALID = "This API key is unknown, revoked or expired. Ask for a new one."
SCIM_ONLY = "SCIM needs a key for SCIM, which opens nothing else: concordance key create EMAIL --scim"
SEEN_EVERY = timedelta(minutes=1)
_NO_HASH = secret_hash("")


class KeyHolder(NamedTuple):
    """The user whom a key authenticates."""

    email: str
    groups: list[str]
    admin: bool
    scopes: list[str] | None = None
    """What the key may do; None: everything that its user may."""
    provider: str | None = None
    """The provider that vouches for the groups; None if they were written here, with the key."""
    groups_omitted: bool = False


class KeyRefusedError(UnauthorizedError):
    """A key is unknown, wrong, revoked or expired. `event` is for the audit log; None for an unknown key."""

    def __init__(self, event: AuditEvent | None, slug: str = "api-key-invalid", detail: str = INVALID) -> None:
        super().__init__(slug, detail)
        self.event = event


def create(
    connection: Connection,
    email: str,
    groups: Sequence[str] = (),
    *,
    admin: bool = False,
    scim: bool = False,
    expires_at: datetime | None = None,
    by: str | None = None,
) -> str:
    """Store a new key's hash and return the key, which cannot be retrieved later. A key for SCIM opens nothing else.

    `by` is the account that made it, for the audit log.

    Raises `InvalidRequestError` for a malformed email or group.
    """
    email = permissions.email(email)
    permissions.principals_of(email, groups)
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    if scim and (admin or groups):
        raise InvalidRequestError("A key for SCIM has no groups and no admin scope. Leave --group and --admin out.")
    statements = WebSession(connection)
    statements.api_key_insert(
        key_id=key_id,
        key_hash=secret_hash(secret),
        email=email,
        groups=[group.strip().lower() for group in groups],
        admin=admin,
        scim=scim,
        expires_at=expires_at,
    )
    statements.audit_insert(**key_event(email, "key_create", key_id, admin=admin, scim=scim, **_by(by)).row())
    return f"{PREFIX}{key_id}_{secret}"


def revoke(connection: Connection, key_id: str, *, by: str | None = None) -> bool:
    """Revoke a key with immediate effect. Return True if it existed and was valid.

    `by` is who asked for it: an administrator, or the account that ran the command.
    """
    statements = WebSession(connection)
    email = statements.api_key_revoke(key_id=key_id)
    if email is not None:
        statements.audit_insert(**key_event(email, "key_revoke", key_id, **_by(by)).row())
    return email is not None


async def check(
    database: Database,
    key: str,
    *,
    vouching: Collection[str],
    now: datetime,
    fresh_since: datetime,
    idle_since: datetime,
    scim: bool = False,
) -> KeyHolder:
    """Return the user of a key, which must be one for SCIM if `scim` is true, and must not be one otherwise.

    `vouching` are the providers that sign people in now. Raises `KeyRefusedError`, or `ServiceUnavailableError` when Postgres is down.
    """
    key_id, _, secret = key.removeprefix(PREFIX).partition("_")
    row = await _stored(database, key_id, secret, now, fresh_since, idle_since) if key_id and secret else None
    matches = hmac.compare_digest(row.key_hash if row else _NO_HASH, secret_hash(secret))
    if row is None:
        raise KeyRefusedError(None)
    expired = row.expires_at is not None and row.expires_at <= now
    reason = "secret" if not matches else "revoked" if row.revoked_at is not None else "expired" if expired else None
    if reason is None and row.provider is not None and row.provider not in vouching:
        reason = "provider"  # it is no longer set up
    if reason is not None:
        raise KeyRefusedError(key_event(row.email, "key_refused", key_id, reason=reason))
    if row.scim != scim:
        raise KeyRefusedError(key_event(row.email, "key_refused", key_id, reason="scope"), "scim-key", SCIM_ONLY)
    return KeyHolder(row.email, row.groups, row.admin, row.scopes, row.provider, row.groups_omitted)


async def _stored(
    database: Database, key_id: str, secret: str, now: datetime, fresh_since: datetime, idle_since: datetime
) -> StoredKey | None:
    """Return the key of this ID, and note that it is used if the secret is right."""

    async def found(seen_before: datetime | None) -> StoredKey | None:
        return await WebReads(database).api_key_by_id(
            key_id=key_id,
            key_hash=secret_hash(secret),
            now=now,
            seen_before=seen_before,
            fresh_since=fresh_since,
            idle_since=idle_since,
        )

    try:
        return await found(now - SEEN_EVERY)
    except StorageFullError:
        return await found(None)


def _by(who: str | None) -> dict[str, str]:
    return {"by": who} if who else {}


def key_event(email: str, action: str, key_id: str, **detail: Any) -> AuditEvent:
    """Return an event about a key; `email` is the key's user."""
    return AuditEvent(email=email, action=action, detail=json.dumps({"key_id": key_id, **detail}))
