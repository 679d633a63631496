"""Cut over to a filled collection, keep the previous one for rollback, and drop obsolete collections.

Syncs wait during the cutover. Searches do not: each continues with the collection and the model that it started with, and its
passages stay readable in either table.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import psycopg
import structlog

from assets.index.reindex import Reindex, catch_up, check_complete
from assets.index.targets import Target
from resources.core.errors import InvalidRequestError, ServiceUnavailableError
from resources.core.tables import embedded_table
from resources.jobs import hold_all
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.postgres import Connection
from resources.syncing import SyncJob
from sql.sync import Collections

LOCK_WAIT = "200ms"
"""Searches queue behind the cutover of the tables while it waits for its lock, so it waits briefly and retries often."""
LOCK_ATTEMPTS = 300
LOCK_REST_SECONDS = 0.3

log = structlog.get_logger("reindex")


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that is obsolete."""

    collection: str
    model: str
    points: int
    building: bool


def promote(work: Reindex, made: Target) -> None:
    """Complete the collection while syncs wait, then make it the active one.

    Raises `AbortSyncError` if it is incomplete, and changes nothing.
    """
    with hold_all(work.settings) as held:
        for stores in held:
            catch_up(SyncJob(stores), made)
        check_complete(held[0], made)
        replaced = work.active_name()
        _cut_over(work.connection, replaced, made.collection.name)
        qdrant.switch_alias(held[0].qdrant, made.collection.name)
    log.info("collection_activated", collection=made.collection.name, kept=replaced)


def _cut_over(connection: Connection, active: str, made: str) -> None:
    """Make `made` the active collection in the registry, with its entries and passages, in one transaction."""
    collections = Collections(connection)
    with connection.transaction():
        collections.keep_entries(collection=active)
        collections.take_entries(collection=made)
        collections.forget_entries(collection=made)
        collections.deactivate_others(name=made)
        collections.activate(name=made)
        collections.raise_version()
        collections.drop_caches()
        connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (LOCK_WAIT,))
        _retry_lock(lambda: _exchange_chunks(connection))


def _exchange_chunks(connection: Connection) -> None:
    with connection.transaction():
        Collections(connection).exchange_chunks()


def _retry_lock(action: Callable[[], None]) -> None:
    """Run `action`, retrying while readers hold the lock."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            return action()
        except psycopg.errors.LockNotAvailable:
            time.sleep(LOCK_REST_SECONDS)
    raise ServiceUnavailableError(
        "The table of passages is locked, perhaps by a backup or a vacuum, so the index was not changed. Run the same command later."
    )


def obsolete(work: Reindex, *, unfinished: bool) -> list[Dropped]:
    """Return the collections that are not searched: replaced ones and, with `unfinished`, one under construction.

    Raises `InvalidRequestError` if one was replaced so recently that searches may still use it.
    """
    stores = work.jobs[0].stores
    there = set(qdrant.collections(stores.qdrant))
    found: list[Dropped] = []
    for row in work.collections.collections():
        if row.active or (row.building and not unfinished):
            continue
        if row.just_replaced:
            raise InvalidRequestError(f"{row.name} was replaced within the last minute; wait until no search uses it.")
        points = qdrant.count_points(stores.qdrant, row.name) if row.name in there else 0
        found.append(Dropped(collection=row.name, model=row.model, points=points, building=row.building))
    return found


def drop(work: Reindex, *, unfinished: bool, vectors: bool) -> list[Dropped]:
    """Drop and return obsolete collections; with `vectors`, also the lake's vectors of models that no collection uses."""
    with hold_all(work.settings) as held:
        rows = work.collections.collections()
        dropped = obsolete(work, unfinished=unfinished)
        for one in dropped:
            with qdrant.qdrant_errors(f"delete {one.collection}"):
                held[0].qdrant.delete_collection(one.collection)
            work.collections.forget_collection(name=one.collection)
        gone = {one.collection for one in dropped}
        left = [row for row in rows if row.name not in gone]
        if dropped and all(row.active for row in left):
            work.collections.clear_beside()
        if vectors:
            _drop_vectors(held[0], [(row.model, row.dimensions) for row in rows if row.name in gone])
    return dropped


def _drop_vectors(stores: Stores, models: list[tuple[str, int]]) -> None:
    for model, dimensions in models:
        stores.lake.clear(embedded_table(model, dimensions))
