"""Reconciliation: compare a source with the lake, Postgres and Qdrant in both directions, report differences and repair them.

A sync processes what changed since the last one. Reconciliation finds what no change reports: a row lost with a disk, a point left by
a crash, a document that a change feed omitted. Differences from the source are repaired by a sync with a full listing, the rest from
the registry. A partition that cannot be listed is reported and left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from assets.index.comparison import IncompleteDocument, LakeFaults, incomplete_documents, lake_faults, orphan_points
from assets.index.inventory import Inventory, open_inventory
from assets.intake.listing_record import EVERYTHING, ListingRecord
from assets.intake.rows import append
from assets.pipeline import WORK, raw
from resources.core.domain import STAGES, SourceName
from resources.core.errors import AbortSyncError
from resources.core.ports import Source
from resources.settings import Settings
from resources.sources import capabilities, open_source
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.jobs import hold
from resources.syncs.syncing import SyncJob, open_sync
from sql.upkeep import Reconciliation

EXAMPLES = 20


class Sides(msgspec.Struct):
    """Counts by store: documents in the lake and Postgres, points in Qdrant."""

    lake: int = 0
    postgres: int = 0
    qdrant: int = 0

    def total(self) -> int:
        """Return the sum."""
        return self.lake + self.postgres + self.qdrant


class ReconcileReport(msgspec.Struct):
    """Findings and repairs of the reconciliation of one source."""

    source: SourceName
    checked: int = 0
    """Distinct documents found in any store."""
    orphans: Sides = msgspec.field(default_factory=Sides)
    """Surplus entries: in the lake without Postgres, in Postgres without the source, points without a live chunk."""
    missing: Sides = msgspec.field(default_factory=Sides)
    """Missing entries: contents in the lake, documents (or chunks) in Postgres, points in Qdrant."""
    repaired: int = 0
    forgotten: int = 0
    """Uploads or pushed documents that the lake has and the registry has lost. `concordance rebuild registry` brings them back."""
    waiting: int = 0
    """Deletions awaiting approval. They do not count as differences, because a person decides."""
    unlisted: dict[str, str] = {}
    """Partitions that could not be listed, with the reason; they were left alone."""
    error: str | None = None
    """Why the repairing sync ended early."""
    examples: dict[str, list[str]] = {}

    def faults(self) -> int:
        """Return how many differences there were."""
        return self.orphans.total() + self.missing.total()

    def clean(self) -> bool:
        """Return True if all differences were repaired and everything could be checked."""
        return self.faults() <= self.repaired and not (self.forgotten or self.unlisted) and self.error is None


class _Differences:
    """The differences of one source, before or after the repair. `inventory` is filled, and takes what the source lists later."""

    def __init__(self, stores: Stores, inventory: Inventory, *, repair: bool = False, deep: bool = False) -> None:
        statements = Reconciliation(stores.connection, stores.source.value)
        inventory.read_stores(stores)
        self.inventory = inventory
        self.lake: LakeFaults = lake_faults(stores, inventory, deep=deep)
        self.incomplete: list[IncompleteDocument] = [
            document for page in incomplete_documents(stores) for document in page
        ]
        self.points = 0
        self.examples: list[str] = []
        for orphans in orphan_points(stores):
            self.points += len(orphans.ids)
            self.examples += [f"{orphans.collection}/{point}" for point in orphans.ids[: EXAMPLES - len(self.examples)]]
            if repair:
                # first, so that a document that returns is indexed completely
                statements.mark_points_incomplete(doc_ids=orphans.doc_ids)
                stores.confirm()
                qdrant.delete_points(stores.qdrant, orphans.collection, orphans.ids)

    def unshown(self, listed: ListingRecord) -> set[str]:
        """Return documents that the source no longer has, except those whose deletion awaits approval."""
        return {
            source_id
            for source_id, partition, deleted in self.inventory.unshown()
            if deleted or listed.is_authoritative_for(partition) or partition in listed.lost_partitions
        }


def reconcile(
    settings: Settings, source: SourceName, *, apply: bool, deep: bool = False, port: Source | None = None
) -> ReconcileReport:
    """Compare the stores of one source and, with `apply`, repair differences. Syncs of the source wait meanwhile.

    With `deep`, all stored bytes are read and compared with their hashes.

    Raises `BusyError` or `ServiceUnavailableError`; errors of the source are in the report.
    """
    port = port if port is not None else open_source(settings, source)
    with open_inventory() as inventory:
        if apply:
            with open_sync(settings, source, requested_by="reconcile") as job:
                listed = ListingRecord(port, inventory.note_listing)
                return _repair(job, listed, inventory, deep=deep)
        with hold(settings, source) as stores:
            listed = ListingRecord(port, inventory.note_listing)
            listed.survey(_partitions(stores))
            return _report(stores, listed, _Differences(stores, inventory, deep=deep))


def _repair(job: SyncJob, listed: ListingRecord, inventory: Inventory, *, deep: bool) -> ReconcileReport:
    """Repair from the registry first, then by a sync with a full listing, then count again."""
    stores = job.stores
    statements = Reconciliation(stores.connection, stores.source.value)
    before = _Differences(stores, inventory, repair=True, deep=deep)
    if before.incomplete:
        statements.mark_for_rewrite(doc_ids=[document.doc_id for document in before.incomplete])
    for content in before.lake.gone:
        stores.confirm()
        stores.blobs.delete(content)  # damaged bytes must not count as present
    if before.lake.missing:
        statements.mark_for_refetch(source_ids=sorted(before.lake.missing))
    error = _sync(job, listed)
    _remove_lake_orphans(stores, listed)
    report = _report(stores, listed, before)
    report.error = error
    with open_inventory() as now:
        after = _Differences(stores, now)
        unregistered = set(inventory.unregistered())
        left = [
            len((before.lake.orphans.keys() & after.lake.orphans.keys()) - _forgotten(stores, inventory)),
            len(before.lake.missing & after.lake.missing),
            len(now.held(before.unshown(listed))),
            len(unregistered - now.held(unregistered)),
            after.points,
            sum(document.points + bool(document.rows) for document in after.incomplete),
        ]
        report.waiting = now.waiting()
    report.repaired = max(0, report.faults() - sum(left))
    return report


def _sync(job: SyncJob, listed: ListingRecord) -> str | None:
    """Run the stages with a full listing and return the error, if any. An error of the source does not stop the later stages."""
    refused = None
    for stage in STAGES:
        work = partial(raw, job, source=listed.source, everything=True) if stage == "raw" else partial(WORK[stage], job)
        try:
            job.run(stage, work)
        except AbortSyncError as error:
            if stage != "raw":
                return str(error)
            refused = str(error)
    return refused or job.error


def _remove_lake_orphans(stores: Stores, listed: ListingRecord) -> None:
    """Tombstone documents that only the lake has, except in partitions that could not be listed."""
    with open_inventory() as inventory:
        inventory.read_stores(stores)
        orphans = inventory.only_stored()
        kept = _forgotten(stores, inventory)
    known = {
        source_id: partition
        for source_id, partition in orphans.items()
        if source_id not in kept and not _unclear(listed, partition)
    }
    append(stores, [], list(known.items()))


def _forgotten(stores: Stores, inventory: Inventory) -> set[str]:
    """Return the documents that only the lake has and that may still be wanted.

    What users handed in is listed from the registry, which says nothing of what it has lost: `concordance rebuild registry` does.
    """
    if not capabilities(stores.source).user_supplied:
        return set()
    return set(inventory.forgotten()).difference(inventory.unregistered())


def _unclear(listed: ListingRecord, partition: str) -> bool:
    return partition in listed.unlisted or EVERYTHING in listed.unlisted


def _report(stores: Stores, listed: ListingRecord, found: _Differences) -> ReconcileReport:
    unshown, unknown = found.unshown(listed), set(found.inventory.unregistered())
    forgotten = _forgotten(stores, found.inventory)
    orphans = found.lake.orphans.keys() - forgotten
    without_rows = {document.source_id for document in found.incomplete if document.rows}
    without_points = [document.source_id for document in found.incomplete if document.points]
    examples: dict[str, Iterable[str]] = {
        "orphans.lake": sorted(orphans),
        "forgotten": sorted(forgotten),
        "orphans.postgres": sorted(unshown),
        "orphans.qdrant": found.examples,
        "missing.lake": sorted(found.lake.missing),
        "missing.postgres": sorted(unknown | without_rows),
        "missing.qdrant": without_points,
    }
    return ReconcileReport(
        source=stores.source,
        checked=found.inventory.checked(),
        orphans=Sides(lake=len(orphans), postgres=len(unshown), qdrant=found.points),
        missing=Sides(
            lake=len(found.lake.missing),
            postgres=len(unknown) + len(without_rows),
            qdrant=sum(document.points for document in found.incomplete),
        ),
        forgotten=len(forgotten),
        waiting=found.inventory.waiting(),
        unlisted=listed.unlisted,
        examples={kind: ids for kind, all_ids in examples.items() if (ids := list(all_ids)[:EXAMPLES])},
    )


def _partitions(stores: Stores) -> list[str]:
    return stores.partitions.partition_names()
