"""The collections that work is for: the active one, and one that is built beside it; each with its model and its chunking.

The model belongs to the collection, not to the settings: these name it for the first collection only, and `concordance reindex`
changes it after that. So a changed setting never mixes vectors of two models, and searches go on with the model they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from assets.parsed import Pending
from assets.stages.identify import signature
from assets.stages.parse import PARSER_VERSION
from assets.stages.profiles import PROFILES, Profile, resolve
from resources import qdrant
from resources.domain import DEFAULT_PROFILE
from resources.embedding import Embedder, ModelChoice, choice, embedder_of, recorded, tokenizer
from resources.embedding.wordpieces import WordPieces
from resources.errors import ConcordanceError, ConfigurationError
from resources.settings import Settings
from resources.syncing import SyncRun
from sql import queries

registry = queries("registry")
log = structlog.get_logger("index")


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection of the vector index and what was fixed when it was made."""

    name: str
    model: str
    dimensions: int
    bm25_avg_len: float
    served: bool = True
    """Whether it is the active one, whose entries and passages stand in `documents` and `chunks`."""

    def signature(self, profile: Profile) -> str:
        """Return what a document of this profile is indexed as, behind its content key."""
        return signature(PARSER_VERSION, profile.version, self.name)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A collection, its model, and how documents are cut for it."""

    collection: Collection
    embedder: Embedder
    profiles: Mapping[str, Profile]
    choice: ModelChoice
    settings: Settings
    """Settings that name its model."""

    def signatures(self) -> str:
        """Return the signatures of all profiles as JSON, for SQL."""
        found = {name: self.collection.signature(profile) for name, profile in self.profiles.items()}
        return msgspec.json.encode(found).decode()

    def tokenizer(self) -> WordPieces:
        """Return what counts its chunks."""
        return tokenizer(self.settings)


def profiles_for(settings: Settings, window: int) -> dict[str, Profile]:
    """Return every profile that fits the window. Raises `ConfigurationError` when the default one does not."""
    found = {DEFAULT_PROFILE: resolve(settings.chunk_profile, window)}
    for name in ("auto", *PROFILES):
        try:
            found[name] = resolve(name, window)
        except ConfigurationError:
            continue  # larger than the window: no root may ask for it, and the sources refuse one that does
    return found


def target(settings: Settings, row: Mapping[str, Any], *, served: bool) -> Target:
    """Return the target of a row of `index_collections`. Raises `ConfigurationError` when its model is not to be had."""
    chosen = recorded(row) or choice(settings)
    found = embedder_of(settings, row)
    collection = Collection(
        name=row["name"],
        model=row["model"],
        dimensions=row["dimensions"],
        bm25_avg_len=row["bm25_avg_len"],
        served=served,
    )
    return Target(
        collection=collection,
        embedder=found,
        profiles=profiles_for(settings, found.window),
        choice=chosen,
        settings=chosen.settings(settings),
    )


def proposed(settings: Settings, chosen: ModelChoice, embedder: Embedder, *, average: float, served: bool) -> Target:
    """Return the target that a collection of this model would be."""
    name = qdrant.collection_name(embedder.model, embedder.dimensions)
    collection = Collection(
        name=name, model=embedder.model, dimensions=embedder.dimensions, bm25_avg_len=average, served=served
    )
    return Target(
        collection=collection,
        embedder=embedder,
        profiles=profiles_for(settings, embedder.window),
        choice=chosen._replace(window=embedder.window),
        settings=chosen.settings(settings),
    )


def served(run: SyncRun) -> Target:
    """Return the active collection, or the one that the settings ask for while there is none."""
    row = registry.active_collection(run.connection)
    if row is None:
        return proposed(run.settings, choice(run.settings), run.embedder, average=1, served=True)
    return target(run.settings, row, served=True)


def building(run: SyncRun) -> Target | None:
    """Return the collection that a reindex is filling."""
    row = registry.building_collection(run.connection)
    return None if row is None else target(run.settings, row, served=False)


def pending_beside(
    run: SyncRun, beside: Target, active: Target | None = None, *, doc_ids: Sequence[str] | None = None
) -> list[Pending]:
    """Return documents that the collection beside the active one does not hold as it should.

    With `active`, only those that a sync takes in now, and those that it held as they were before: the rest is the reindex's.
    """
    rows = registry.pending_beside(
        run.connection,
        source=run.source.value,
        partitions=run.partitions,
        doc_ids=None if doc_ids is None else list(doc_ids),
        collection=beside.collection.name,
        signatures=beside.signatures(),
        served=None if active is None else active.signatures(),
    )
    fields = Pending.__struct_fields__
    return [Pending(**{name: row[name] for name in fields}) for row in rows if row["profile"] in beside.profiles]


def shadow(run: SyncRun, active: Target, stage: str, work: Callable[[Target, list[Pending]], object]) -> None:
    """Do a stage's work for the collection that is being built as well. Its faults fail no sync: the reindex catches up."""
    try:
        beside = building(run)
        if beside is not None and (documents := pending_beside(run, beside, active)):
            work(beside, documents)
    except ConcordanceError as error:
        log.warning("building.behind", job_id=run.job_id, stage=stage, reason=str(error))
