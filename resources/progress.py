"""Progress of a sync, in words: documents done of how many, passages, rate and time left."""

from __future__ import annotations

from typing import Protocol

from resources.core.durations import how_long

SHORTEST = 5.0
"""Seconds before a rate is shown; the first documents say little."""


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
    def seconds(self) -> float: ...


def progress(row: SyncProgress) -> str:
    """Return how far a running sync is, such as `120 of 500 documents, 900 passages, 12 documents/s, 32 s left`."""
    if not row.documents:
        return {None: "waiting for a worker", "raw": "reading the source"}.get(row.stage, "nothing to index so far")
    parts = [
        f"{row.done:,} of {row.documents:,} documents",
        f"{row.passages:,} passage{'' if row.passages == 1 else 's'}",
    ]
    if row.done and row.seconds >= SHORTEST:
        rate = row.done / row.seconds
        parts.append(f"{rate:.0f} documents/s" if rate >= 10 else f"{60 * rate:.0f} documents/min")
        if row.done < row.documents:
            parts.append(f"{how_long((row.documents - row.done) / rate)} left")
    return ", ".join(parts)
