"""Progress of a sync, in words: documents and passages done of how many, rate and time left."""

from __future__ import annotations

from typing import Protocol

from resources.core.durations import how_long

SHORTEST = 5.0
"""Seconds before a rate is shown; the first passages say little."""
DELAYED = "delayed"
"""Stage of a sync that no process has begun for a minute; see `sync_stage` in `sql/migrations`."""
NOT_BEGUN = {
    None: "waiting to start",
    "queued": "waiting in Dagster's queue",
    DELAYED: "delayed: this machine is busy, and the sync starts when a process is free",
    "raw": "reading the source",
}


class SyncProgress(Protocol):
    """A row of a running sync."""

    @property
    def stage(self) -> str | None: ...
    @property
    def documents(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def passages(self) -> int: ...
    @property
    def expected(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def progress(row: SyncProgress) -> str:
    """Return how far a running sync is, such as `120 of 500 documents, 900 of some 4,000 passages, 12 passages/s, 4 min left`.

    The time left follows from the passages, as they take most of it: documents differ in size, and the small ones come first.
    """
    if not row.documents:
        return NOT_BEGUN.get(row.stage, "nothing to index so far")
    expected = max(row.expected, row.passages)
    of = f" of some {expected:,}" if expected > row.passages else ""
    unit = "passage" if row.passages == 1 and not of else "passages"
    parts = [f"{row.done:,} of {row.documents:,} documents", f"{row.passages:,}{of} {unit}"]
    if row.passages and row.seconds >= SHORTEST:
        rate = row.passages / row.seconds
        parts.append(f"{rate:.0f} passages/s" if rate >= 10 else f"{60 * rate:.0f} passages/min")
        if expected > row.passages:
            parts.append(f"{how_long((expected - row.passages) / rate)} left")
    return ", ".join(parts)
