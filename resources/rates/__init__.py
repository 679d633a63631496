"""Limits and rates that all processes share: token buckets in Postgres, which its own clock refills (`sql/rates.sql`).

A process takes tokens in advance where it uses many (`TakenAhead`). Without Postgres each process falls back on limits of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

DAY_SECONDS = 24 * 60 * 60


class Rate(NamedTuple):
    """What a bucket holds at most, and what it gets a second."""

    most: float
    a_second: float

    @classmethod
    def within(cls, most: int, seconds: float) -> Rate:
        """Return the rate of a limit that is used up at once or evenly within some seconds."""
        return cls(most, most / seconds)


def bucket(key: str, *named: str) -> bytes:
    """Return the name of a bucket: a digest from which nobody who lacks the key learns whom it limits."""
    return hmac.digest(key.encode(), "\n".join(named).encode("utf-8", "surrogatepass"), hashlib.sha256)[:16]
