"""Dump and load the database with the programs of the wheel that the embedded one is of, so that versions match."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from resources.core.errors import ConcordanceError, ConfigurationError
from resources.servers.postgres import binaries, environment
from resources.settings import Settings
from resources.stores.postgres import session

_ESCAPED, _BACKSLASH = re.compile(r"[:\\]"), r"\\\g<0>"
"""Characters of a password file that have a backslash before them. Source: https://www.postgresql.org/docs/current/libpq-pgpass.html"""

LOOKS = 20


def check_direct(settings: Settings) -> None:
    """Raise `ConfigurationError` if a connection pool shares the connections to Postgres between transactions.

    The programs set the search path of their session, which would then be that of others: their tables would not be found.
    """
    if settings.embedded_postgres:
        return
    held: tuple[set[int], set[int]] = (set(), set())
    with (
        session(settings.postgres_dsn, autocommit=True) as one,
        session(settings.postgres_dsn, autocommit=True) as other,
    ):
        for _ in range(LOOKS):
            for connection, processes in zip((one, other), held, strict=True):
                row = connection.execute("SELECT pg_backend_pid() AS process").fetchone()
                processes.update(row.values() if row else ())
    if held[0] & held[1] or len(held[0] | held[1]) > len(held):
        raise ConfigurationError(
            "leads to a connection pool that shares connections between transactions, as PgBouncer does in transaction mode.",
            "A backup and its restore need one past the pool. Give it to this command alone: "
            "CONCORDANCE_POSTGRES_URL=postgresql://USER:PASSWORD@SERVER/DATABASE concordance …",
            setting="CONCORDANCE_POSTGRES_URL",
        )


def dump(settings: Settings, file: Path) -> None:
    """Write a consistent dump of the whole database, including Dagster's tables. Raises `ConcordanceError`."""
    _run(settings, "pg_dump", "--format=custom", "--no-owner", f"--file={file}")


def load_dump(settings: Settings, file: Path) -> None:
    """Load a dump into the empty database in one transaction. Raises `ConcordanceError`."""
    options = ("--no-owner", "--exit-on-error", "--single-transaction")
    _run(settings, "pg_restore", *options, str(file))


def _run(settings: Settings, program: str, *arguments: str) -> None:
    """Run a client program. The password stays in a file: no argument or variable has it."""
    parts = {name: str(value) for name, value in conninfo_to_dict(settings.postgres_dsn).items() if value is not None}
    password = parts.pop("password", None)
    with ExitStack() as stack:
        if password is not None:
            file = stack.enter_context(NamedTemporaryFile("w"))  # only this user can read it
            file.write(f"*:*:*:*:{_ESCAPED.sub(_BACKSLASH, password)}\n")
            file.flush()
            parts["passfile"] = file.name
        done = subprocess.run(
            [str(binaries() / program), f"--dbname={make_conninfo('', **parts)}", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment(),
        )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ConcordanceError(f"{program} failed: {said[-500:] or f'exit status {done.returncode}'}")
