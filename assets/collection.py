"""The collection that a sync writes to: made when it is missing, and put behind the alias when it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl
import structlog

from assets.chunked import TABLE as CHUNKED
from assets.parsed import Pending
from assets.stages.identify import signature
from assets.stages.parse import PARSER_VERSION
from assets.stages.profiles import Profile
from resources import bm25, qdrant
from resources.errors import CapacityError
from resources.syncing import SyncRun
from sql import queries

SAMPLE_DOCUMENTS = 5000
WARN_SHARE = 0.8
BYTES_A_DIMENSION = 4

registry = queries("registry")
log = structlog.get_logger("index")


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection of the vector index and what was fixed when it was made."""

    name: str
    model: str
    dimensions: int
    bm25_avg_len: float

    def signature(self, profile: Profile) -> str:
        """Return what a document of this profile is indexed as, behind its content key."""
        return signature(PARSER_VERSION, profile.version, self.name)

    def signatures(self, profiles: Mapping[str, Profile]) -> str:
        """Return the signatures of all profiles as JSON, for SQL."""
        return msgspec.json.encode({name: self.signature(profile) for name, profile in profiles.items()}).decode()


def wanted_name(run: SyncRun) -> str:
    """Return the name of the collection that the settings ask for."""
    return qdrant.collection_name(run.embedder.model, run.embedder.dimensions)


def ensure_collection(run: SyncRun, pending: Sequence[Pending]) -> Collection:
    """Return the collection to write to. A collection that Qdrant lost is made anew and everything counts as pending there."""
    name = wanted_name(run)
    known = registry.collection(run.connection, name=name)
    average = _average_length(run, pending) if known is None else known["bm25_avg_len"]
    with qdrant.qdrant_errors("look for the collection"):
        exists = run.qdrant.collection_exists(name)
    if not exists:
        registry.forget_index(run.connection, collection=name)
    qdrant.create_collection(run.qdrant, name, run.embedder.dimensions)
    if known is None or not exists:
        log.info("collection.created", collection=name, bm25_avg_len=round(average, 2))
    collection = Collection(
        name=name, model=run.embedder.model, dimensions=run.embedder.dimensions, bm25_avg_len=average
    )
    if known is None:
        registry.save_collection(
            run.connection,
            name=name,
            model=collection.model,
            dimensions=collection.dimensions,
            chunking_version=PARSER_VERSION,
            bm25_avg_len=average,
        )
    if qdrant.current_collection(run.qdrant) is None:
        _activate(run, name)
    return collection


def finish(run: SyncRun, collection: Collection) -> None:
    """Switch the alias once every live document of every source is in the collection."""
    if qdrant.current_collection(run.qdrant) == collection.name:
        return
    if registry.elsewhere(run.connection, collection=collection.name)["documents"] == 0:
        _activate(run, collection.name)


def check_capacity(run: SyncRun, collection: Collection, more: int) -> None:
    """Warn at 80 % of the capacity that the settings allow. Raises `CapacityError` before it would be passed."""
    settings = run.settings
    if settings.max_vectors is None and settings.max_index_bytes is None:
        return
    held = qdrant.count_points(run.qdrant, collection.name)
    limits = {
        "MAX_VECTORS": (held + more, settings.max_vectors),
        "MAX_INDEX_BYTES": ((held + more) * collection.dimensions * BYTES_A_DIMENSION, settings.max_index_bytes),
    }
    for variable, (amount, limit) in limits.items():
        if limit is None:
            continue
        if amount > limit:
            raise CapacityError(
                f"The index would pass CONCORDANCE_{variable}={limit} ({amount} needed). Nothing was lost: raise the limit "
                "or remove documents, then sync again."
            )
        if amount > WARN_SHARE * limit:
            log.warning("index.capacity", variable=variable, amount=amount, limit=limit)


def _activate(run: SyncRun, name: str) -> None:
    qdrant.switch_alias(run.qdrant, name)
    with run.connection.transaction():
        registry.deactivate_others(run.connection, name=name)
        registry.activate(run.connection, name=name)
        registry.raise_version(run.connection)
    log.info("collection.activated", collection=name)


def _average_length(run: SyncRun, pending: Sequence[Pending]) -> float:
    """Return the mean BM25 length of the chunks about to be indexed: the corpus's length normalisation is fixed here."""
    keys = [document.content_key for document in pending[:SAMPLE_DOCUMENTS]]
    texts = (
        run.lake.scan(CHUNKED)
        .filter(pl.col("content_key").is_in(keys) & (pl.col("chunk_index") >= 0))
        .select("text")
        .collect()
    )
    return bm25.mean_length(texts["text"].to_list())
