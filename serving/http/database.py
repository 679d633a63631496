"""Pooled access to Postgres, which runs the statements of `sql.serving`.

Three failures are distinguished. `RegistryDownError`: no connection can be made for a while (see `resources.watch`), so searches may
fall back on the index. `OverloadedError`: Postgres answers, but the pool is exhausted or the statement took too long; the caller
should retry, and no weaker check is used. `ServiceUnavailableError`: it accepts no writes, as while servers change their roles; what only
reads goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from resources.core.errors import InvalidRequestError, OverloadedError, ServiceUnavailableError, StorageFullError
from resources.logging import logger
from resources.stores.postgres import DEADLOCK_PAUSES, READ_ONLY, Connection, hang_up, said, session, undeadlocked
from resources.watch import Call, Watch
from serving.http.threads import Threads
from sql import statement
from sql.family import Declared

WAIT_SECONDS = 2.0
"""Longest wait for a pooled connection."""
STATEMENT_SECONDS = 10.0
"""Longest time for a statement, which is then cancelled from here: PgBouncer accepts no `statement_timeout` of a client."""
CALL_SECONDS = STATEMENT_SECONDS + 2
"""After this the client disconnects: a server that hangs cancels nothing."""
PING_SECONDS = 2
RETRY_AFTER_SECONDS = 2.0
NETWORK = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Lets the kernel detect a server whose machine is gone. Source: postgresql.org/docs/current/libpq-connect.html"""

DISK_FULL = "53100"
"""SQLSTATE `disk_full`."""
READ_ONLY_TRANSACTION = "25006"
"""SQLSTATE `read_only_sql_transaction`."""
_FAULTS = psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction

log = logger("serving")

_Pool = AsyncConnectionPool[AsyncConnection[Any]]
_T = TypeVar("_T")


class RegistryDownError(ServiceUnavailableError):
    """No connection to Postgres can be made. Only on this failure may a search fall back on the index."""


def _down() -> RegistryDownError:
    return RegistryDownError("Postgres does not answer.", RETRY_AFTER_SECONDS)


def _not_stored(error: psycopg.DataError) -> InvalidRequestError:
    return InvalidRequestError(f"A value of the request can't be looked up: {error}")


def _overloaded() -> OverloadedError:
    return OverloadedError("Postgres is too busy to answer in time. Try again shortly.", RETRY_AFTER_SECONDS)


def postgres_watch(dsn: str) -> Watch:
    """Return a watch over a server. libpq's ping needs no connection slot, so a server with none left still answers it.

    psycopg holds the GIL meanwhile, so only a server that has refused a connection is pinged: one that hangs would stop this process, too.
    """
    address = make_conninfo(dsn, connect_timeout=PING_SECONDS)

    async def ping() -> bool:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await (await AsyncConnection.connect(address)).close()
        except (TimeoutError, psycopg.errors.ConnectionTimeout):
            return False
        except psycopg.OperationalError:
            return PGconn.ping(address.encode()) == Ping.OK
        return True

    return Watch("postgres", ping)


class PoolUse(NamedTuple):
    """Connections of a pool, and statements that wait for one."""

    used: int
    idle: int
    waiting: int


