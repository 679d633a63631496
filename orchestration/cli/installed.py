"""Open the database of the installation for a command, with a clear error if it is not responding."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg.errors import UndefinedTable

from orchestration.supervision.run_state import HOW_TO_START, remedy
from resources.core.errors import NotRunningError, ServiceUnavailableError, StorageFullError
from resources.stores.postgres import Connection, session

if TYPE_CHECKING:
    from resources.settings import Settings

OWN = "The address is that of CONCORDANCE_POSTGRES_URL: see whether it is right, and whether that server runs."


@contextmanager
def database(settings: Settings, *, seconds: float | None = None) -> Generator[Connection]:
    """Open the database for the block and commit at its end.

    Raises `NotRunningError` if it is not responding, or the block waits for it for longer than `seconds`.
    """
    if settings.embedded_postgres and not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run in {settings.home}. {HOW_TO_START}")
    try:
        with session(settings.postgres_dsn, seconds=seconds) as connection:
            yield connection
    except StorageFullError:
        raise
    except ServiceUnavailableError as error:
        what = remedy(settings) if settings.embedded_postgres else OWN
        raise NotRunningError(f"{error} {what}") from error
    except UndefinedTable:
        if _has_tables(settings):  # of an earlier version
            raise
        raise NotRunningError(f"The database has no tables yet. {remedy(settings)}") from None


def _has_tables(settings: Settings) -> bool:
    with session(settings.postgres_dsn) as connection:
        row = connection.execute("SELECT to_regclass('schema_migrations') AS ledger").fetchone()
    return row is not None and row["ledger"] is not None
