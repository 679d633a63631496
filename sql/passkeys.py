"""Statements about passkeys: `sql/passkeys.sql`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily, Family
from sql.fields import Moment


class OwnPasskey(msgspec.Struct, frozen=True):
    """A passkey of the caller."""

    passkey_id: str
    """Its ID."""
    name: str
    """What its owner calls it."""
    created_at: Moment
    """When it was added."""
    used_at: Moment | None
    """When it last signed its owner in; null if it never did."""


class RegisteredPasskey(msgspec.Struct, frozen=True):
    """What a device knows of a passkey."""

    user_handle: bytes
    credential_id: bytes


class StoredPasskey(msgspec.Struct, frozen=True):
    """A passkey, to verify what is signed with it."""

    passkey_id: str
    email: str
    user_handle: bytes
    public_key: bytes


class Ended(msgspec.Struct, frozen=True):
    """A passkey, key, session or the like that was ended, and whose it was."""

    email: str
    id: str


class PasskeyReads(AsyncFamily, path="passkeys.sql"):
    """What a request waits for."""

    in_turn = frozenset({"insert_passkey"})

    async def own_passkeys(self, *, email: str) -> list[OwnPasskey]: ...
    async def registered(self, *, email: str) -> list[RegisteredPasskey]: ...
    async def is_fresh(self, *, session_id: str, email: str, since: datetime) -> bool: ...
    async def insert_passkey(
        self,
        *,
        passkey_id: str,
        session_id: str,
        email: str,
        since: datetime,
        user_handle: bytes,
        credential_id: bytes,
        public_key: bytes,
        sign_count: int,
        name: str,
        now: datetime,
        most: int,
    ) -> int: ...
    async def passkey_of(self, *, credential_id: bytes) -> StoredPasskey | None: ...
    async def use_passkey(self, *, passkey_id: str, sign_count: int, now: datetime) -> int: ...


class RemovedPasskeys(Family, path="passkeys.sql"):
    """What ends passkeys, as part of a transaction."""

    def remove_passkey(self, *, passkey_id: str, email: str) -> int: ...
    def end_sessions_of(self, *, passkey_id: str, email: str, session_id: str) -> list[str]: ...
    def remove_passkeys_of(self, *, emails: list[str]) -> list[Ended]: ...
    def remove_all_passkeys(self) -> int: ...
