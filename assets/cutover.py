"""Cut over to a filled collection, keep the previous one for rollback, and drop obsolete collections.

The active collection is a pointer in the registry. Syncs wait while it is moved. Searches do not: each continues with the collection
and the model that it started with, whose entries and passages are kept.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
import structlog

from assets.chunked import batches
from assets.index.collection import activate
from assets.index.targets import Target
from assets.indexed import remove_gone
from assets.reindex import Reindex, catch_up, check_complete, lacking, open_reindex
from assets.steps import SETTLED_DOCUMENTS
from resources.core.errors import AbortSyncError, InvalidRequestError
from resources.core.tables import embedded_table
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.fenced import FencedConnection
from resources.stores.postgres import session
from resources.syncs.jobs import hold_all
from resources.syncs.syncing import SyncJob
from sql.scim import Offboarding
from sql.sync import Collections

log = structlog.get_logger("reindex")


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that is obsolete."""

    collection: str
    model: str
    points: int
    building: bool


def promote(work: Reindex, made: Target, *, force: bool = False) -> None:
    """Complete the collection while syncs wait, then make it the active one; with `force`, without documents that its model cannot embed.

    Raises `AbortSyncError` if it is incomplete, and changes nothing.
    """
    left_out: set[str] = set()
    with _alone(work) as held:
        for stores in held:
            job = SyncJob(stores)
            # a sync that was killed while it removed documents has left entries without points
            for part in batches(stores.index_work.marked(partitions=None), SETTLED_DOCUMENTS):
                remove_gone(job, made.collection, part)
            catch_up(job, made)
            left_out |= job.unembeddable
        if left_out and not force:
            raise AbortSyncError(lacking(made, left_out))
        check_complete(held[0], made, left_out)
        replaced = work.active_name()
        # the registry decides, and the next sync corrects an alias: a vector server that ends here leaves the switch undone
        qdrant.switch_alias(held[0].qdrant, made.collection.name)
        activate(held[0].connection, made.collection.name)
    log.info("collection_activated", collection=made.collection.name, kept=replaced)


@contextmanager
def _alone(work: Reindex) -> Generator[list[Stores]]:
    """Hold the leases of all sources. What is written with these stores needs all of them, and that of the reindex."""
    own = work.connection.lease if isinstance(work.connection, FencedConnection) else None
    with hold_all(work.settings) as held:
        for stores in held:
            if stores.lease is not None and own is not None:
                stores.lease.bind(own)
        yield held


def drop_expired(settings: Settings) -> list[Dropped]:
    """Drop and return the collections that were replaced two weeks ago or earlier. Their models' vectors stay in the lake."""
    with session(settings.postgres_dsn) as connection:
        if not any(row.expired for row in Collections(connection).collections()):
            return []
    with open_reindex(settings) as work:
        return drop(work, unfinished=False, vectors=False, by="weekly_upkeep", expired=True)


def obsolete(work: Reindex, *, unfinished: bool, expired: bool = False) -> list[Dropped]:
    """Return the collections that are not searched: replaced ones and, with `unfinished`, one under construction.

    With `expired`, only those that were replaced long ago. Raises `InvalidRequestError` if one was replaced so recently that searches
    may still use it.
    """
    stores = work.jobs[0].stores
    there = set(qdrant.collections(stores.qdrant))
    found: list[Dropped] = []
    for row in work.collections.collections():
        if row.active or (row.building and not unfinished) or (expired and not row.expired):
            continue
        if row.just_replaced:
            raise InvalidRequestError(f"{row.name} was replaced within the last minute; wait until no search uses it.")
        points = qdrant.count_points(stores.qdrant, row.name) if row.name in there else 0
        found.append(Dropped(collection=row.name, model=row.model, points=points, building=row.building))
    return found


def unused_vectors(work: Reindex, found: list[Dropped]) -> list[str]:
    """Return the tables of the lake with vectors of models that no collection uses except those in `found`."""
    stores, gone = work.jobs[0].stores, {one.collection for one in found}
    used = {
        embedded_table(row.model, row.dimensions) for row in stores.collections.collections() if row.name not in gone
    }
    names = [name for name in stores.lake.names() if name.startswith("embedded_") and name not in used]
    return [name for name in names if stores.lake.files(name)]


def drop(work: Reindex, *, unfinished: bool, vectors: bool, by: str, expired: bool = False) -> list[Dropped]:
    """Drop and return obsolete collections; with `vectors`, also clear those of `unused_vectors`.

    Each leaves an event `index_dropped` of `by` in the audit log.
    """
    with _alone(work) as held:
        stores = held[0]
        dropped = obsolete(work, unfinished=unfinished, expired=expired)
        for one in dropped:
            stores.confirm()
            with qdrant.qdrant_errors(f"delete {one.collection}"):
                stores.qdrant.delete_collection(one.collection)
            stores.collections.forget_collection(name=one.collection)
            detail = {"collection": one.collection, "model": one.model, "points": one.points}
            Offboarding(stores.connection).record(email=by, action="index_dropped", detail=detail)
        if vectors:
            for name in unused_vectors(work, dropped):
                stores.keyed.clear(name)
    return dropped
