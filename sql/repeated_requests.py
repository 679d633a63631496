"""Statements about requests with an `Idempotency-Key`: `sql/repeated_requests.sql`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily


class StoredResponse(msgspec.Struct, frozen=True):
    """The response to a request that succeeded, with the digest and length of the request's body."""

    fingerprint: bytes
    size: int
    status: int
    media_type: str
    body: bytes


class RepeatedRequests(AsyncFamily, path="repeated_requests.sql"):
    """What was answered to requests that may be sent again."""

    async def claim(
        self,
        *,
        key_hash: bytes,
        email: str,
        claim: str,
        now: datetime,
        expires_at: datetime,
        lost_before: datetime,
        most: int,
    ) -> int: ...
    async def stored(self, *, key_hash: bytes) -> StoredResponse | None: ...
    async def finish(
        self,
        *,
        key_hash: bytes,
        claim: str,
        fingerprint: bytes,
        size: int,
        status: int,
        media_type: str,
        body: bytes,
    ) -> int: ...
    async def release(self, *, key_hash: bytes, claim: str) -> int: ...
