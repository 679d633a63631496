"""Dump and load the database with the programs of the wheel that the embedded one is of, so that versions match."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from resources.core.errors import ConcordanceError
from resources.servers.postgres import binaries, environment
from resources.settings import Settings

_ESCAPED, _BACKSLASH = re.compile(r"[:\\]"), r"\\\g<0>"
"""Characters of a password file that have a backslash before them. Source: https://www.postgresql.org/docs/current/libpq-pgpass.html"""


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
