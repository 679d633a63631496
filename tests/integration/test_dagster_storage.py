"""Dagster's tables in the real Postgres."""

from __future__ import annotations

import threading

import psycopg
import pytest
from dagster_postgres.storage import DagsterPostgresStorage
from sqlalchemy.exc import SQLAlchemyError

from orchestration.supervision.environment import dagster_storage_url
from orchestration.supervision.storage import Storage

PROCESSES = 8


def _create_together(storage: type[DagsterPostgresStorage], dsn: str) -> list[Exception]:
    """Open the storage of an empty schema several times at once, as services do at the first start. Return the failures."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dagster CASCADE")
        connection.execute("CREATE SCHEMA dagster")
    start = threading.Barrier(PROCESSES)
    failures: list[Exception] = []

    def open_storage() -> None:
        start.wait()
        try:
            storage.from_config_value(None, {"postgres_url": dagster_storage_url(dsn)})
        except SQLAlchemyError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_storage) for _ in range(PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("_attempt", [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in range(2, 6))])
def test_services_that_start_together_create_the_tables_once(database: str, _attempt: int) -> None:
    assert _create_together(Storage, database) == []
