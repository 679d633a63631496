"""What embedding costs, and whether a month's budget allows more. Pure: the caller keeps the books (table
embedding_usage).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

WARN_AT = 0.8
"""Share of the budget from which on people are warned."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A month's limit and what is spent of it, in US dollars; no limit is None."""

    limit: float | None
    spent: float

    @property
    def warn(self) -> bool:
        """Whether 80 % of the budget is used."""
        return self.limit is not None and self.spent >= self.limit * WARN_AT

    @property
    def exceeded(self) -> bool:
        """Whether more is spent than the budget allows; just as much is allowed, so a budget of 0 lets free models
        run.
        """
        return self.limit is not None and self.spent > self.limit


def cost(tokens: int, price_per_million: float | None) -> float:
    """Return US dollars for so many tokens; a price that isn't known counts as nothing."""
    return tokens / 1_000_000 * (price_per_million or 0.0)


def month_key(now: datetime) -> str:
    """Return the month that usage is booked on, in UTC: `2025-03`."""
    return now.astimezone(UTC).strftime("%Y-%m")
