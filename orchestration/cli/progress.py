"""One line about a sync."""

from __future__ import annotations

from typing import Protocol

from resources.syncs.progress import SyncProgress, progress


class Sync(SyncProgress, Protocol):
    """A row of a sync."""

    @property
    def source(self) -> str: ...
    @property
    def status(self) -> str: ...


def line(row: Sync) -> str:
    """Return one line, such as `files: 120 of 500 documents, 900 passages, 12 documents/s, 32 s left`."""
    return f"{row.source}: {progress(row) if row.status == 'running' else row.status}"
