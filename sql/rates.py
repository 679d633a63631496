"""Statements about limits and rates that all processes share: `sql/rates.sql`."""

from __future__ import annotations

import msgspec

from sql.family import AsyncFamily, Family


class Taken(msgspec.Struct, frozen=True):
    """Tokens taken from a bucket, and the seconds until it holds another."""

    granted: int
    seconds: float


class RateReads(AsyncFamily, path="rates.sql"):
    """Statements of the service."""

    async def take(
        self, *, bucket: bytes, most: float, a_second: float, wanted: int, returned: int
    ) -> Taken | None: ...
    async def take_turn(self, *, model: bytes, holder: str, most: int, seconds: float) -> bool | None: ...
    async def leave_turn(self, *, model: bytes, holder: str) -> int: ...


class SharedRates(Family, path="rates.sql"):
    """Statements of the pipeline."""

    def take(self, *, bucket: bytes, most: float, a_second: float, wanted: int, returned: int) -> Taken | None: ...
    def block(self, *, bucket: bytes, most: float, a_second: float, seconds: float) -> int: ...


class Reservations(Family, path="rates.sql"):
    """Parts of the month's embedding budget that are reserved."""

    def lock_budget(self) -> str | None: ...
    def reserve(
        self, *, reservation_id: str, month: str, cost_usd: float, budget: float, seconds: float
    ) -> float | None: ...
    def extend(self, *, reservation_id: str, seconds: float) -> int: ...
    def settle(
        self, *, reservation_id: str, month: str, model: str, texts: int, tokens: int, cost_usd: float
    ) -> int: ...
    def release(self, *, reservation_id: str) -> int: ...
