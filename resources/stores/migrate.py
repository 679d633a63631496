"""Migrate a database to the schema of this version: ordered SQL files, each applied once and never changed afterwards.

Applied files are recorded in `schema_migrations` with their checksums. The nearest library, yoyo-migrations, hashes a
migration's name but not its text, and its lock is a row that a killed process leaves behind; an advisory lock is released
with its connection.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.settings.database import DAGSTER_SCHEMA
from resources.stores.postgres import READ_ONLY, said
from sql import MIGRATIONS

LOCK = 0x434F4E43_4F524421
"""Key of the advisory lock (`CONCORD!`); any number that nothing else in the database uses."""
LOCK_SECONDS = 120
"""How long another process may migrate, and others may use a table that a migration changes."""
TABLE_SECONDS = 2
"""Longest wait for such a table at a time, as while a backup dumps it: whoever only reads the table waits behind the migration."""
PAUSE_SECONDS = 1.0

_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True)
class Migration:
    """One migration file; names give the order."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """sha256 of the text, independent of line-ending conversion."""
        return hashlib.sha256(self.text.replace("\r\n", "\n").encode()).hexdigest()


def migrations(folder: Path = MIGRATIONS) -> list[Migration]:
    return [Migration(file.name, file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.sql"))]


def migrate(
    dsn: str, folder: Path = MIGRATIONS, *, then: Callable[[psycopg.Connection[Any]], None] | None = None
) -> list[str]:
    """Apply the missing migrations and run `then` in one transaction, and return their names; a second run applies nothing.

    An installation starts with `resources.schema.prepare`.

    Safe to run from several processes at once. Raises `ConfigurationError` if an applied file has changed or is unknown here,
    and `ServiceUnavailableError` if the database does not answer.
    """
    known = migrations(folder)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                return _apply(dsn, known, then)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
                if time.monotonic() >= deadline:
                    raise ServiceUnavailableError(
                        f"Another process has been migrating the database for {LOCK_SECONDS} s, or has been using one of its tables, as a "
                        "backup does. Wait for it, then try again."
                    ) from error
            time.sleep(PAUSE_SECONDS)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"The database role may not create tables ({str(error).strip()}). Grant it CREATE on the database and its schema public."
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ServiceUnavailableError(READ_ONLY) from error
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres does not answer: {said(error)}") from error


def _apply(dsn: str, known: list[Migration], then: Callable[[psycopg.Connection[Any]], None] | None) -> list[str]:
    """Apply the missing migrations in one transaction and return their names. Raises `LockNotAvailable` and `DeadlockDetected`."""
    with psycopg.connect(dsn, connect_timeout=10, prepare_threshold=None) as conn:
        conn.execute("SET LOCAL statement_timeout = 0")
        conn.execute("SELECT set_config('lock_timeout', %s, true)", (f"{LOCK_SECONDS}s",))
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        conn.execute("SELECT set_config('lock_timeout', %s, true)", (f"{TABLE_SECONDS}s",))
        conn.execute(_LEDGER)
        conn.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(DAGSTER_SCHEMA)))
        rows = conn.execute("SELECT name, checksum FROM schema_migrations").fetchall()
        missing = _pending(known, {str(name): str(checksum) for name, checksum in rows})
        for migration in missing:
            try:
                conn.execute(migration.text.encode())
            except psycopg.ProgrammingError as error:
                raise ConfigurationError(
                    f"Migration {migration.name} failed and nothing was changed: {str(error).strip()}"
                ) from error
            conn.execute(
                "INSERT INTO schema_migrations (name, checksum) VALUES (%s, %s)", (migration.name, migration.checksum)
            )
        if then is not None:
            then(conn)
    return [migration.name for migration in missing]


def pending(dsn: str, folder: Path = MIGRATIONS) -> list[str]:
    """Return the names of the migrations that are missing. Writes nothing. Raises as `migrate` does."""
    try:
        with psycopg.connect(dsn, connect_timeout=10, prepare_threshold=None) as conn:
            rows = conn.execute("SELECT name, checksum FROM schema_migrations").fetchall()
    except psycopg.errors.UndefinedTable:
        rows = []
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres does not answer: {said(error)}") from error
    applied = {str(name): str(checksum) for name, checksum in rows}
    return [migration.name for migration in _pending(migrations(folder), applied)]


def _pending(known: list[Migration], applied: dict[str, str]) -> list[Migration]:
    names = {migration.name for migration in known}
    if newer := sorted(set(applied) - names):
        raise ConfigurationError(
            f"The database has migration {newer[0]}, which this version does not know. Run the newer version of Concordance."
        )
    for migration in known:
        if migration.name in applied and applied[migration.name] != migration.checksum:
            raise ConfigurationError(
                f"Migration {migration.name} was changed after it was applied. Restore the file and put the change in a new migration."
            )
    pending = [migration for migration in known if migration.name not in applied]
    if pending and applied and pending[0].name < max(applied):
        raise ConfigurationError(
            f"Migration {pending[0].name} sorts before {max(applied)}, which is already applied. Give it a later number."
        )
    return pending
