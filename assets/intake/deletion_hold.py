"""Hold mass deletions until a person approves them.

A failed listing looks like a mass deletion, and so does a mistake at the source; both would empty the index. Deletions of more
than a share of a partition are therefore held until `concordance prune approve`, and so are all documents of a root or channel
that leaves the settings, until `concordance source remove`, and documents in folders that may no longer be listed. Held documents
stay searchable for permitted callers until their permissions, which are no longer refreshed, are too old to trust (`ACL_MAX_AGE`).
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from assets.stages.plan import Policy
from resources.alerts import alert
from resources.sources import label
from resources.stores.clients import Stores


class DeletionHold:
    """Limits the deletions of one partition in one sync."""

    def __init__(self, stores: Stores, partition: str, *, full: bool) -> None:
        self._stores = stores
        self._partition = partition
        self._full = full
        self._size: int | None = None
        self._gone = 0

    def policy(self, gone: Collection[str], closed: Collection[str] = ()) -> Policy:
        """Return how many deletions are allowed, given the documents that are gone, and those in folders that may not be listed."""
        partitions, settings = self._stores.partitions, self._stores.settings
        if not gone:
            return Policy(full=self._full)
        waiting = frozenset(partitions.held(partition=self._partition))
        if self._size is None:
            self._size = partitions.partition_size(partition=self._partition)
        most = max(settings.prune_minimum, settings.prune_share * self._size) - self._gone
        self._gone += len(set(gone) - waiting - set(closed))
        return Policy(full=self._full, most=most, waiting=waiting, closed=frozenset(closed))

    def place(self, held: Collection[str], policy: Policy, times: Mapping[str, datetime]) -> int:
        """Hold deletions, send an alert, and return the number of those that wait."""
        stores, number = self._stores, len(held) + len(policy.waiting)
        reason = (
            "in folders that may no longer be listed. They were kept"
            if policy.closed.issuperset(held)
            else "gone at the source. They were kept, because that is more than CONCORDANCE_LIMITS__PRUNE_SHARE allows at once"
        )
        known = {key: times[key] for key in held if key in times}
        stores.partitions.hold(partition=self._partition, source_ids=list(held), times=known)
        alert(
            stores.settings,
            f"{number} of {self._size} documents of one part of {label(stores.source)} are {reason}. To see and delete them, run: "
            "concordance prune list",
        )
        return number


def hold_retired(stores: Stores, partition: str, source_ids: Collection[str]) -> str | None:
    """Hold all documents of a partition that is no longer configured, however few; return what to do if that is new."""
    if set(source_ids) <= set(stores.partitions.held(partition=partition)):
        return None
    stores.partitions.hold(partition=partition, source_ids=list(source_ids), times={})
    kept = f"is no longer configured. Its {len(source_ids)} documents were kept."
    alert(
        stores.settings, f"A part of {label(stores.source)} {kept} To see which, run: concordance prune list"
    )  # not its name
    return f"{label(stores.source)}, {partition}, {kept} To remove them, run: concordance source remove {partition}"
