"""Dump and load the database with the programs of the wheel that the embedded one is of, so that versions match."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, cast

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from resources.core.errors import ConcordanceError, ConfigurationError
from resources.servers.postgres import binaries, environment
from resources.settings import Settings
from resources.stores.postgres import session

_ESCAPED, _BACKSLASH = re.compile(r"[:\\]"), r"\\\g<0>"
"""Characters of a password file that have a backslash before them. Source: https://www.postgresql.org/docs/current/libpq-pgpass.html"""

LOOKS = 20
UNKNOWN = b"SET transaction_timeout = 0;"
"""What pg_restore of Postgres 17 and newer begins with, whatever the server."""
HEAD_LINES = 40
"""Lines before the first object; the setting is among them."""


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
    file.touch()  # as HOME's owner: for root, the program would make it root's
    with _database(settings) as database, TemporaryFile() as said:
        arguments = ("--format=custom", "--no-owner", f"--file={file}", f"--dbname={database}")
        with _program(settings, "pg_dump", *arguments, said=said) as dumping:
            _check("pg_dump", dumping, said)


def load_dump(settings: Settings, file: Path) -> None:
    """Load a dump into the empty database in one transaction. Raises `ConcordanceError`."""
    arguments = ("--no-psqlrc", "--quiet", "--output=/dev/null", "--single-transaction", "--set=ON_ERROR_STOP=1")
    with (
        _database(settings) as database,
        TemporaryFile() as read,
        TemporaryFile() as loaded,
        _program(settings, "pg_restore", "--no-owner", "--file=-", str(file), said=read) as reading,
        _program(settings, "psql", *arguments, f"--dbname={database}", said=loaded) as loading,
    ):
        script, to = cast("IO[bytes]", reading.stdout), cast("IO[bytes]", loading.stdin)
        try:
            _copy(script, to)
            to.flush()
        except BrokenPipeError:
            _check("psql", loading, loaded)
            raise
        _check("pg_restore", reading, read)
        to.close()  # only now does psql commit
        _check("psql", loading, loaded)


def _copy(script: IO[bytes], to: IO[bytes]) -> None:
    """Copy what pg_restore writes, but for a setting that it begins with and that Postgres 16 and older refuse."""
    for line in islice(script, HEAD_LINES):
        if line.strip() != UNKNOWN:
            to.write(line)
    shutil.copyfileobj(script, to)


@contextmanager
def _database(settings: Settings) -> Generator[str]:
    """Return the connection string for a program. The password stays in a file: no argument or variable has it."""
    parts = {name: str(value) for name, value in conninfo_to_dict(settings.postgres_dsn).items() if value is not None}
    password = parts.pop("password", None)
    with ExitStack() as stack:
        if password is not None:
            file = stack.enter_context(NamedTemporaryFile("w"))  # only this user can read it
            file.write(f"*:*:*:*:{_ESCAPED.sub(_BACKSLASH, password)}\n")
            file.flush()
            parts["passfile"] = file.name
        yield make_conninfo("", **parts)


@contextmanager
def _program(settings: Settings, name: str, *arguments: str, said: IO[bytes]) -> Generator[subprocess.Popen[bytes]]:
    """Run a client program for the block, and kill it if it has not ended by then."""
    pipe, given = subprocess.PIPE, environment()
    if not settings.embedded_postgres:  # libpq's own variables complete the URL
        given |= {variable: value for variable, value in os.environ.items() if variable.startswith("PG")}
    line = [str(binaries() / name), *arguments]
    process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=said, env=given)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for end in filter(None, (process.stdin, process.stdout)):
            with suppress(BrokenPipeError):
                end.close()


def _check(name: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    """Wait for a program to end. Raises `ConcordanceError` with what it said unless it succeeded."""
    if process.wait() == 0:
        return
    said.seek(0)
    text = said.read().decode("utf-8", "replace").strip()
    raise ConcordanceError(f"{name} failed: {text[-500:] or f'exit status {process.returncode}'}")
