"""Statements about API keys that people make for themselves: `sql/own_keys.sql`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily
from sql.fields import Moment


class OwnKey(msgspec.Struct, frozen=True):
    """An API key of the caller, without its secret, which is stored nowhere."""

    key_id: str
    """ID of the key: the part between its underscores."""
    name: str
    """What its owner calls it."""
    scopes: list[str]
    """What it may do: `read`, `write`, `operate`."""
    created_at: Moment
    """When it was created."""
    used_at: Moment | None
    """Last use, to the minute; null if it was never used."""
    expires_at: Moment
    """When it expires."""


class OwnKeyRows(AsyncFamily, path="own_keys.sql"):
    """What people make for programs of theirs."""

    in_turn = frozenset({"insert_own"})

    async def own_keys(self, *, email: str, now: datetime) -> list[OwnKey]: ...
    async def insert_own(
        self,
        *,
        session_id: str,
        email: str,
        key_id: str,
        key_hash: str,
        name: str,
        scopes: list[str],
        now: datetime,
        expires_at: datetime,
        most: int,
    ) -> int: ...
    async def revoke_own(self, *, key_id: str, email: str, now: datetime) -> int: ...
    async def revoke_vouched(self, *, email: str, provider: str, now: datetime) -> list[str]: ...
