"""Compaction of the lake's tables: by one process at a time, and by none during an erasure, which removes files that no version names."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from resources.core.errors import AbortSyncError, BusyError, ServiceUnavailableError
from resources.stores.lake import COMPACT_PAST, Lake
from resources.stores.leases import COMPACTION, INSTALLATION, claim

log = structlog.get_logger("lake")


def compact_written(dsn: str, lake: Lake, names: Iterable[str]) -> None:
    """Compact as `compact` does what was written. What cannot be compacted now is left to whoever writes to it next."""
    try:
        compact(dsn, lake, names)
    except BusyError:
        return
    except ServiceUnavailableError as error:
        log.warning("compaction_failed", reason=str(error))


def compact(dsn: str, lake: Lake, names: Iterable[str], *, past: int = COMPACT_PAST, seconds: float = 0) -> int:
    """Compact those of these tables that have more than `past` small files; return how many.

    Raises `BusyError` if another process compacts or erases for longer than so many seconds, and, once the others are compacted,
    `AbortSyncError` if a table is damaged.
    """
    due: list[str] = []
    damaged: AbortSyncError | None = None
    for name in names:
        try:
            due += [name] if lake.fragmented(name, past) else []
        except AbortSyncError as error:
            damaged = damaged or error
    compacted = _compact(dsn, lake, due, past, seconds) if due else 0
    if damaged is not None:
        raise damaged
    return compacted


def _compact(dsn: str, lake: Lake, names: Iterable[str], past: int, seconds: float) -> int:
    lease = claim(dsn, INSTALLATION, [COMPACTION], seconds=seconds)
    if lease is None:
        raise BusyError("Another process is compacting the lake, or erases. Try again once it has ended.", "")
    try:
        return sum(lake.compact(name, past, lease.confirm) for name in names)
    finally:
        lease.release()
