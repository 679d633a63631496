"""The pace of calls to other services, kept by all processes that use one database.

Without Postgres, and while it does not answer, each process keeps its own pace.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from resources.core.errors import ServiceUnavailableError
from resources.logging import logger
from resources.rates import Rate
from resources.rates.ahead import TakenAhead
from resources.stores.postgres import Connection, connect, hang_up
from sql.rates import SharedRates

DEADLINE_SECONDS = 1.0
PAUSE_SECONDS = 10.0
"""After a failure each process keeps its own pace this long."""
CONNECT_SECONDS = 2

_T = TypeVar("_T")

log = logger("sync")


class SharedPace:
    """Token buckets of calls in one Postgres, on a connection of its own. Thread-safe."""

    def __init__(self, dsn: str) -> None:
        self._dsn = make_conninfo(dsn, connect_timeout=CONNECT_SECONDS)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._paused_until = float("-inf")
        self._shares: dict[Rate, TakenAhead] = {}

    def take(self, bucket: bytes, rate: Rate) -> float:
        """Take a token and return 0, or return the seconds until there may be one. Returns 0 while Postgres does not answer."""
        with self._lock:
            shares = self._shares.setdefault(rate, TakenAhead(rate.most, time.monotonic))
            kept = shares.take(bucket)
            if kept is not None:
                return kept
            order = shares.order(bucket)
            taken = self._ask(
                lambda rates: rates.take(
                    bucket=bucket,
                    most=rate.most,
                    a_second=rate.a_second,
                    wanted=order.wanted,
                    returned=order.returned,
                )
            )
            if taken is None:
                shares.failed(bucket)
                return 0.0
            return shares.took(bucket, taken.granted, taken.seconds)

    def block(self, bucket: bytes, rate: Rate, seconds: float) -> None:
        """Let no process take a token for some seconds, except those that it has taken in advance."""
        with self._lock:
            self._shares.pop(rate, None)
            self._ask(lambda rates: rates.block(bucket=bucket, most=rate.most, a_second=rate.a_second, seconds=seconds))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask(self, statement: Callable[[SharedRates], _T]) -> _T | None:
        """Return the statement's result, or None if Postgres does not answer in time."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._dsn, autocommit=True)
            limit = threading.Timer(DEADLINE_SECONDS, hang_up, [self._connection])
            limit.daemon = True
            limit.start()
            try:
                return statement(SharedRates(self._connection))
            finally:
                limit.cancel()
        except (psycopg.Error, ServiceUnavailableError) as error:
            log.warning("pace_not_shared", seconds=PAUSE_SECONDS, reason=str(error).strip())
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            return None


@lru_cache(maxsize=4)
def shared_pace(dsn: str) -> SharedPace:
    """Return the pace of this process and all others that use this database."""
    return SharedPace(dsn)
