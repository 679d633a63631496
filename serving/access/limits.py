"""An in-memory rate limit per caller."""

import time
from collections.abc import Callable

_MAX_BUCKETS = 10_000


class RateLimit:
    """A token bucket for each caller (an email or an address), holding `per_minute` tokens and refilled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        now = self._clock()
        left, since = self._buckets.pop(caller, (self._capacity, now))
        left = min(self._capacity, left + (now - since) * self._rate)
        granted = left >= 1
        self._buckets[caller] = (left - 1 if granted else left, now)
        if len(self._buckets) > _MAX_BUCKETS:  # the least recently used has refilled most
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if granted else (1 - left) / self._rate

    def give_back(self, caller: str) -> None:
        if caller in self._buckets:
            left, since = self._buckets[caller]
            self._buckets[caller] = (left + 1, since)
