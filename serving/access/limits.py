"""Rate limits: who asks enters (an email or an address), the seconds to wait leave (0: go ahead)."""

from __future__ import annotations

import time
from collections.abc import Callable

_PEOPLE = 10_000


class RateLimit:
    """A token bucket for each caller, in this process's memory: `per_minute` at once, then refilled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> float:
        """Take one turn and return 0, or the seconds until there is one."""
        now = self._clock()
        left, since = self._buckets.pop(who, (self._capacity, now))
        left = min(self._capacity, left + (now - since) * self._rate)
        granted = left >= 1
        self._buckets[who] = (left - 1 if granted else left, now)
        if len(self._buckets) > _PEOPLE:  # the one that was used the longest time ago has refilled most
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if granted else (1 - left) / self._rate

    def give_back(self, who: str) -> None:
        """Undo a turn that was taken."""
        if who in self._buckets:
            left, since = self._buckets[who]
            self._buckets[who] = (left + 1, since)
