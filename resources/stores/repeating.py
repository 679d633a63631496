"""Repeat requests to the vector index while a node of it is away, for as long as it takes to start it again.

Only work in the background repeats, such as syncs; searches answer without the index instead. Every repetition first makes sure that
the process still has its lease, so that it never writes what another process has taken over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import httpx
from qdrant_client.http.exceptions import ResponseHandlingException

from resources.core.errors import ServiceUnavailableError
from resources.logging import logger

REPEATED_SECONDS = 60.0
"""How long after its first fault a request is repeated."""
WAITS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each repetition; the last one again and again."""
AWAY = frozenset({502, 503, 504})
"""Statuses of a proxy, or of a node, that cannot reach what should answer."""
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout)
_UNSENDABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)

_once: ContextVar[bool] = ContextVar("once", default=False)

T = TypeVar("T")

log = logger("index")


@contextmanager
def once() -> Generator[None]:
    """Repeat nothing within the block: it holds locks that others wait for."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


class Repeating:
    """Repeats requests after a refused or broken connection, a timeout, and statuses in `AWAY`."""

    def __init__(
        self,
        confirm: Callable[[], None] = lambda: None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`confirm` is called before each repetition and raises if this process may no longer write."""
        self._confirm = confirm
        self._sleep = sleep
        self._clock = clock

    def middleware(self, request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
        """Send a request until it is answered. A middleware of qdrant-client.

        What may have been done already is repeated only if doing it twice is the same as doing it once.
        """
        pauses, idempotent = self._pauses(), _is_idempotent(request)
        while True:
            try:
                answer = send(request)
            except ResponseHandlingException as error:
                fault = error.source
                repeatable = isinstance(fault, httpx.TransportError) and not isinstance(fault, _UNSENDABLE)
                if not (repeatable and (idempotent or isinstance(fault, _UNSENT))) or not self._waited(pauses, fault):
                    raise
            else:
                if answer.status_code not in AWAY or not idempotent or not self._waited(pauses, answer):
                    return answer

    def call(self, action: Callable[[], T]) -> T:
        """Return what an idempotent action returns, repeated while it raises `ServiceUnavailableError`."""
        pauses = self._pauses()
        while True:
            try:
                return action()
            except ServiceUnavailableError as error:
                if not self._waited(pauses, error):
                    raise

    def _waited(self, pauses: Iterator[float], fault: object) -> bool:
        """Wait before the next repetition; return False if there is none."""
        pause = None if _once.get() else next(pauses, None)
        if pause is None:
            return False
        log.warning("index_away", fault=str(fault) or type(fault).__name__, seconds=pause)
        self._sleep(pause)
        self._confirm()
        return True

    def _pauses(self) -> Iterator[float]:
        last = self._clock() + REPEATED_SECONDS  # evaluated after the first fault
        for number in range(1_000_000):
            pause = WAITS[min(number, len(WAITS) - 1)]
            if self._clock() + pause > last:
                return
            yield pause


def _is_idempotent(request: httpx.Request) -> bool:
    """Return True for every request but the creation of a collection, which is refused if the collection exists."""
    if request.method != "PUT":
        return True
    _, _, path = request.url.path.rpartition("/collections/")
    return "/" in path.strip("/")
