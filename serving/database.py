"""Postgres as the serving app reads it: named statements of `sql/serving` enter, rows as dicts leave.

Any failure of the server becomes `ServiceUnavailableError`, and for a moment after one nobody waits for it again, so that a
search with Postgres down is slow at most once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from resources.errors import InvalidRequestError, ServiceUnavailableError
from resources.logging import logger
from sql import statement

WAIT_SECONDS = 2.0
REST_SECONDS = 2.0
STATEMENT_TIMEOUT_MS = 10_000

log = logger("serving")


class Database:
    """A small pool of connections (autocommit, rows as dicts)."""

    def __init__(self, dsn: str, *, size: int = 8) -> None:
        self._pool: AsyncConnectionPool[AsyncConnection[dict[str, Any]]] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=size,
            open=False,
            timeout=WAIT_SECONDS,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "connect_timeout": 5,
                "application_name": "concordance-serving",
                "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS}",
            },
        )
        self._rest_until = 0.0

    async def open(self) -> None:
        """Start connecting; does not wait for Postgres."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close(timeout=2)

    async def fetch(
        self, name: str, parameters: Mapping[str, Any] | None = None, *, prepare: bool | None = None
    ) -> list[dict[str, Any]]:
        """Run `sql/serving/<name>.sql` and return its rows (none for a write). Never prepared, it is planned for these very values.

        Raises `InvalidRequestError` for a value that Postgres cannot hold (a NUL in a text), and `ServiceUnavailableError`.
        """
        text = statement("serving", name)
        for attempt in (1, 2):
            if time.monotonic() < self._rest_until:
                raise ServiceUnavailableError("Postgres does not answer.")
            try:
                async with self._pool.connection() as connection:
                    cursor = await connection.execute(text, parameters, prepare=prepare)  # pyright: ignore[reportArgumentType, reportCallIssue] (statements are our own files)
                    return await cursor.fetchall() if cursor.description else []
            except psycopg.DataError as error:
                raise InvalidRequestError(f"A value of the request can't be looked up: {error}") from error
            except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed) as error:
                # A restarted server leaves dead connections in the pool: throw them out and try once more.
                if attempt == 1 and not isinstance(error, PoolTimeout | PoolClosed | psycopg.errors.QueryCanceled):
                    await self._discard_dead()
                    continue
                if not isinstance(error, psycopg.errors.QueryCanceled):
                    self._rest_until = time.monotonic() + REST_SECONDS
                log.warning("postgres_unavailable", statement=name, error=str(error).strip())
                raise ServiceUnavailableError("Postgres does not answer.") from error
        raise ServiceUnavailableError("Postgres does not answer.")

    async def execute_many(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a write for each row in one pipeline. Raises `ServiceUnavailableError`."""
        try:
            async with self._pool.connection() as connection, connection.cursor() as cursor:
                await cursor.executemany(statement("serving", name), rows)  # pyright: ignore[reportArgumentType] (as above)
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed) as error:
            raise ServiceUnavailableError("Postgres does not answer.") from error

    async def _discard_dead(self) -> None:
        try:
            await self._pool.check()
        except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
            log.warning("postgres_check_failed", error=str(error).strip())
