"""A limit on failed sign-ins per address.

A credential that was accepted before remains usable, so an attacker cannot lock out other users behind the same address.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from resources.servers.shared import Shared
from serving.http.errors import UnauthorizedError, rate_limited
from serving.http.metrics import Metrics
from serving.http.rate_limit import CallerLimit, CallerLimits, RateLimit, Recent

MISSING_FACTOR = 10
"""Limits of requests without a credential, and with the cookie of a session that is over, as multiples of the limit of failed sign-ins:
nothing can be guessed with the former, and nobody guesses a cookie."""
UNKNOWN_FACTOR = 20
"""Common limit of all clients of unknown address (on this machine, or behind a proxy that names none), as a multiple of one address's."""


class SignIns:
    """Counts failures by address for all machines, and remembers digests of accepted credentials for all processes of one."""

    def __init__(self, per_minute: int, metrics: Metrics, shared: Shared, limits: CallerLimits | None = None) -> None:
        self._per_minute = per_minute
        limits = limits or CallerLimits(shared)
        self._failures = limits.limit(per_minute, "sign-ins")
        self._unknown_failures = limits.limit(per_minute * UNKNOWN_FACTOR, "sign-ins, unknown")
        self._missing = limits.limit(per_minute * MISSING_FACTOR, "no token")
        self._unknown_missing = limits.limit(per_minute * MISSING_FACTOR * UNKNOWN_FACTOR, "no token, unknown")
        self._over = limits.limit(per_minute * MISSING_FACTOR, "sessions")
        self._unknown_over = limits.limit(per_minute * MISSING_FACTOR * UNKNOWN_FACTOR, "sessions, unknown")
        self._accepted = Recent(shared, "accepted")
        self._noted = RateLimit(1, shared, "sign-ins, noted")
        self._metrics = metrics

    @asynccontextmanager
    async def attempt(self, origin: str, credential: str, *, session: bool = False) -> AsyncGenerator[None]:
        """Context in which a credential is verified. Raises the problem `rate-limited` if the address has no attempt left.

        An attempt counts as failed until it succeeds, so concurrent attempts cannot pass the limit. An empty `origin`
        stands for all clients of unknown address, who share a larger limit. Cookies of a `session` have a larger limit of their own: those
        of a whole office are over in the morning.
        """
        if session:
            factor, failures = MISSING_FACTOR, self._over if origin else self._unknown_over
            what, advice = "requests", "had a session that is over. Sign in again: /sign-in."
        else:
            factor, failures = 1, self._failures if origin else self._unknown_failures
            what, advice = "sign-ins", "have failed. Check your token."
        key = self._accepted.key(credential)
        with self._accepted.lock:
            known = self._accepted.get(key) is not None
            if known:
                self._accepted.put(key, 0.0, time.monotonic())
        if not known:
            most = self._per_minute * factor * (1 if origin else UNKNOWN_FACTOR)
            await self._take(failures, origin, f"{most} {what} a minute {_where(origin)} {advice}")
        try:
            yield
        except UnauthorizedError:
            if known:  # it has expired or was revoked
                with self._accepted.lock:
                    self._accepted.remove(key)
                await failures.take(origin)
            raise
        except BaseException:
            if not known:
                failures.give_back(origin)
            raise
        if not known:
            failures.give_back(origin)
            with self._accepted.lock:
                self._accepted.put(key, 0.0, time.monotonic())

    def first_refusal(self, origin: str) -> bool:
        """Return True once a minute for each address, so that blocked sign-ins do not fill the audit log."""
        return self._noted.take(origin) == 0

    async def without_credential(self, origin: str) -> None:
        """Count a request that lacks the required credential. Raises the problem `rate-limited` past the limit."""
        most = self._per_minute * MISSING_FACTOR * (1 if origin else UNKNOWN_FACTOR)
        limit = self._missing if origin else self._unknown_missing
        await self._take(limit, origin, f"{most} requests a minute {_where(origin)} had no token. Send one.")

    async def _take(self, limit: CallerLimit, origin: str, what: str) -> None:
        wait = await limit.take(origin)
        if wait > 0:
            self._metrics.rate_limited.inc()
            raise rate_limited(f"More than {what}", wait)


def _where(origin: str) -> str:
    return "from your address" if origin else "from this machine, or through a proxy that names no client,"
