"""Statements about growth: how full disks and index were, and when they will be full."""

from __future__ import annotations

import msgspec

from sql.family import AsyncFamily, Family, Json


class Forecast(msgspec.Struct, frozen=True):
    """What will be full, and in how many days. `used` and `most` are bytes of a disk, or passages of the index."""

    what: str
    place: str
    used: float
    most: float
    days: float

    def __str__(self) -> str:
        """Return the sentence that operators read."""
        name = "The index" if self.what == "index" else f"The disk at {self.place}"
        if self.days < 1:
            return f"{name} will be full within a day, if it grows as in the last days."
        days = int(self.days)
        return f"{name} will be full in {days:,} {'day' if days == 1 else 'days'}, if it grows as in the last days."


class Growth(Family, path="growth/growth.sql"):
    """Samples and forecasts, over a synchronous connection."""

    def record(self, *, samples: Json) -> int: ...
    def forget(self, *, days: int) -> int: ...
    def forecasts(self) -> list[Forecast]: ...


class GrowthReads(AsyncFamily, path="growth/growth.sql"):
    """What pages show of growth."""

    async def forecasts(self) -> list[Forecast]: ...
