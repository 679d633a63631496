"""Rate limit a person: an email enters, the seconds to wait leave (0: go ahead)."""

from __future__ import annotations

import time
from collections.abc import Callable

_PEOPLE = 10_000


class RateLimit:
    """A token bucket a person, in this process's memory: `per_minute` at once, then refilled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, email: str) -> float:
        """Take one turn and return 0, or the seconds until there is one."""
        now = self._clock()
        left, since = self._buckets.get(email, (self._capacity, now))
        left = min(self._capacity, left + (now - since) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        if len(self._buckets) >= _PEOPLE:
            self._forget_full(now)
        self._buckets[email] = (left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        self._buckets = {
            email: (left, since)
            for email, (left, since) in self._buckets.items()
            if left + (now - since) * self._rate < self._capacity
        }
