"""A connection on which every transaction that writes first checks the fence of a lease."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import Composable

from resources.core.errors import LostLeaseError
from resources.stores import leases
from resources.stores.postgres import connect_as, postgres_errors, undeadlocked

if TYPE_CHECKING:
    from typing import Self

    from psycopg.abc import Params, PQGen, QueryNoTemplate

    from resources.stores.leases import Lease

_WRITES = re.compile(rb"\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|setval|nextval)\b", re.IGNORECASE)
"""What a statement that writes contains. One that only locks rows counts as writing, too, which costs a round trip."""
CANCEL_SECONDS = 5.0
T = TypeVar("T")


class FencedCursor(psycopg.Cursor[dict[str, Any]]):
    """A cursor that puts a single statement that writes into a transaction with the check, and repeats it after a deadlock."""

    def execute(  # pyright: ignore[reportIncompatibleMethodOverride] (the other overload is for the templates of Python 3.14)
        self,
        query: QueryNoTemplate,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        connection = self.connection
        if isinstance(connection, FencedConnection) and connection.lease is not None and _writes(query):
            with connection.single:
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    return undeadlocked(partial(self._alone, connection, query, params, prepare=prepare, binary=binary))
        return super().execute(query, params, prepare=prepare, binary=binary)

    def _alone(self, connection: FencedConnection, query: QueryNoTemplate, params: Params | None, **named: Any) -> Self:
        with connection.transaction():
            return super().execute(query, params, **named)


class FencedConnection(psycopg.Connection[dict[str, Any]]):
    """A connection in autocommit mode. Its writing transactions raise `LostLeaseError` once its lease has been claimed by another."""

    lease: Lease | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.single = threading.RLock()
        """Held for a single statement that writes: threads that fetch contents share the connection."""

    def wait(self, gen: PQGen[T], *given: Any, **named: Any) -> T:  # pyright: ignore[reportIncompatibleMethodOverride] (passed on)
        """Wait for an answer. An interruption of Dagster's cancels the statement, as psycopg does after Ctrl-C: the connection can then be
        used to close the job.
        """
        try:
            return super().wait(gen, *given, **named)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException:
            if self.info.transaction_status == TransactionStatus.ACTIVE:
                self._cancel(gen)
            raise

    def _cancel(self, gen: PQGen[Any]) -> None:
        """End the statement that is waited for, or the connection if the server does not answer."""
        try:
            self.cancel_safe(timeout=CANCEL_SECONDS)
            with suppress(psycopg.errors.QueryCanceled):
                super().wait(gen, timeout=CANCEL_SECONDS)
        except psycopg.Error:
            self.close()

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Generator[psycopg.Transaction]:
        outermost = self.info.transaction_status == TransactionStatus.IDLE
        try:
            with super().transaction(savepoint_name, force_rollback) as transaction:
                if outermost and self.lease is not None:
                    self.lease.check(self)
                yield transaction
        except psycopg.errors.IdleInTransactionSessionTimeout as error:
            raise LostLeaseError(
                f"Postgres has ended what this process was writing, because it was paused for more than {leases.IDLE_SECONDS} s. "
                "Nothing is lost: a sync continues by itself, any other command has to be run again."
            ) from error


def connect_fenced(dsn: str, lease: Lease) -> FencedConnection:
    """Open a connection in autocommit mode whose rows are dicts. Raises `ServiceUnavailableError` if Postgres does not answer."""
    connection = connect_as(FencedConnection, dsn, autocommit=True, cursors=FencedCursor)
    connection.lease = lease
    return connection


@contextmanager
def fenced_session(dsn: str, lease: Lease) -> Generator[FencedConnection]:
    """Open such a connection for a block, and close it. Raises `ServiceUnavailableError` if Postgres stops answering."""
    with closing(connect_fenced(dsn, lease)) as connection, postgres_errors():
        yield connection


def _writes(query: QueryNoTemplate) -> bool:
    if isinstance(query, Composable):
        return True
    return _text_writes(query if isinstance(query, bytes) else str(query).encode())


@lru_cache(maxsize=512)
def _text_writes(text: bytes) -> bool:
    return _WRITES.search(text) is not None
