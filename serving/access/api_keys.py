"""API keys for programs: `ck_<id>_<secret>`, of which only a hash is stored.

The secret has 256 random bits, so a plain SHA-256 is as strong as any slow hash. It is compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from resources.core.permissions import principals_of
from serving.errors import UnauthorizedError
from sql.web import WebReads, WebSession

if TYPE_CHECKING:
    from resources.stores.postgres import Connection
    from serving.database import Database

PREFIX = "ck_"
_NO_HASH = hashlib.sha256(b"").hexdigest()


class KeyHolder(NamedTuple):
    """The user whom a key authenticates."""

    email: str
    groups: list[str]
    admin: bool


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def create(
    connection: Connection,
    email: str,
    groups: Sequence[str] = (),
    *,
    admin: bool = False,
    expires_at: datetime | None = None,
) -> str:
    """Store a new key's hash and return the key, which cannot be retrieved later.

    Raises `InvalidRequestError` for a malformed email or group.
    """
    email = email.strip().lower()
    principals_of(email, groups)
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    WebSession(connection).api_key_insert(
        key_id=key_id,
        key_hash=_hash(secret),
        email=email,
        groups=[group.strip().lower() for group in groups],
        admin=admin,
        expires_at=expires_at,
    )
    return f"{PREFIX}{key_id}_{secret}"


def revoke(connection: Connection, key_id: str) -> bool:
    """Revoke a key with immediate effect. Return True if it existed and was valid."""
    return WebSession(connection).api_key_revoke(key_id=key_id) > 0


async def check(database: Database, key: str) -> KeyHolder:
    """Return the key's user. Raises `UnauthorizedError`, or `ServiceUnavailableError` when Postgres is down."""
    key_id, _, secret = key.removeprefix(PREFIX).partition("_")
    row = await WebReads(database).api_key_by_id(key_id=key_id) if key_id and secret else None
    matches = hmac.compare_digest(row.key_hash if row else _NO_HASH, _hash(secret))
    now = datetime.now(UTC)
    expired = row is not None and row.expires_at is not None and row.expires_at <= now
    if row is None or not matches or row.revoked_at is not None or expired:
        raise UnauthorizedError("api-key-invalid", "This API key is unknown, revoked or expired. Ask for a new one.")
    return KeyHolder(row.email, row.groups, row.admin)
