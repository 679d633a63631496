"""Tables on disk for what may not fit into memory, in a temporary file without a name, which ends with the process at the latest; and
temporary folders, which the next process that needs one removes after a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from resources.core.errors import AbortSyncError

_PREFIX = "concordance-scratch-"
_UNLOCKED_SECONDS = 60
"""A folder is left alone this long: its process may be about to lock it."""


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


@contextmanager
def scratch_folder() -> Generator[Path]:
    """Make a temporary folder for the block, and remove those of this account's processes that were killed in such a block."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is another account's, in use, or gone
            status = left.stat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _UNLOCKED_SECONDS:
                with _locked(left):
                    shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as made, _locked(Path(made)):
        yield Path(made)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Hold the lock of a folder, which ends with the process. Raises `BlockingIOError` if another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
