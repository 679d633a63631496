"""The target collections of a sync: the active one and one under construction, each with its model and chunking.

The model belongs to the collection. The settings determine it for the first collection only; after that `concordance reindex`
changes it. A changed setting therefore never mixes vectors of two models, and searches keep the model they started with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import structlog

from assets.stages.identify import signature
from assets.stages.parse import PARSER_VERSION
from assets.stages.profiles import Profile, profile_names, resolve
from resources.core.domain import DEFAULT_PROFILE
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.core.ports import Embedder
from resources.embedding import ModelChoice, choice, embedder_of, recorded, tokenizer
from resources.embedding.wordpieces import WordPieces
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob
from sql.rows import CollectionRow, Pending

PENDING_DOCUMENTS = 50_000
"""Documents that wait in memory at a time, about 2 kB each. There may be millions."""

log = structlog.get_logger("index")


class IndexCollection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection of the vector index and the parameters fixed at its creation."""

    name: str
    model: str
    dimensions: int
    bm25_avg_len: float
    active: bool = True
    """True if searches read it."""

    def signature(self, profile: Profile) -> str:
        """Return the suffix of the index entry of a document with this profile, after its content key."""
        return signature(PARSER_VERSION, profile.version, self.name)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A collection, its model and its chunking profiles."""

    collection: IndexCollection
    embedder: Embedder
    profiles: Mapping[str, Profile]
    choice: ModelChoice
    settings: Settings
    """Settings that select its model."""

    def signatures(self) -> dict[str, str]:
        """Return the signatures of all profiles."""
        return {name: self.collection.signature(profile) for name, profile in self.profiles.items()}

    def tokenizer(self) -> WordPieces:
        """Return the tokenizer that measures its chunks."""
        return tokenizer(self.settings)


def profiles_for(settings: Settings, window: int) -> dict[str, Profile]:
    """Return every profile that fits the window. Raises `ConfigurationError` if the default one does not."""
    found = {DEFAULT_PROFILE: resolve(settings.chunk_profile, window)}
    for name in sorted(profile_names(settings) - found.keys()):
        try:
            found[name] = resolve(name, window)
        except ConfigurationError:
            continue  # larger than the window: the sources refuse a root that requests it
    return found


def target(settings: Settings, row: CollectionRow, *, active: bool) -> Target:
    """Return the target of a row of `index_collections`. Raises `ConfigurationError` if its model is not available."""
    fields = msgspec.structs.asdict(row)
    chosen = recorded(settings, fields) or choice(settings)
    found = embedder_of(settings, fields)
    collection = IndexCollection(
        name=row.name,
        model=row.model,
        dimensions=row.dimensions,
        bm25_avg_len=row.bm25_avg_len,
        active=active,
    )
    return Target(
        collection=collection,
        embedder=found,
        profiles=profiles_for(settings, found.window),
        choice=chosen,
        settings=chosen.settings(settings),
    )


def proposed(settings: Settings, chosen: ModelChoice, embedder: Embedder, *, average: float, active: bool) -> Target:
    """Return the target for a new collection of this model."""
    name = qdrant.collection_name(embedder.model, embedder.dimensions)
    collection = IndexCollection(
        name=name, model=embedder.model, dimensions=embedder.dimensions, bm25_avg_len=average, active=active
    )
    return Target(
        collection=collection,
        embedder=embedder,
        profiles=profiles_for(settings, embedder.window),
        choice=chosen._replace(window=embedder.window),
        settings=chosen.settings(settings),
    )


def active_target(stores: Stores) -> Target:
    """Return the active collection, or the one that the settings describe if there is none yet."""
    row = stores.collections.active_collection()
    if row is None:
        return proposed(stores.settings, choice(stores.settings), stores.embedder, average=1, active=True)
    return target(stores.settings, row, active=True)


def building(stores: Stores) -> Target | None:
    """Return the collection that a reindex is filling."""
    row = stores.collections.building_collection()
    return None if row is None else target(stores.settings, row, active=False)


def pending(
    job: SyncJob,
    wanted: Target,
    *,
    doc_ids: Sequence[str],
    rejected: bool = False,
    active: Target | None = None,
) -> list[Pending]:
    """Return those of these documents whose entry in the collection is missing or out of date.

    With `rejected`, also those that parsing rejected. With `active`, only those that the current sync processes and those already indexed
    there in an earlier version; the reindex does the rest.
    """
    rows = job.stores.documents.pending(
        collection=wanted.collection.name,
        signatures=wanted.signatures(),
        partitions=job.partitions,
        doc_ids=list(doc_ids),
        everything=False,
        rejected=rejected,
        active=None if active is None else active.signatures(),
        after="",
        most=None,
    )
    return [row for row in rows if row.profile in wanted.profiles]


def pending_pages(
    job: SyncJob, wanted: Target, *, everything: bool = False, rejected: bool = False
) -> Iterator[list[Pending]]:
    """Yield, in pages, what `pending` would return of all documents of the job; with `everything`, all that have content."""
    after = ""
    while True:
        rows = job.stores.documents.pending(
            collection=wanted.collection.name,
            signatures=wanted.signatures(),
            partitions=job.partitions,
            doc_ids=job.documents,
            everything=everything,
            rejected=rejected,
            active=None,
            after=after,
            most=PENDING_DOCUMENTS,
        )
        yield [row for row in rows if row.profile in wanted.profiles]
        if len(rows) < PENDING_DOCUMENTS:
            return
        after = rows[-1].source_id


def secondary_collections(stores: Stores, active: str) -> list[str]:
    """Return the existing collections that are not active: one under construction, or a replaced one that is kept."""
    known = [row.name for row in stores.collections.collections() if row.name != active]
    there = set(qdrant.collections(stores.qdrant)) if known else set[str]()
    return [name for name in known if name in there]


def run_for_secondary(
    job: SyncJob,
    active: Target,
    stage: str,
    work: Callable[[Target, list[Pending]], object],
    doc_ids: Sequence[str],
) -> None:
    """Also run a stage for the collection under construction, for those of these documents that it lacks.

    Its errors do not fail the sync: the reindex catches up.
    """
    try:
        secondary = building(job.stores)
        if secondary is not None and (documents := pending(job, secondary, doc_ids=doc_ids, active=active)):
            work(secondary, documents)
    except ConcordanceError as error:
        log.warning("building_behind", job_id=job.job_id, stage=stage, reason=str(error))
