"""Failed sign-ins are limited per address: a wrong credential enters, a problem leaves once an address has sent too many.

A credential that was accepted before stays usable meanwhile, so nobody can lock out the other people behind a shared address.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator
from contextlib import contextmanager

from serving.access.limits import RateLimit
from serving.errors import ProblemError, UnauthorizedError
from serving.metrics import Metrics

_REMEMBERED = 10_000
WITHOUT = 10
"""Requests without any credential that one address may send, as a multiple of its failed sign-ins: they cost less to refuse."""
UNNAMED = 20
"""What programs on this machine, and clients of a trusted proxy that names none, may send together, as a multiple of one address's."""


class SignIns:
    """Counts failures by address and remembers hashes of accepted credentials, in this process's memory."""

    def __init__(self, per_minute: int, metrics: Metrics) -> None:
        self._per_minute = per_minute
        self._failures = RateLimit(per_minute)
        self._unnamed_failures = RateLimit(per_minute * UNNAMED)
        self._without = RateLimit(per_minute * WITHOUT)
        self._unnamed_without = RateLimit(per_minute * WITHOUT * UNNAMED)
        self._accepted: dict[bytes, None] = {}
        self._metrics = metrics

    @contextmanager
    def attempt(self, origin: str, credential: str) -> Generator[None]:
        """Check a credential in the block. Raises the problem `rate-limited` if the address has no attempt left.

        An attempt counts as failed until it succeeds, so attempts made at the same time cannot pass the limit. An empty `origin`
        stands for all clients whose address is not known, who share a larger limit.
        """
        failures = self._failures if origin else self._unnamed_failures
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = digest in self._accepted
        if not known:
            most = self._per_minute * (1 if origin else UNNAMED)
            self._take(failures, origin, f"{most} sign-ins a minute {_where(origin)} have failed. Check your token and")
        try:
            yield
        except UnauthorizedError:
            if known:  # expired or revoked since
                self._accepted.pop(digest, None)
                failures.take(origin)
            raise
        except BaseException:
            if not known:
                failures.give_back(origin)
            raise
        if not known:
            failures.give_back(origin)
            self._accepted[digest] = None
            if len(self._accepted) > _REMEMBERED:
                del self._accepted[next(iter(self._accepted))]

    def without_credential(self, origin: str) -> None:
        """Count a request that needs a credential and has none. Raises the problem `rate-limited` once there were too many."""
        most = self._per_minute * WITHOUT * (1 if origin else UNNAMED)
        limit = self._without if origin else self._unnamed_without
        self._take(limit, origin, f"{most} requests a minute {_where(origin)} had no token. Send one, and")

    def _take(self, limit: RateLimit, origin: str, what: str) -> None:
        wait = limit.take(origin)
        if wait > 0:
            self._metrics.rate_limited.inc()
            seconds = max(1, math.ceil(wait))
            detail = f"More than {what} try again in {seconds} s."
            raise ProblemError("rate-limited", detail, headers={"Retry-After": str(seconds)})


def _where(origin: str) -> str:
    return "from your address" if origin else "from this machine, or through a proxy that names no client,"
