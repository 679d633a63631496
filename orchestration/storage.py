"""Dagster's tables in Postgres, for a webserver that outlives restarts of the database.

Dagster's webserver keeps one pooled connection for each of its three stores and never checks it. After a restart of Postgres
the first request that needs such a connection fails with status 500, be it minutes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import QueuePool

if TYPE_CHECKING:
    from dagster._core.storage.config import PostgresStorageConfig
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine.interfaces import DBAPIConnection


class Storage(DagsterPostgresStorage):
    """Dagster's Postgres storage; `dagster.yaml` names it. Pooled connections are checked before each use."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: PostgresStorageConfig) -> Storage:
        """Return the storage that `dagster.yaml` describes."""
        return cls(
            pg_url_from_config(config_value),
            should_autocreate_tables=config_value.get("should_autocreate_tables", True),
            inst_data=inst_data,
        )


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
