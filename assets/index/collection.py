"""Create the collection that a sync writes to if it is missing, and point the alias to it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl
import structlog

from assets.chunked import TABLE as CHUNKED
from assets.chunked import chunk_version
from assets.index.targets import IndexCollection, Target
from assets.stages.parse import PARSER_VERSION
from resources.core import bm25
from resources.core.errors import CapacityError
from resources.core.naming import keyword_text, name_words
from resources.embedding import choice
from resources.embedding.prompts import NO_PROMPTS
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.postgres import Connection
from resources.stores.room import check_room
from sql.rows import CollectionRow, Pending
from sql.sync import Collections

SAMPLE_DOCUMENTS = 5000
WARN_SHARE = 0.8

log = structlog.get_logger("index")


def ensure_collection(stores: Stores, active: Target, pending: Sequence[Pending]) -> Target:
    """Return the target to write to. A collection that Qdrant lost is created again, and all documents become pending.

    Points of a collection that is not in this database are kept and reported, since another installation may have written them.
    """
    name = active.collection.name
    known = stores.collections.collection(name=name)
    average = (
        known.bm25_avg_len if known is not None and is_measured(known) else average_length(stores, active, pending)
    )
    collection = msgspec.structs.replace(active.collection, bm25_avg_len=average)
    with qdrant.qdrant_errors("look for the collection"):
        exists = stores.qdrant.collection_exists(name)
    if not exists:
        stores.collections.forget_points(collection=name)
    qdrant.create_collection(stores.qdrant, name, collection.dimensions, qdrant.layout_of(stores.settings))
    if not exists:
        log.info("collection_created", collection=name, bm25_avg_len=round(average, 2))
    elif known is None and (points := qdrant.count_points(stores.qdrant, name)):
        log.warning(
            "collection_unknown_points", collection=name, points=points, bring_back_with="concordance rebuild registry"
        )
    found = msgspec.structs.replace(active, collection=collection)
    if known is None:
        record(stores, found)
    elif average != known.bm25_avg_len:
        average = stores.collections.measured(name=name, bm25_avg_len=average, unmeasured=bm25.SHORTEST_MEAN)
        found = msgspec.structs.replace(active, collection=msgspec.structs.replace(collection, bm25_avg_len=average))
        log.info("collection_measured", collection=name, bm25_avg_len=round(average, 2))
    if known is None or not known.active:
        qdrant.switch_alias(stores.qdrant, name)
        activate(stores.connection, name)
        log.info("collection_activated", collection=name)
    elif qdrant.current_collection(stores.qdrant) != name:
        qdrant.switch_alias(stores.qdrant, name)  # a crash came between the switch of the alias and of the registry
    wanted = choice(stores.settings)
    if active.choice[:2] != wanted[:2] or (active.choice.prompts or NO_PROMPTS) != (wanted.prompts or NO_PROMPTS):
        log.warning("settings_other_model", collection=name, model=collection.model, change_with="concordance reindex")
    return found


def is_measured(known: CollectionRow | None) -> bool:
    """Return True if the average length was measured. It was not if a source without documents was the first to be synced."""
    return known is not None and known.bm25_avg_len > bm25.SHORTEST_MEAN


def record(stores: Stores, made: Target) -> None:
    """Record the parameters of a new collection."""
    prompts = made.choice.prompts
    stores.collections.save_collection(
        name=made.collection.name,
        model=made.collection.model,
        dimensions=made.collection.dimensions,
        chunking_version=PARSER_VERSION,
        bm25_avg_len=made.collection.bm25_avg_len,
        provider=made.choice.provider,
        model_source=made.choice.source,
        model_dimensions=made.choice.dimensions,
        model_window=made.choice.window,
        model_prompts=prompts.model_dump_json() if prompts is not None else None,
    )


def check_capacity(stores: Stores, collection: IndexCollection, more: int) -> None:
    """Warn at 80 % of the configured capacity. Raises `CapacityError` before it, or the room on a disk, would be exceeded."""
    check_room(stores.settings)
    limit = stores.settings.max_vectors
    if limit is None:
        return
    amount = qdrant.count_points(stores.qdrant, collection.name) + more
    if amount > limit:
        raise CapacityError(
            f"The index would exceed CONCORDANCE_LIMITS__MAX_VECTORS={limit} ({amount} needed). Nothing was lost: raise the "
            "limit or remove documents, then sync again."
        )
    if amount > WARN_SHARE * limit:
        log.warning("index_capacity", variable="max_vectors", amount=amount, limit=limit)


def activate(connection: Connection, name: str) -> None:
    """Make a collection the active one in the registry, in one transaction."""
    collections = Collections(connection)
    with connection.transaction():
        collections.deactivate_others(name=name)
        collections.activate(name=name)
        collections.raise_version()


def average_length(stores: Stores, made: Target, pending: Sequence[Pending]) -> float:
    """Return the mean BM25 length of the chunks about to be indexed, which fixes the corpus's length normalisation.

    Only the title from the source is counted; a title inside the file is usually part of its text.
    """
    names = {document.content_key: document.title for document in pending[:SAMPLE_DOCUMENTS]}
    versions = [chunk_version(profile) for profile in made.profiles.values()]
    rows = (
        stores.keyed.rows(CHUNKED, names)
        .filter(pl.col("version").is_in(versions) & (pl.col("chunk_index") >= 0))
        .select("content_key", "chunk_index", "text", "language")
        .collect()
    )
    return bm25.mean_length(
        [keyword_text(name_words([names[key]], index, text), text) for key, index, text, _ in rows.iter_rows()],
        rows["language"].to_list(),
    )
