"""Postgres storage for what sources remember between syncs, such as a folder tree or a ledger of threads.

The raw stage writes it in the transaction that saves the cursor, so it never gets ahead of the lake.
"""

import threading
from typing import Any

import psycopg

from resources.core.domain import SourceName
from resources.core.errors import ServiceUnavailableError
from resources.stores.postgres import Connection, connect, said
from sql.sync import Partitions


class PostgresMemory:
    """`resources.core.ports.Memory` in the registry database, over one connection that it keeps open. Thread-safe."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Close the connection. A source lives as long as its sync, and its memory with it."""
        if self._connection is not None:
            self._connection.close()

    def read(self, source: SourceName, partition: str, low: str = "", high: str | None = None) -> dict[str, Any]:
        """Return key → value of the keys from `low` (inclusive) to `high` (exclusive), in byte order of the keys."""
        with self._lock:
            try:
                partitions = Partitions(self._open(), source.value)
                return {row.key: row.value for row in partitions.remembered(partition=partition, low=low, high=high)}
            except psycopg.OperationalError as error:
                self._connection = None
                raise ServiceUnavailableError(f"Postgres does not answer: {said(error)}") from error

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn, autocommit=True)
        return self._connection
