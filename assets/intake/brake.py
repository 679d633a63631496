"""The prune brake: hold mass deletions until a person approves them.

A failed listing looks like a mass deletion, and so does a mistake at the source; both would empty the index. Deletions of more
than a share of a partition are therefore held until `concordance prune approve`. Held documents stay searchable for permitted
callers until their permissions are too old to trust (`ACL_MAX_AGE`), because they are no longer refreshed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from assets.stages.plan import Policy
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
        self._where = {"source": run.source.value, "partition": partition}
        self._size: int | None = None
        self._gone = 0

    def policy(self, gone: Collection[str]) -> Policy:
        """Return how many deletions are allowed, given the documents that are gone."""
        run = self._run
        if not gone:
            return Policy(full=run.full)
        waiting = frozenset(row["source_id"] for row in registry.held(run.connection, **self._where))
        if self._size is None:
            self._size = int(registry.partition_size(run.connection, **self._where)["documents"])
        most = max(run.settings.prune_minimum, run.settings.prune_share * self._size) - self._gone
        self._gone += len(set(gone) - waiting)
        return Policy(full=run.full, most=most, waiting=waiting)

    def hold(self, held: Collection[str], waiting: Collection[str], times: Mapping[str, datetime]) -> None:
        """Hold deletions, and send an alert with the number of those that wait."""
        run, number = self._run, len(held) + len(waiting)
        known = _json.encode({key: times[key] for key in held if key in times}).decode()
        registry.hold(run.connection, **self._where, source_ids=list(held), times=known)
        run.held += number
        partition = self._where["partition"]
        alert(
            run.settings,
            f"{number} of {self._size} documents of {label(run.source)}, {partition}, are gone at the source. They were "
            "kept, because that is more than prune_share in CONCORDANCE_LIMITS allows at once. To delete them, run: concordance prune "
            f"approve {run.source.value} {partition}",
        )
