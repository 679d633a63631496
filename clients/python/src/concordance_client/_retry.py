"""When a call is sent again, and after how long."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from concordance_client.errors import ConcordanceError, ProblemError, RateLimitedError, ResponseError, UnreachableError

TEMPORARY = {408, 502, 503, 504}
"""Statuses after which the same request may succeed."""
NOT_STARTED = {"too-many-connections", "too-many-in-progress"}
"""Problems of requests that were refused before anything was done. `overloaded` may also come in the middle."""


@dataclass(frozen=True)
class Retries:
    """How often and how patiently calls are repeated.

    Calls that only read, or that have the same result when sent twice, are repeated after a broken connection and after 408, 502, 503
    and 504. All others are repeated only if nothing was done: the connection was not made, or the service took no more
    requests (429, too many connections or requests in progress).
    """

    attempts: int = 4
    """Requests of a call at most, the first included."""
    first: float = 0.5
    """Seconds before the second request; doubled each time, less a random part of up to a half. `Retry-After` takes precedence."""
    longest: float = 8.0
    """Seconds between two requests at most, without `Retry-After`."""
    chance: Callable[[], float] = random.random

    def pause(self, attempt: int, error: ConcordanceError, *, repeatable: bool) -> float | None:
        """Return the seconds before the next request after the failed `attempt`, counted from 1; None if there is none."""
        if attempt >= self.attempts or not _may_repeat(error, repeatable=repeatable):
            return None
        if isinstance(error, ProblemError) and error.retry_after is not None:
            return error.retry_after
        return min(self.longest, self.first * 2 ** (attempt - 1)) * (1 - self.chance() / 2)


def _may_repeat(error: ConcordanceError, *, repeatable: bool) -> bool:
    match error:
        case RateLimitedError():
            return True
        case UnreachableError():
            return repeatable or not error.sent
        case ProblemError():
            return error.kind in NOT_STARTED or (repeatable and error.status in TEMPORARY)
        case ResponseError():
            return repeatable and error.status in TEMPORARY
        case _:
            return False


def seconds_of(retry_after: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header: a number or a date. None without one that can be read."""
    if retry_after is None:
        return None
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    # A date in HTTP is in UTC, also in the form that names no zone.
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
