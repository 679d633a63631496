"""The monthly budget of embedding. Pure functions; usage is stored in the table `embedding_usage` by the caller."""

from dataclasses import dataclass
from datetime import UTC, datetime

ROUNDING = 1e-9
"""US dollars by which sums of costs may differ."""
WARN_AT = 0.8
"""Share of the budget at which a warning is given."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A monthly limit (None: no limit) and what has been spent, in US dollars."""

    limit: float | None
    spent: float

    @property
    def warn(self) -> bool:
        """True if 80 % of the budget is used."""
        return self.limit is not None and self.spent >= self.limit * WARN_AT

    @property
    def exceeded(self) -> bool:
        """True if more is spent than the budget allows; spending exactly the budget is fine, so a budget of 0 permits free models."""
        return self.limit is not None and self.spent > self.limit + ROUNDING


def month_key(now: datetime) -> str:
    """Return the month that usage is booked on, in UTC: `2025-03`."""
    return now.astimezone(UTC).strftime("%Y-%m")