class Database:
    """A small connection pool (autocommit). Several pools may share the watch of one server."""

    def __init__(self, dsn: str, *, prepare_threshold: int, size: int = 8, watch: Watch | None = None) -> None:
        """`prepare_threshold`: executions of a statement after which it is prepared; 0: it never is."""
        self._dsn = dsn
        self._size = size
        self._prepare_threshold = prepare_threshold or None
        self.watch = watch or postgres_watch(dsn)
        self._threads = Threads("postgres")  # others may wait for an object store or for Dagster
        self._pool = self._new_pool()
        self.watch.on_return(self._reconnect)

    def _new_pool(self) -> _Pool:
        return AsyncConnectionPool(
            self._dsn,
            min_size=1,
            max_size=self._size,
            open=False,
            timeout=WAIT_SECONDS,
            kwargs={
                "autocommit": True,
                "application_name": "concordance-serving",
                "prepare_threshold": self._prepare_threshold,
                **NETWORK,
            },
        )

    async def open(self) -> None:
        """Start connecting, without waiting for Postgres."""
        self.watch.start()
        self.watch.suspect()
        await self._pool.open(wait=False)

    def use(self) -> PoolUse:
        """Return how much of the pool is used now."""
        stats = self._pool.get_stats()
        idle = stats.get("pool_available", 0)
        return PoolUse(max(0, stats.get("pool_size", 0) - idle), idle, stats.get("requests_waiting", 0))

    async def close(self) -> None:
        await self.watch.stop()
        await self._pool.close(timeout=2)

    async def run(self, declared: Declared, parameters: Mapping[str, Any]) -> Any:
        """Return the rows of a statement, its only row or None, or the number of changed rows.

        It is sent again after a deadlock, and if the connection is lost, perhaps after it was committed: a write that would refuse its own
        repetition recognises it, by a random value of the request (`integration/test_repeated_statements.py`).

        Raises `InvalidRequestError` for a value that Postgres cannot store (a NUL in a text), `RegistryDownError`,
        `OverloadedError`, and `ServiceUnavailableError` for a write that a server refuses which only reads.
        """

        async def run(connection: AsyncConnection[Any]) -> Any:
            if not declared.in_turn:
                return await executed(connection)
            async with connection.transaction():
                await connection.execute(
                    statement("accounts", "account_lock").encode(), {"emails": [parameters["email"]]}
                )
                return await executed(connection)

        async def executed(connection: AsyncConnection[Any]) -> Any:
            cursor = connection.cursor(row_factory=declared.factory)
            await cursor.execute(declared.text.encode(), parameters or None, prepare=declared.prepare)
            if cursor.description is None:
                return cursor.rowcount
            return await cursor.fetchall() if declared.many else await cursor.fetchone()

        try:
            return await self._with_connection(declared.name, run)
        except psycopg.DataError as error:
            raise _not_stored(error) from error

    async def execute_many(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the write `sql/serving/<name>.sql` for each row in one pipeline. Raises `RegistryDownError` and `OverloadedError`."""
        text = statement("serving", name)

        async def run(connection: AsyncConnection[Any]) -> None:
            async with connection.cursor() as cursor:
                await cursor.executemany(text.encode(), rows)

        await self._with_connection(name, run)

    def require(self) -> None:
        """Raise `RegistryDownError` while Postgres is known to be down."""
        if self.watch.down:
            raise _down()

    async def in_thread(self, work: Callable[[Connection], _T], threads: Threads | None = None) -> _T:
        """Run blocking work in a thread, in its own transaction. It runs again if Postgres ended it for another that it waited for.

        `threads`: those of another service, for work that waits for that, too.

        Raises `InvalidRequestError` as `run` does, `RegistryDownError`, `OverloadedError`, and what the work raises.
        """
        self.require()
        opened: list[Connection] = []

        def run() -> _T:
            with session(self._dsn) as connection:
                opened.append(connection)
                return undeadlocked(partial(_as_a_whole, connection, work))

        with self.watch.call(lambda: hang_up(*opened), CALL_SECONDS) as call:
            try:
                return await (threads or self._threads).run(run)
            except psycopg.DataError as error:
                raise _not_stored(error) from error
            except ServiceUnavailableError as error:
                if not isinstance(error.__cause__, psycopg.Error):
                    raise  # of another service that the work uses
                raise await self._mapped("session", error, call) from error

    async def _with_connection(self, name: str, work: Callable[[AsyncConnection[Any]], Awaitable[_T]]) -> _T:
        for attempt in (1, 2):
            if self.watch.down:
                break
            call: Call | None = None
            try:
                async with self._pool.connection() as connection:
                    with self.watch.call(partial(hang_up, connection), CALL_SECONDS) as call:
                        async with asyncio.timeout(STATEMENT_SECONDS):
                            return await work(connection)
            except psycopg.errors.DeadlockDetected as error:
                log.warning("deadlock", statement=name, reason=said(error))
                if attempt == 2:
                    raise _overloaded() from error
                await asyncio.sleep(DEADLOCK_PAUSES[0])
            except PoolClosed:
                continue  # it was replaced by a new pool
            except TimeoutError as error:
                log.warning(
                    "postgres_failed", statement=name, answers=True, cut=False, error="The statement took too long."
                )
                raise _overloaded() from error
            except (*_FAULTS, PoolTimeout) as error:
                mapped = await self._mapped(name, error, call)
                # A restarted server leaves dead connections in the pool, and one that has become a standby those to the wrong server:
                # discard them and retry once.
                if (
                    attempt == 1
                    and not isinstance(mapped, (RegistryDownError, StorageFullError))
                    and _is_lost(error, call)
                ):
                    await self._pool.drain()
                    continue
                raise mapped from error
        raise _down()

    async def _mapped(
        self, name: str, error: Exception, call: Call | None
    ) -> ServiceUnavailableError | OverloadedError:
        """Return our error for one of psycopg. A server that answers a ping or returned an error code is busy, not down."""
        code = _sqlstate(error)
        if code == READ_ONLY_TRANSACTION:
            log.warning("postgres_read_only", statement=name)
            return ServiceUnavailableError(f"{READ_ONLY} Try again shortly.", RETRY_AFTER_SECONDS)
        if code == DISK_FULL:
            log.error("postgres_disk_full", statement=name)
            return StorageFullError("The disk of Postgres is full, so nothing was saved.")
        answers = await self.watch.answers() if code is None or code.startswith("57P") else True
        cut = call is not None and call.cut
        log.warning("postgres_failed", statement=name, answers=answers, cut=cut, error=str(error).strip())
        return _overloaded() if answers else _down()

    async def _reconnect(self) -> None:
        """Replace the pool, whose own reconnection attempts may be minutes apart by now."""
        old, self._pool = self._pool, self._new_pool()
        await self._pool.open(wait=False)
        await old.close(timeout=0)


def _as_a_whole(connection: Connection, work: Callable[[Connection], _T]) -> _T:
    """Return the result of work, which begins a transaction of its own after a deadlock."""
    try:
        return work(connection)
    except psycopg.errors.DeadlockDetected:
        connection.rollback()
        raise


def _is_lost(error: Exception, call: Call | None) -> bool:
    """Return True if the connection broke by itself, or is to a server that accepts no writes, so that a new one may work."""
    if isinstance(error, PoolTimeout) or (call is not None and call.cut):
        return False
    code = _sqlstate(error)
    return code is None or code.startswith("57P") or code == READ_ONLY_TRANSACTION


def _sqlstate(error: Exception) -> str | None:
    """Return the server's error code, or None if the server sent none."""
    source = error if isinstance(error, psycopg.Error) else error.__cause__
    return source.sqlstate if isinstance(source, psycopg.Error) else None
