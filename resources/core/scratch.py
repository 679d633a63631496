"""Tables on disk for what may not fit into memory, in a temporary file without a name, which ends with the process at the latest."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager

from resources.core.errors import AbortSyncError


@contextmanager
def scratch_database() -> Generator[sqlite3.Connection]:
    """Open an empty database for one thread at a time; its file is gone after the block."""
    with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as database:
        database.execute("BEGIN")
        yield database


@contextmanager
def told_when_full() -> Generator[None]:
    """Raise `AbortSyncError` if a scratch database cannot be written in the block."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise full(error) from error


def full(error: Exception) -> AbortSyncError:
    """Return what to tell of a temporary file that cannot be written."""
    said = str(error).partition("\n")[0]
    return AbortSyncError(
        f"The folder for temporary files is full ({said}). Make room there (TMPDIR, or else /var/tmp), and try again."
    )
