"""Connections to Postgres for pipeline code, with rows as dicts.

The serving app has its own asynchronous pool; both map an unreachable server to `ServiceUnavailableError`.
"""

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from threading import Timer
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.types.datetime import TimestamptzLoader

from resources.core.errors import ServiceUnavailableError, StorageFullError
from resources.logging import logger

Connection: TypeAlias = psycopg.Connection[dict[str, Any]]
C = TypeVar("C", bound=Connection)
T = TypeVar("T")

CONNECT_SECONDS = 10
DEADLOCK_PAUSES = (0.1, 0.5, 2.0)
"""Seconds before a transaction is repeated, so that the other one, which was waiting, goes first."""
READ_ONLY = "Postgres accepts no writes now: it is a standby, or its provider has made it read-only."

log = logger("postgres")


_TIMESTAMPTZ = psycopg.adapters.types["timestamptz"].oid
_FAST_LOADER = psycopg.adapters.get_loader(_TIMESTAMPTZ, Format.TEXT) or TimestamptzLoader


class UtcLoader(Loader):
    """Loads times in UTC, whatever the time zone of the session is: psycopg's own loader, which is compiled, gives that of the session."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._load = _FAST_LOADER(oid, context).load

    def load(self, data: Buffer) -> datetime:
        return self._load(data).astimezone(UTC)


psycopg.adapters.register_loader("timestamptz", UtcLoader)


def said(error: psycopg.Error) -> str:
    """Return what libpq says as a sentence: others may follow it."""
    text = str(error).strip()
    return text if text.endswith((".", "?")) else f"{text}."


def connect(dsn: str, *, autocommit: bool = False) -> Connection:
    """Open a connection whose rows are dicts. Raises `ServiceUnavailableError` if Postgres does not answer."""
    return connect_as(psycopg.Connection[dict[str, Any]], dsn, autocommit=autocommit)


def connect_as(
    kind: type[C], dsn: str, *, autocommit: bool, cursors: type[psycopg.Cursor[dict[str, Any]]] | None = None
) -> C:
    """Open a connection of this class, with cursors of another, as `connect` does.

    Statements are not prepared: a pool of server connections (PgBouncer) would mix up those of its clients.
    """
    try:
        return kind.connect(
            dsn,
            autocommit=autocommit,
            prepare_threshold=None,
            row_factory=dict_row,
            cursor_factory=cursors,
            connect_timeout=CONNECT_SECONDS,
            application_name="concordance",
        )
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres does not answer: {said(error)}") from error


@contextmanager
def postgres_errors() -> Generator[None]:
    """Map errors of the server within a block: it has no room, accepts no writes, or stops answering."""
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise StorageFullError("The disk of Postgres is full: free some space, then try again.") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ServiceUnavailableError(READ_ONLY) from error
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres stopped answering: {said(error)}") from error


def undeadlocked(work: Callable[[], T]) -> T:
    """Return what a whole transaction returns, repeated if Postgres ended it because it and another waited for each other."""
    for seconds in DEADLOCK_PAUSES:
        try:
            return work()
        except psycopg.errors.DeadlockDetected as error:
            log.warning("deadlock", reason=said(error))
            time.sleep(seconds)
    return work()


def hang_up(*connections: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Close the sockets of connections. Code waiting on one gets an `OperationalError` at once, whatever the server does."""
    for connection in connections:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def session(dsn: str, *, autocommit: bool = False, seconds: float | None = None) -> Generator[Connection]:
    """Open a connection for a block: committed at its end, rolled back on an error, closed either way.

    With `seconds`, the block fails with `ServiceUnavailableError` once it has waited longer than that for Postgres.
    """
    connection = connect(dsn, autocommit=autocommit)
    limit = Timer(seconds, hang_up, [connection]) if seconds is not None else None
    if limit is not None:
        limit.daemon = True
        limit.start()
    try:
        with postgres_errors(), connection:
            yield connection
    finally:
        if limit is not None:
            limit.cancel()
