"""Failed sign-ins are limited per address: a wrong credential enters, a problem leaves once an address has sent too many.

A credential that was accepted before stays usable meanwhile, so nobody can lock out the other people behind a shared address.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator
from contextlib import contextmanager

from serving.errors import ProblemError, UnauthorizedError
from serving.limits import RateLimit
from serving.metrics import Metrics

_REMEMBERED = 10_000


class SignIns:
    """Counts failures by address and remembers hashes of accepted credentials, in this process's memory."""

    def __init__(self, per_minute: int, metrics: Metrics) -> None:
        self._per_minute = per_minute
        self._failures = RateLimit(per_minute)
        self._accepted: dict[bytes, None] = {}
        self._metrics = metrics

    @contextmanager
    def attempt(self, origin: str, credential: str) -> Generator[None]:
        """Check a credential in the block. Raises the problem `rate-limited` if the address has no attempt left.

        An attempt counts as failed until it succeeds, so attempts made at the same time cannot pass the limit. An empty `origin`
        is not limited.
        """
        if not origin:
            yield
            return
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = digest in self._accepted
        if not known:
            self._take(origin)
        try:
            yield
        except UnauthorizedError:
            if known:  # expired or revoked since
                self._accepted.pop(digest, None)
                self._failures.take(origin)
            raise
        except BaseException:
            if not known:
                self._failures.give_back(origin)
            raise
        if not known:
            self._failures.give_back(origin)
            self._accepted[digest] = None
            if len(self._accepted) > _REMEMBERED:
                del self._accepted[next(iter(self._accepted))]

    def _take(self, origin: str) -> None:
        wait = self._failures.take(origin)
        if wait > 0:
            self._metrics.rate_limited.inc()
            seconds = max(1, math.ceil(wait))
            detail = (
                f"More than {self._per_minute} sign-ins a minute from your address have failed. "
                f"Check your token and try again in {seconds} s."
            )
            raise ProblemError("rate-limited", detail, headers={"Retry-After": str(seconds)})
