"""Provider tokens that users grant for a source, one per account, stored in Postgres encrypted with ENCRYPTION_KEYS.

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
from sql.sources import ConnectedAccount, StoredCredentials

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
    """Store the token of an account, replacing its previous one; `by` is the user who connected it. The caller commits."""
    if not secret:
        raise InvalidRequestError(f"The token of {provider} is empty; sign in again.")
    StoredCredentials(connection).put_credential(
        provider=provider,
        account=account,
        secret=keys.fernet(settings).encrypt(secret.encode()),
        scopes=list(scopes),
        updated_by=by,
    )


def accounts(connection: Connection | str, provider: str) -> list[ConnectedAccount]:
    """Return the connected accounts of a provider, those connected earlier first; `connection` may be a DSN."""
    if isinstance(connection, str):
        with session(connection) as own:
            return accounts(own, provider)
    return StoredCredentials(connection).accounts(provider=provider)


def remove(connection: Connection, provider: str, account: str) -> bool:
    """Forget the token of an account; False if it is not connected. The caller commits."""
    return StoredCredentials(connection).remove_credential(provider=provider, account=account) > 0


def load(
    connection: Connection | str, settings: Settings, provider: str, account: str | None = None
) -> Credential | None:
    """Return the token of an account, by default of the one connected earliest, or None; `connection` may be a DSN.

    Raises `AuthorizationError` if none of ENCRYPTION_KEYS decrypts it.
    """
    if isinstance(connection, str):
        with session(connection) as own:
            return load(own, settings, provider, account)
    if account is None:
        account = next((one.account for one in accounts(connection, provider)), None)
    row = None if account is None else StoredCredentials(connection).credential(provider=provider, account=account)
    if row is None:
        return None
    cipher = keys.fernet(settings)
    try:
        secret = cipher.decrypt(row.secret).decode()
    except InvalidToken:
        raise AuthorizationError(
            f"The stored token of {row.account} for {provider} was encrypted with a key that is not in CONCORDANCE_ENCRYPTION_KEYS: "
            f"add that key at the end of the list, or connect {provider} again: open Sources → Set up."
        ) from None
    if not is_by_first_key(cipher, row.secret):
        again = cipher.rotate(row.secret)
        StoredCredentials(connection).rotate_credential(
            provider=provider, account=row.account, old=row.secret, secret=again
        )
    return Credential(
        provider=provider,
        account=row.account,
        secret=secret,
        scopes=tuple(row.scopes),
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def is_by_first_key(cipher: MultiFernet, token: bytes) -> bool:
    """Return True if the first key encrypted this token."""
    first: Fernet = cipher._fernets[0]  # pyright: ignore[reportPrivateUsage]
    try:
        first.decrypt(token)
    except InvalidToken:
        return False
    return True
