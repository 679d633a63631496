"""Dagster's tables in Postgres, for processes that start together and a webserver that outlives restarts of the database.

Every process of Dagster creates the tables that are missing, without regard to the others: on the first start two of them would
create the same one, and one would end with `DuplicateObject`. A lock lets one create them all.

Dagster's webserver keeps one pooled connection for each of its three stores and never checks it. After a restart of Postgres
the first request that needs such a connection fails with status 500, be it minutes later.
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

if TYPE_CHECKING:
    from dagster._core.storage.config import PostgresStorageConfig
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine.interfaces import DBAPIConnection


WAIT_MS = 120_000
"""Longest wait for the other processes that create or check the tables, one after the other: on a busy machine each takes seconds."""


class Storage(DagsterPostgresStorage):
    """Dagster's Postgres storage; `dagster.yaml` names it. Pooled connections are checked before each use."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: PostgresStorageConfig) -> Storage:
        """Return the storage that `dagster.yaml` describes, its tables created."""
        url = pg_url_from_config(config_value)
        with _alone(url):
            return cls(
                url,
                should_autocreate_tables=config_value.get("should_autocreate_tables", True),
                inst_data=inst_data,
            )


@contextmanager
def _alone(url: str) -> Generator[None]:
    """Hold the lock under which tables are created."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {WAIT_MS}"))
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('concordance/dagster-tables'))"))
        yield


# The argument `pool_pre_ping` of `create_engine` would do the same, but Dagster calls that. Only the webserver pools connections.
@event.listens_for(QueuePool, "checkout")
def _check(connection: DBAPIConnection, _record: object, _proxy: object) -> None:  # pyright: ignore[reportUnusedFunction]
    """Make the pool replace a connection that has gone. Source: SQLAlchemy's documentation of disconnect handling."""
    try:
        cursor = connection.cursor()
        try:
            cursor.execute("SELECT 1")
        finally:
            cursor.close()
    except Exception as error:
        raise DisconnectionError("Postgres has been restarted.") from error
