"""How far a sync is, in words: documents done of how many, passages, rate and time left."""

from __future__ import annotations

from typing import Protocol

SHORTEST = 5.0
"""Seconds before a rate is shown; the first documents say little."""


class Progress(Protocol):
    """A row of a sync."""

    @property
    def source(self) -> str: ...
    @property
    def status(self) -> str: ...
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


def line(row: Progress) -> str:
    """Return one line, such as `files: 120 of 500 documents, 900 passages, 12 documents/s, 32 s left`."""
    if row.status != "running":
        return f"{row.source}: {row.status}"
    if not row.documents:
        doing = {None: "waiting for a worker", "raw": "reading the source"}.get(row.stage, "nothing to index so far")
        return f"{row.source}: {doing}"
    parts = [
        f"{row.done:,} of {row.documents:,} documents",
        f"{row.passages:,} passage{'' if row.passages == 1 else 's'}",
    ]
    if row.done and row.seconds >= SHORTEST:
        rate = row.done / row.seconds
        parts.append(f"{rate:.0f} documents/s" if rate >= 10 else f"{60 * rate:.0f} documents/min")
        if row.done < row.documents:
            parts.append(f"{_time((row.documents - row.done) / rate)} left")
    return f"{row.source}: {', '.join(parts)}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
