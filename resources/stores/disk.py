"""Check whether the disks accept writes: report what is full or read-only, which folder it is, and the remedy.

A full disk has many symptoms: a server that does not answer, a run that does not start, a job that no process claims. Code that
meets such a failure asks here for its cause.
"""

from __future__ import annotations

import errno
import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from resources.core.errors import ServiceUnavailableError, StorageFullError, StorageReadOnlyError
from resources.core.paths import is_folder

if TYPE_CHECKING:
    from resources.settings import Settings

LEAST_BYTES = 16 * 1024 * 1024
"""Less free space counts as none: Postgres stops when it cannot write its next log file, which has this size.
Source: https://www.postgresql.org/docs/current/wal-configuration.html
"""
PROBE = bytes(64 * 1024)
FULL, READ_ONLY, REFUSED, BROKEN, HUNG = "full", "read-only", "refused", "broken", "hung"


class StoreFolder(NamedTuple):
    """A store that is kept in a folder. Those of other accounts are not written to."""

    name: str
    folder: Path
    ours: bool = True


class DiskFault(NamedTuple):
    """A file system or folder that accepts no writes. Which one hangs is not known."""

    stores: tuple[str, ...]
    folder: Path
    state: str
    detail: str

    def __str__(self) -> str:
        """Return what is wrong and what to do, for the operator."""
        if self.state == HUNG:
            return "A disk or folder that holds a store does not answer. Look for a network file system whose server is away."
        place = f"{self.folder} ({', '.join(self.stores)})"
        if self.state == FULL:
            return f"The disk that holds {place} is full: {self.detail}. Free some space there, or move the folder to a larger disk."
        if self.state == READ_ONLY:
            return f"The disk that holds {place} is read-only. Mount it for writing; after a disk error the kernel's log says more."
        if self.state == REFUSED:
            return f"The account {_account()} may not write to {place}. Give it that right, or run Concordance as the folder's owner."
        return f"{place} cannot be written to: {self.detail}."


def stores(settings: Settings) -> Iterator[StoreFolder]:
    """Yield every folder of this machine that holds a store, HOME first. Each may be on a different file system."""
    home = settings.home
    supervised = is_folder(home / "run") or settings.embedded_postgres or settings.embedded_qdrant
    if supervised:  # processes without a supervisor write to no other folder of HOME than the next one
        yield StoreFolder("HOME", home)
    if supervised or is_folder(home / "audit"):
        yield StoreFolder("audit log", home / "audit")
    parts = urlsplit(settings.lake_address)
    if parts.scheme == "file":
        lake = Path(unquote(parts.path))
        yield StoreFolder("lake", lake)
        yield StoreFolder("lake tables", lake / "tables")
        yield StoreFolder("stored bytes", lake / "blobs")
        yield StoreFolder("incoming bytes", lake / "blobs" / ".incoming")
    if settings.embedded_postgres:
        yield StoreFolder("Postgres", home / "postgres" / "data", ours=False)
        yield StoreFolder("Postgres log", home / "postgres" / "data" / "pg_wal", ours=False)
    if settings.embedded_qdrant:
        yield StoreFolder("vector index", home / "qdrant", ours=False)
    for name, folder in (("Dagster", home / "dagster"), ("logs", home / "logs")):
        if supervised or is_folder(folder):
            yield StoreFolder(name, folder, ours=False)


def faults(settings: Settings) -> list[DiskFault]:
    """Return what accepts no writes, with stores on the same file system combined. Blocking; writes 64 kB and removes them."""
    found: dict[tuple[int, str], DiskFault] = {}
    for store in stores(settings):
        folder = nearest(store.folder)
        fault = _fault(folder, trial=store.ours)
        if fault is None:
            continue
        state, detail, device = fault
        known = found.get((device, state))
        if known is None:
            found[device, state] = DiskFault((store.name,), folder, state, detail)
        else:
            found[device, state] = known._replace(stores=(*known.stores, store.name))
    return list(found.values())


def cause(settings: Settings) -> ServiceUnavailableError | None:
    """Return an error about the disks; None if they accept writes."""
    found = faults(settings)
    if not found:
        return None
    reason = " ".join(map(str, found))
    return StorageFullError(reason) if any(one.state == FULL for one in found) else StorageReadOnlyError(reason)


def nearest(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent that we may look into."""
    while True:
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if folder == folder.parent:
                return folder
            folder = folder.parent
        else:
            return folder


def _fault(folder: Path, *, trial: bool) -> tuple[str, str, int] | None:
    """Return state, detail and device of a folder that accepts no writes."""
    try:
        device = folder.stat().st_dev
        status = os.statvfs(folder)
    except OSError as error:
        return BROKEN, error.strerror or str(error), 0
    if status.f_flag & os.ST_RDONLY:
        return READ_ONLY, "", device
    free = status.f_bavail * status.f_frsize
    if status.f_blocks and free < LEAST_BYTES:
        return FULL, f"{free // 1024} kB free", device
    if status.f_files and not status.f_favail:
        return FULL, "no inodes are free", device
    if not trial:
        return None
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            if file.write(PROBE) < len(PROBE):
                return FULL, f"{free // 1024} kB free", device
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return FULL, error.strerror or "no space", device
        if error.errno == errno.EROFS:
            return READ_ONLY, "", device
        if error.errno in {errno.EACCES, errno.EPERM}:
            return REFUSED, "", device
        return BROKEN, error.strerror or str(error), device
    return None


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
