"""A circuit breaker with a deadline for calls to services without a cheap ping: embeddings, language models, Dagster, the object store.

Client libraries limit each read instead of the whole call, and retry, so that a hung service can block a caller for minutes. After a
call exceeds its deadline, calls are refused for a rest period; then one call is let through as a trial. With `faults`, the same happens
after so many calls in a row that failed. `resources.watch` does the same for Postgres and the vector server, which have a ping.

`call` runs a blocking call. A caller that keeps its own deadline, such as a coroutine, reports instead: `enter`, then one of
`succeeded`, `failed` and `left`.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from resources.core.errors import ServiceUnavailableError

REST_SECONDS = 15.0
"""Rest period after a call that exceeded its deadline."""

T = TypeVar("T")


class UnresponsiveError(ServiceUnavailableError):
    """A call exceeded its deadline, or is refused during the rest period."""


class RestingError(UnresponsiveError):
    """A call is refused during the rest period."""


class Breaker:
    """Guards the calls to one service. Thread-safe. Without `rest` it only enforces the deadline."""

    def __init__(
        self,
        service: str,
        *,
        rest: float = REST_SECONDS,
        faults: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`faults` counts `ServiceUnavailableError`s, but for those that say when to try again."""
        self._service = service
        self._rest = rest
        self._most_faults = faults
        self._faults = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._resting_until: float | None = None

    def call(self, action: Callable[[], T], seconds: float) -> T:
        """Run `action` in its own thread and return its result. Raises its errors, and `UnresponsiveError`.

        An error within the deadline counts as a response and ends the rest period, unless there were `faults` in a row.
        """
        self.enter(seconds)
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:  # noqa: BLE001 (handed to the caller as it is)
                done.set_exception(error)

        # A daemon thread, so that a hung call does not keep the process from exiting.
        threading.Thread(target=run, name=f"call-{self._service}", daemon=True).start()
        try:
            error = done.exception(seconds)
        except TimeoutError:
            self.failed()
            raise UnresponsiveError(
                f"{self._service} did not answer within {seconds:g} s.", self._rest or None
            ) from None
        failed = isinstance(error, ServiceUnavailableError) and error.retry_after is None
        self._faults = self._faults + 1 if failed else 0
        if self._most_faults is not None and self._faults >= self._most_faults:
            self.failed()
        else:
            self.succeeded()
        if error is not None:
            raise error
        return done.result()

    def check(self) -> None:
        """Raise `RestingError` during the rest period."""
        with self._lock:
            self._refuse()

    def enter(self, seconds: float) -> bool:
        """Return True if the call is the trial after a rest period. Raises `RestingError` during it, and while a trial runs."""
        with self._lock:
            self._refuse()
            trial = self._resting_until is not None
            if trial:
                self._resting_until = self._clock() + seconds  # other calls are refused during this trial
            return trial

    def succeeded(self) -> None:
        """End the rest period."""
        self._set(None)

    def failed(self) -> None:
        """Begin a rest period."""
        self._set(self._clock() + self._rest if self._rest else None)

    def left(self) -> None:
        """Let the next call be the trial, because this one was given up before it ended."""
        self._set(self._clock())

    def _refuse(self) -> None:
        left = 0.0 if self._resting_until is None else self._resting_until - self._clock()
        if left > 0:
            raise RestingError(
                f"{self._service} did not answer or failed a moment ago. It is retried in {left:.0f} s.", left
            )

    def _set(self, resting_until: float | None) -> None:
        with self._lock:
            self._resting_until = resting_until
