"""A deadline, and a pause after it passed, for calls to services without a cheap ping: embeddings, Dagster, the object store.

A client library limits each read, not the whole call, and tries again by itself, so that a service that hangs can hold a caller
for minutes. `Breaker.call` gives up after a time of ours; from then on it refuses calls at once, until the pause is over and one
call is let through to try. `resources.watch` does the same for Postgres and the vector server, which answer a ping.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from resources.core.errors import ServiceUnavailableError

REST_SECONDS = 15.0
"""How long a service that hung is left alone."""

T = TypeVar("T")


class UnresponsiveError(ServiceUnavailableError):
    """A call took longer than its deadline, or is not made because one just did."""


class Breaker:
    """Guards the calls to one service. Thread-safe. Without `rest` it only keeps the deadline."""

    def __init__(
        self, service: str, *, rest: float = REST_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._rest = rest
        self._clock = clock
        self._lock = threading.Lock()
        self._resting_until: float | None = None

    def call(self, action: Callable[[], T], seconds: float) -> T:
        """Return what `action` returns; it runs in a thread of its own. Raises what it raises, and `UnresponsiveError`.

        An error that comes in time is an answer, and ends the pause.
        """
        self._enter(seconds)
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:  # noqa: BLE001 (handed to the caller as it is)
                done.set_exception(error)

        # A daemon: a call that hangs would otherwise keep the process from ending.
        threading.Thread(target=run, name=f"call-{self._service}", daemon=True).start()
        try:
            error = done.exception(seconds)
        except TimeoutError:
            self._set(self._clock() + self._rest if self._rest else None)
            raise UnresponsiveError(
                f"{self._service} did not answer within {seconds:g} s.", self._rest or None
            ) from None
        self._set(None)
        if error is not None:
            raise error
        return done.result()

    def _enter(self, seconds: float) -> None:
        with self._lock:
            if self._resting_until is None:
                return
            left = self._resting_until - self._clock()
            if left > 0:
                raise UnresponsiveError(
                    f"{self._service} did not answer a moment ago. It is asked again in {left:.0f} s.", left
                )
            self._resting_until = self._clock() + seconds  # others wait for what comes of this call

    def _set(self, resting_until: float | None) -> None:
        with self._lock:
            self._resting_until = resting_until
