"""The database as this version and its installed sources need it."""

from dataclasses import asdict
from typing import Any

import psycopg

from resources.sources import names, specs
from resources.sources.spec import SourceSpec
from resources.stores.migrate import migrate
from sql.sources import Declarations


def prepare(dsn: str) -> list[str]:
    """Migrate the database, record the installed sources in the same transaction, and return the names of the applied migrations.

    Raises what `migrate` raises.
    """
    return migrate(dsn, then=_declare_all)


def declare(connection: psycopg.Connection[Any], *declared: SourceSpec) -> None:
    """Record declarations of sources, so that statements show their documents accordingly."""
    rows = [{"source": one.name.value, **asdict(one.capabilities)} for one in declared]
    Declarations(connection).declare(rows=rows)


def _declare_all(connection: psycopg.Connection[Any]) -> None:
    declare(connection, *specs())
    Declarations(connection).keep(sources=[name.value for name in names()])
