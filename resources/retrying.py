"""Trying again: an action that may fail for the moment enters, its result leaves, or the error once patience is used up.

Waits are those of the requirement (1 s, 5 s, 30 s) unless the service names one. A rate limit is no failure: it is waited out
as told. How often that happened is counted, for alerts and for whoever pays the calls.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from resources.errors import RateLimitedError, RetryLaterError

T = TypeVar("T")

WAITS = (1.0, 5.0, 30.0)
"""Seconds before trying a passing fault again."""
RATE_LIMIT_WAITS = 50
"""A service that sends us away more often than this for one call is taken to be down."""
LONGEST_WAIT = 600.0
"""A service that asks for more seconds than this is left alone until the next sync."""


class Tally:
    """Calls by method, and what became of those that had to be repeated. Thread-safe."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.retries = 0
        self.gave_up = 0
        self._lock = threading.Lock()

    def call(self, method: str) -> None:
        """Count one call that goes over the wire."""
        with self._lock:
            self.calls[method] += 1

    def retried(self) -> None:
        """Count a call that is tried again after a fault."""
        with self._lock:
            self.retries += 1

    def failed(self) -> None:
        """Count a call whose every repetition failed."""
        with self._lock:
            self.gave_up += 1


NO_CALLS = Tally()
"""Of sources that call nothing."""


def patiently(
    action: Callable[[], T],
    tally: Tally,
    *,
    waits: Sequence[float] = WAITS,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what `action` returns, repeating it after `RetryLaterError`; raises the last one when patience is used up."""
    left = list(waits)
    limits = RATE_LIMIT_WAITS
    while True:
        try:
            return action()
        except RateLimitedError as error:
            limits -= 1
            wait = error.retry_after if error.retry_after is not None else WAITS[0]
            if limits == 0 or wait > LONGEST_WAIT:
                tally.failed()
                raise
            sleep(wait)
        except RetryLaterError as error:
            if not left:
                tally.failed()
                raise
            wait = left.pop(0)
            tally.retried()
            sleep(wait if error.retry_after is None else error.retry_after)
