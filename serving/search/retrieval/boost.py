"""Boosts of a passage's score: recency, and less for uploads of other people."""

from __future__ import annotations

from datetime import datetime, timedelta

from resources.sources import capabilities

STEPS: tuple[tuple[timedelta, float], ...] = ((timedelta(days=7), 1.10), (timedelta(days=30), 1.05))
"""Younger than the first, then its factor. Source: the platform's requirements (under 7 days +10 %, under 30 days +5 %)."""

OTHERS_UPLOAD = 0.95
"""Anyone may upload anything: at equal relevance a managed source comes first, and recent uploads of others get no boost."""


AHEAD = timedelta(days=1)
"""How far other clocks and time zones may be ahead."""


def boosts(
    source_type: str, owner: str | None, modified_at: datetime | None, reader: str, now: datetime
) -> dict[str, float]:
    """Return the factors by name; `reader` is the email of the person who searches."""
    if owner != reader and capabilities(source_type).by_anyone:
        return {"recency": 1.0, "others_upload": OTHERS_UPLOAD}
    return {"recency": recency(modified_at, now)}


def recency(modified_at: datetime | None, now: datetime) -> float:
    """Return the factor for a document modified then; 1 when that is unknown, long ago or in the future. Both times aware."""
    if modified_at is not None and modified_at <= now + AHEAD:
        for age, factor in STEPS:
            if now - modified_at < age:
                return factor
    return 1.0
