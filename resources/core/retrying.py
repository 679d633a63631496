"""Retries of calls that fail temporarily.

Waits are 1 s, 5 s and 30 s unless the service names one, and none while a service is away. A rate limit is not a failure: the requested
time is waited out without using up an attempt. Repeated calls are counted, for alerts and for cost control.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from resources.core.errors import RateLimitedError, TemporaryError

T = TypeVar("T")

WAITS = (1.0, 5.0, 30.0)
"""Seconds before each retry of a temporary fault."""
RATE_LIMIT_WAITS = 50
"""A service that limits one call more often than this is considered down."""
OUTAGE = 3
"""Calls in a row that failed on every attempt, after which a service is taken to be away: each call has one attempt until one succeeds."""
LONGEST_WAIT = 600.0
"""If a service asks for a longer wait (seconds), the call is left to the next sync."""


class Tally:
    """Calls by method, the numbers of retries and of final failures, and the seconds that calls waited. Thread-safe."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.retries = 0
        self.gave_up = 0
        self.failed_in_a_row = 0
        self.waited = 0.0
        self._lock = threading.Lock()

    def call(self, method: str) -> None:
        with self._lock:
            self.calls[method] += 1

    def retried(self) -> None:
        """Count a call that is retried after a fault."""
        with self._lock:
            self.retries += 1

    def counting(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        """Return a `sleep` whose time counts as waited."""

        def wait(seconds: float) -> None:
            with self._lock:
                self.waited += seconds
            sleep(seconds)

        return wait

    def failed(self) -> None:
        """Count a call that failed on every attempt."""
        with self._lock:
            self.gave_up += 1
            self.failed_in_a_row += 1

    def succeeded(self) -> None:
        """Note that the service answers."""
        with self._lock:
            self.failed_in_a_row = 0


NO_CALLS = Tally()
"""Tally of sources that make no calls."""


def call_with_retry(
    action: Callable[[], T],
    tally: Tally,
    *,
    waits: Sequence[float] = WAITS,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what `action` returns, repeating it after `TemporaryError`; raises the last one when attempts are used up."""
    left = list(waits) if tally.failed_in_a_row < OUTAGE else []
    pause = tally.counting(sleep)
    limits = RATE_LIMIT_WAITS
    while True:
        try:
            result = action()
        except RateLimitedError as error:
            limits -= 1
            wait = error.retry_after if error.retry_after is not None else WAITS[0]
            if limits == 0 or wait > LONGEST_WAIT:
                tally.failed()
                raise
            pause(wait)
        except TemporaryError as error:
            if not left:
                tally.failed()
                raise
            wait = left.pop(0)
            tally.retried()
            pause(wait if error.retry_after is None else error.retry_after)
        else:
            tally.succeeded()
            return result
