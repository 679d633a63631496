"""The installation that a command talks to: its database and its HTTP interface, with clear words when they do not answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resources.core.errors import NotRunningError, ServiceUnavailableError, StorageFullError

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection

HOW_TO_START = "Start it with: concordance up"
WAIT = "Concordance runs, but this part of it does not answer at the moment. See `concordance status`, then try again."


def remedy(settings: Settings) -> str:
    """Return what a person should do about a part that does not answer."""
    from orchestration.supervision.run_state import supervisor

    return HOW_TO_START if supervisor(settings) is None else WAIT


@contextmanager
def database(settings: Settings) -> Generator[Connection]:
    """Open the database for a block, committed at its end. Raises `NotRunningError` when it does not answer."""
    from psycopg.errors import UndefinedTable

    from resources.stores.postgres import session

    if settings.embedded_postgres and not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run on {settings.home}. {HOW_TO_START}")
    try:
        with session(settings.postgres_dsn) as connection:
            yield connection
    except StorageFullError:
        raise
    except ServiceUnavailableError as error:
        raise NotRunningError(f"{error} {remedy(settings)}") from error
    except UndefinedTable:
        raise NotRunningError(f"The database has no tables yet. {remedy(settings)}") from None
