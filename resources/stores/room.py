"""How much free space syncs leave on the disks of this machine, so that searches and Postgres go on when a disk fills up."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from resources.core.errors import CapacityError
from resources.stores.disk import LEAST_BYTES, cause, nearest, stores

if TYPE_CHECKING:
    from pathlib import Path

    from resources.settings import Settings

FILLED = frozenset(
    {"HOME", "lake", "lake tables", "stored bytes", "incoming bytes", "Postgres", "Postgres log", "vector index"}
)
"""Stores that syncs fill, of `resources.stores.disk.stores`."""
SHARE = 50
"""By default, a fiftieth of a disk stays free."""
MOST_BYTES = 5 * 1024**3
"""More is never kept free by default: a compaction copies the index, which has up to 5.5 kB a vector."""


class Room(NamedTuple):
    """A file system that holds stores: its size, what is free, and how much of that syncs leave (bytes)."""

    stores: tuple[str, ...]
    folder: Path
    total: int
    free: int
    reserve: int

    @property
    def is_used_up(self) -> bool:
        """True if syncs write nothing more. A disk that is full is a fault of its own (`resources.stores.disk`)."""
        return LEAST_BYTES <= self.free < self.reserve

    def __str__(self) -> str:
        """Return what is wrong and what to do, for the operator."""
        return (
            f"The disk that holds {self.folder} ({', '.join(self.stores)}) has {_size(self.free)} free, and syncs leave "
            f"{_size(self.reserve)}, so that searches go on. Nothing was lost: free some space there, or lower "
            "CONCORDANCE_LIMITS__DISK_RESERVE_BYTES, then sync again."
        )


def rooms(settings: Settings) -> list[Room]:
    """Return the file systems of this machine that hold stores. Those that cannot be read, or have no size, are left out. Blocking."""
    found: dict[int, Room] = {}
    for store in (one for one in stores(settings) if one.name in FILLED):
        folder = nearest(store.folder)
        try:
            device, status = folder.stat().st_dev, os.statvfs(folder)
        except OSError:  # `disk.faults` says why
            continue
        total = status.f_blocks * status.f_frsize
        if not total:
            continue
        known = found.get(device)
        if known is None:
            free = status.f_bavail * status.f_frsize
            found[device] = Room((store.name,), folder, total, free, _reserve(settings, total))
        else:
            found[device] = known._replace(stores=(*known.stores, store.name))
    return list(found.values())


def check_room(settings: Settings) -> None:
    """Raise `CapacityError` if a disk has less free space than syncs leave, also if it is full."""
    for one in rooms(settings):
        if one.free < one.reserve:
            raise CapacityError(str(one if one.is_used_up else cause(settings) or one))


def check_fits(settings: Settings, folder: Path, size: int, what: str) -> None:
    """Raise `CapacityError` if the disk of a folder would have less free space than syncs leave, with `size` more bytes."""
    usage = shutil.disk_usage(folder)
    reserve = _reserve(settings, usage.total)
    if usage.free - size < reserve:
        raise CapacityError(
            f"The disk of {folder} has {_size(usage.free)} free, and {_size(reserve)} are left for searches: {what} with {_size(size)} "
            "does not fit. Free some space there, then run the same command again."
        )


def _reserve(settings: Settings, total: int) -> int:
    given = settings.disk_reserve_bytes
    return min(total // SHARE, MOST_BYTES) if given is None else given


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"
