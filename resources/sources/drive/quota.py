"""Google's quota of calls, per project and per user of it, kept by all processes that use one database."""

from __future__ import annotations

import time
from collections.abc import Callable

from resources.rates import Rate, bucket
from resources.rates.pace import SharedPace

BURST_SECONDS = 10
"""A quiet time lets as many calls be made at once as are allowed in these seconds. What a minute allows is reduced by that much, so that
no minute has more calls than Google counts."""


class CallQuota:
    """Waits until a project and one of its users may call. Thread-safe."""

    def __init__(
        self, pace: SharedPace, api: str, per_minute: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`api` is the name of the API, each of which has a quota of its own."""
        burst = max(1, per_minute * BURST_SECONDS // 60)
        self._rate = Rate(burst, (per_minute - burst) / 60)
        self._pace = pace
        self._api = api
        self._sleep = sleep

    def wait(self, project: str, user: str, calls: int = 1) -> None:
        """Block until these calls may be made."""
        for name in self._buckets(project, user):
            for _ in range(calls):
                while (seconds := self._pace.take(name, self._rate)) > 0:
                    self._sleep(seconds)

    def block(self, project: str, user: str, seconds: float) -> None:
        """Let no calls be made for some seconds."""
        for name in self._buckets(project, user):
            self._pace.block(name, self._rate, seconds)

    def _buckets(self, project: str, user: str) -> tuple[bytes, bytes]:
        return bucket(project, "google", self._api), bucket(project, "google", self._api, user)
