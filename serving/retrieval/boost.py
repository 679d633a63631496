"""Recency boost: a document's age enters, a factor leaves."""

from __future__ import annotations

from datetime import datetime, timedelta

STEPS: tuple[tuple[timedelta, float], ...] = ((timedelta(days=7), 1.10), (timedelta(days=30), 1.05))
"""Younger than the first, then its factor. Source: the platform's requirement 3.3 (under 7 days +10 %, under 30 days +5 %)."""


def recency(modified_at: datetime | None, now: datetime) -> float:
    """Return the factor for a document modified then; 1 when that is unknown or long ago. Both times aware."""
    if modified_at is not None:
        for age, factor in STEPS:
            if now - modified_at < age:
                return factor
    return 1.0
