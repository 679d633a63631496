"""One rate limit per method of Slack's Web API, shared by every thread and channel, and with Postgres by every process.

A call waits as long as a 429 demanded for its method, whichever thread received it; and, at Slack's own address, it keeps to
the rate that the method's tier guarantees, so that a long listing rarely gets a 429 at all.
"""

import threading
import time
from collections.abc import Callable, Mapping

from resources.rates import Rate, bucket
from resources.rates.pace import SharedPace

PER_MINUTE: Mapping[str, int] = {
    "chat.postEphemeral": 100,
    "chat.postMessage": 60,
    "chat.update": 50,
    "conversations.info": 50,
    "conversations.history": 50,
    "conversations.list": 20,
    "conversations.members": 100,
    "conversations.replies": 50,
    "files.info": 100,
    "usergroups.list": 20,
    "users.info": 100,
    "users.list": 20,
}
"""Calls per minute: tier 2 guarantees 20, tier 3 50, tier 4 100; a channel takes a message a second. An app sold outside Slack's
Marketplace has 1 for history and replies; it is slowed by the 429s. Source: https://docs.slack.dev/apis/web-api/rate-limits and each
method's page."""
BURST = 10
"""Calls that may be made at once after a quiet time: "bursts are welcome" on that page, without a number."""


class RateLimiter:
    """Limits the rate of calls of each method. Thread-safe. `timer` is a monotonic clock in seconds."""

    def __init__(
        self,
        per_minute: Mapping[str, int] | None = None,
        *,
        timer: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        pace: SharedPace | None = None,
        token: str = "",
    ) -> None:
        """`pace` is that of all processes that call with this token, which belongs to one app in one workspace."""
        self._per_minute = per_minute or {}
        self._pace = pace
        self._token = token
        self._timer = timer
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free: dict[str, float] = {}
        self._blocked: dict[str, float] = {}

    def wait(self, method: str) -> None:
        """Block until a call of the method may be made."""
        while (seconds := self._turn(method)) > 0:
            self._sleep(seconds)
        while (seconds := self._shared_turn(method)) > 0:
            self._sleep(seconds)

    def block(self, method: str, seconds: float) -> None:
        """Let no call of the method be made for some seconds."""
        with self._lock:
            until = self._timer() + seconds
            self._blocked[method] = max(until, self._blocked.get(method, until))
        if self._pace is not None and method in self._per_minute:
            self._pace.block(self._bucket(method), self._rate(method), seconds)

    def _shared_turn(self, method: str) -> float:
        """Take a turn of all processes and return 0, or return the seconds until one is possible."""
        if self._pace is None or method not in self._per_minute:
            return 0.0
        return self._pace.take(self._bucket(method), self._rate(method))

    def _rate(self, method: str) -> Rate:
        return Rate(BURST, self._per_minute[method] / 60)

    def _bucket(self, method: str) -> bytes:
        return bucket(self._token, "slack", method)

    def _turn(self, method: str) -> float:
        """Reserve a call and return 0, or return the seconds until one is possible."""
        with self._lock:
            now = self._timer()
            blocked = self._blocked.get(method, now) - now
            if blocked > 0:
                return blocked
            rate = self._per_minute.get(method)
            if rate is None:
                return 0.0
            # `free` is when the last call would be due at an even rate; it may be ahead of now by a burst
            free = max(self._free.get(method, 0.0), now - 60.0 / rate * BURST)
            if free > now:
                return free - now
            self._free[method] = free + 60.0 / rate
            return 0.0
