"""The prune brake: hold mass deletions until a person approves them.

A failed listing looks like a mass deletion, and so does a mistake at the source; both would empty the index. Deletions of more
than a share of a partition are therefore held until `concordance prune approve`. Held documents stay searchable for permitted
callers until their permissions are too old to trust (`ACL_MAX_AGE`), because they are no longer refreshed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from resources.alerts import alert
from resources.sources import label
from resources.syncing import SyncRun
from sql import queries

registry = queries("registry")
_json = msgspec.json.Encoder()


class Brake:
    """Limits the deletions of one partition in one sync."""

    def __init__(self, run: SyncRun, partition: str) -> None:
        self._run = run
        self._partition = partition
        self._size: int | None = None
        self._gone = 0

    def split_allowed_and_held(self, source_ids: Sequence[str], times: dict[str, datetime]) -> list[str]:
        """Hold the deletions if there are too many; return the ones to carry out now, without ids that are not registered."""
        if not source_ids:
            return []
        run, source = self._run, self._run.source.value
        there = [
            row["source_id"] for row in registry.present(run.connection, source=source, source_ids=list(source_ids))
        ]
        waiting = {row["source_id"] for row in registry.held(run.connection, source=source, partition=self._partition)}
        fresh = [source_id for source_id in there if source_id not in waiting]
        if self._size is None:
            size = registry.partition_size(run.connection, source=source, partition=self._partition)
            self._size = int(size["documents"])
        self._gone += len(fresh)
        if self._gone <= max(run.settings.prune_minimum, run.settings.prune_share * self._size):
            return fresh
        if fresh:
            registry.hold(
                run.connection,
                source=source,
                partition=self._partition,
                source_ids=fresh,
                times=_json.encode({source_id: times[source_id] for source_id in fresh if source_id in times}).decode(),
            )
            self._alert(len(waiting) + len(fresh))
        return []

    def _alert(self, held: int) -> None:
        run = self._run
        run.held += held
        alert(
            run.settings,
            f"{held} of {self._size} documents of {label(run.source)}, {self._partition}, are gone at the source. They were "
            "kept, because that is more than prune_share in CONCORDANCE_LIMITS allows at once. To delete them, run: concordance prune "
            f"approve {run.source.value} {self._partition}",
        )
