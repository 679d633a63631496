"""The change of places: a filled collection becomes the active one, the one before it is kept, and what is obsolete is dropped.

Syncs wait for the moment of the change, searches do not: each goes on with the collection and the model that it began with, and its
passages stay readable in either table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import msgspec
import psycopg
import structlog

from assets.reindex import Reindex, catch_up, check_whole
from assets.targets import Target
from resources import qdrant
from resources.domain import SourceName
from resources.errors import InvalidRequestError, ServiceUnavailableError
from resources.postgres import Connection
from resources.syncing import SyncRun, hold
from resources.tables import embedded_table
from sql import queries

EXCHANGE_WAIT = "200ms"
"""Searches wait behind the exchange of tables while it waits for its turn, so it waits briefly and often."""
EXCHANGE_ATTEMPTS = 300
EXCHANGE_REST_SECONDS = 0.3

registry = queries("registry")
log = structlog.get_logger("reindex")


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that is obsolete."""

    collection: str
    model: str
    points: int
    building: bool


def switch(work: Reindex, made: Target) -> None:
    """Complete the collection while syncs wait, then let it and the active one change places.

    Raises `AbortSyncError` when it is not whole, and leaves everything as it was.
    """
    with ExitStack() as stack:
        runs = [stack.enter_context(hold(work.settings, source)) for source in SourceName]
        for run in runs:
            catch_up(run, made)
        check_whole(runs[0], made)
        replaced: str = registry.active_collection(work.connection)["name"]
        _exchange(work.connection, replaced, made.collection.name)
        qdrant.switch_alias(runs[0].qdrant, made.collection.name)
    log.info("collection.activated", collection=made.collection.name, kept=replaced)


def _exchange(connection: Connection, active: str, made: str) -> None:
    """Let the registry say that `made` is the active collection, entries and passages with it, in one transaction."""
    with connection.transaction():
        registry.keep_entries(connection, collection=active)
        registry.take_entries(connection, collection=made)
        registry.forget_entries(connection, collection=made)
        registry.deactivate_others(connection, name=made)
        registry.activate(connection, name=made)
        registry.raise_version(connection)
        registry.drop_caches(connection)
        connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (EXCHANGE_WAIT,))
        _at_last(lambda: _exchange_chunks(connection))


def _exchange_chunks(connection: Connection) -> None:
    with connection.transaction():
        registry.exchange_chunks(connection)


def _at_last(action: Callable[[], None]) -> None:
    """Run `action` until no reader is in its way."""
    for _ in range(EXCHANGE_ATTEMPTS):
        try:
            return action()
        except psycopg.errors.LockNotAvailable:
            time.sleep(EXCHANGE_REST_SECONDS)
    raise ServiceUnavailableError(
        "Something keeps the table of passages busy (a backup or a vacuum?), so the index was not changed. Run the same command later."
    )


def obsolete(work: Reindex, *, unfinished: bool) -> list[Dropped]:
    """Return the collections that nobody searches: replaced ones, and with `unfinished` one that is being built.

    Raises `InvalidRequestError` when one was replaced so lately that searches may still go to it.
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
    """Drop what is obsolete and return it; with `vectors`, also what the lake keeps of models that no collection has any more."""
    with ExitStack() as stack:
        runs = [stack.enter_context(hold(work.settings, source)) for source in SourceName]
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
