"""Provider tokens that users grant for a source, stored in Postgres encrypted with ENCRYPTION_KEYS.

A database dump alone therefore reveals no token. A token encrypted with an older key is re-encrypted with the first key when
it is read; after that the older key may be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from resources import keys
from resources.core.errors import AuthorizationError, InvalidRequestError
from resources.settings import Settings
from resources.stores.postgres import session
from sql.sources import Credentials

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

GOOGLE = "google"


@dataclass(frozen=True, slots=True)
class Credential:
    """A provider's refresh token. Excluded from `repr`, so that it cannot reach a log."""

    provider: str
    account: str
    secret: str = field(repr=False)
    scopes: tuple[str, ...]
    updated_at: datetime
    updated_by: str


def save(
    connection: Connection,
    settings: Settings,
    provider: str,
    account: str,
    secret: str,
    scopes: Sequence[str],
    by: str,
) -> None:
    """Store a provider's token, replacing the previous one; `by` is the user who connected it. The caller commits."""
    if not secret:
        raise InvalidRequestError(f"The token of {provider} is empty; sign in again.")
    Credentials(connection).put_credential(
        provider=provider,
        account=account,
        secret=keys.fernet(settings).encrypt(secret.encode()),
        scopes=list(scopes),
        updated_by=by,
    )


def load(connection: Connection | str, settings: Settings, provider: str) -> Credential | None:
    """Return a provider's token, or None; `connection` may be a DSN.

    Raises `AuthorizationError` if none of ENCRYPTION_KEYS decrypts it.
    """
    if isinstance(connection, str):
        with session(connection) as own:
            return load(own, settings, provider)
    row = Credentials(connection).credential(provider=provider)
    if row is None:
        return None
    cipher = keys.fernet(settings)
    try:
        secret = cipher.decrypt(row.secret).decode()
    except InvalidToken:
        raise AuthorizationError(
            f"The stored token for {provider} was encrypted with a key that is not in CONCORDANCE_ENCRYPTION_KEYS: "
            f"add that key at the end of the list, or connect {provider} again (GET /api/auth/{provider})."
        ) from None
    if not _is_by_first_key(cipher, row.secret):
        again = cipher.rotate(row.secret)
        Credentials(connection).rotate_credential(provider=provider, old=row.secret, secret=again)
    return Credential(
        provider=provider,
        account=row.account,
        secret=secret,
        scopes=tuple(row.scopes),
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def _is_by_first_key(cipher: MultiFernet, token: bytes) -> bool:
    first: Fernet = cipher._fernets[0]  # pyright: ignore[reportPrivateUsage]
    try:
        first.decrypt(token)
    except InvalidToken:
        return False
    return True
