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
from resources.stores import qdrant
from resources.stores.postgres import Connection
from resources.syncing import SyncRun, hold_all
from sql import queries

LOCK_WAIT = "200ms"
"""Searches queue behind the cutover of the tables while it waits for its lock, so it waits briefly and retries often."""
LOCK_ATTEMPTS = 300
LOCK_REST_SECONDS = 0.3

registry = queries("registry")
log = structlog.get_logger("reindex")


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that is obsolete."""

    collection: str
    model: str
    points: int
    building: bool


def switch(work: Reindex, made: Target) -> None:
    """Complete the collection while syncs wait, then make it the active one.

    Raises `AbortSyncError` if it is incomplete, and changes nothing.
    """
    with hold_all(work.settings) as runs:
        for run in runs:
            catch_up(run, made)
        check_complete(runs[0], made)
        replaced: str = registry.active_collection(work.connection)["name"]
        _cut_over(work.connection, replaced, made.collection.name)
        qdrant.switch_alias(runs[0].qdrant, made.collection.name)
    log.info("collection_activated", collection=made.collection.name, kept=replaced)


def _cut_over(connection: Connection, active: str, made: str) -> None:
    """Make `made` the active collection in the registry, with its entries and passages, in one transaction."""
    with connection.transaction():
        registry.keep_entries(connection, collection=active)
        registry.take_entries(connection, collection=made)
        registry.forget_entries(connection, collection=made)
        registry.deactivate_others(connection, name=made)
        registry.activate(connection, name=made)
        registry.raise_version(connection)
        registry.drop_caches(connection)
        connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (LOCK_WAIT,))
        _retry_lock(lambda: _exchange_chunks(connection))


def _exchange_chunks(connection: Connection) -> None:
    with connection.transaction():
        registry.exchange_chunks(connection)


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
    run = work.runs()[0]
    there = set(qdrant.collections(run.qdrant))
    found: list[Dropped] = []
    for row in registry.collections(work.connection):
        if row["active"] or (row["building"] and not unfinished):
            continue
        if row["just_replaced"]:
            raise InvalidRequestError(
                f"{row['name']} was replaced within the last minute; wait until no search uses it."
            )
        points = qdrant.count_points(run.qdrant, row["name"]) if row["name"] in there else 0
        found.append(Dropped(collection=row["name"], model=row["model"], points=points, building=row["building"]))
    return found


def drop(work: Reindex, *, unfinished: bool, vectors: bool) -> list[Dropped]:
    """Drop and return obsolete collections; with `vectors`, also the lake's vectors of models that no collection uses."""
    with hold_all(work.settings) as runs:
        rows = list(registry.collections(work.connection))
        dropped = obsolete(work, unfinished=unfinished)
        for one in dropped:
            with qdrant.qdrant_errors(f"delete {one.collection}"):
                runs[0].qdrant.delete_collection(one.collection)
            registry.forget_collection(work.connection, name=one.collection)
        gone = {one.collection for one in dropped}
        left = [row for row in rows if row["name"] not in gone]
        if dropped and all(row["active"] for row in left):
            registry.clear_beside(work.connection)
        if vectors:
            _drop_vectors(runs[0], [(row["model"], row["dimensions"]) for row in rows if row["name"] in gone])
    return dropped


def _drop_vectors(run: SyncRun, models: list[tuple[str, int]]) -> None:
    for model, dimensions in models:
        run.lake.clear(embedded_table(model, dimensions))
