"""Dagster's Postgres storage, with a lock for creating tables, and connections that are kept and checked.

Every Dagster process creates missing tables. Without the lock, two that start together create the same one, and one fails with
`DuplicateObject`. Dagster opens two connections for each event, unless a store is "optimized for the webserver": then it keeps one and
never checks it. Without the check, the first request after a restart of Postgres fails.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import NullPool, QueuePool

from resources.stores.dagster_tables import check_place

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

    from orchestration.dagster_api import ConfigurableClassData, PostgresStorageConfig

NO_TIMEOUT = 0
KEPT_SECONDS = 600
MORE_CONNECTIONS = 20
"""Connections of a store beside the one that is kept, for threads at the same time."""
WAIT_MS = 120_000
"""Longest wait for other processes that create or check the tables in turn, each of which takes seconds on a busy machine."""


class Storage(DagsterPostgresStorage):
    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: PostgresStorageConfig) -> Storage:
        """Return the storage that `dagster.yaml` describes, and create its tables."""
        url = pg_url_from_config(config_value)
        check_place(url.replace("+psycopg2", "", 1))
        with _alone(url):
            storage = cls(
                url,
                should_autocreate_tables=config_value.get("should_autocreate_tables", True),
                inst_data=inst_data,
            )
        for part in (storage.event_log_storage, storage.run_storage, storage.schedule_storage):
            part.optimize_for_webserver(
                statement_timeout=NO_TIMEOUT, pool_recycle=KEPT_SECONDS, max_overflow=MORE_CONNECTIONS
            )
        return storage


@contextmanager
def _alone(url: str) -> Generator[None]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {WAIT_MS}"))
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('concordance/dagster-tables'))"))
        yield


# `create_engine(pool_pre_ping=True)` would do the same, but Dagster makes that call.
@event.listens_for(QueuePool, "checkout")
def _check(connection: DBAPIConnection, _record: object, _proxy: object) -> None:  # pyright: ignore[reportUnusedFunction]
    """Make the pool replace a broken connection. Source: SQLAlchemy's documentation of disconnect handling."""
    try:
        cursor = connection.cursor()
        try:
            cursor.execute("SELECT 1")
        finally:
            cursor.close()
    except Exception as error:
        raise DisconnectionError("Postgres has been restarted.") from error
