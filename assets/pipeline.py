"""The five stages of a source as plain functions of a `SyncJob`, called by the assets and by tests without Dagster."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from assets.chunked import batches, chunk_missing
from assets.embedded import embed_missing
from assets.index.collection import ensure_collection
from assets.index.keywords import refresh_keyword_vectors
from assets.index.targets import Target, active_target, pending, run_for_secondary
from assets.indexed import index_missing, refresh_checks, remove_gone, update_payloads
from assets.parsed import parse_missing
from assets.raw import collect, raw_table
from resources.core.domain import STAGES
from resources.core.ports import Source
from resources.core.tables import embedded_table
from resources.sources import open_source
from resources.syncing import StageResult, SyncJob
from sql.rows import Pending
from sql.sources import Events

COMPACT_BATCH = 50_000


def _pending(job: SyncJob, active: Target, *, everything: bool) -> list[Pending]:
    """Return the documents that a stage has to look at for the active collection."""
    return pending(job, active, everything=everything or job.full, rejected=True)


def raw(job: SyncJob, *, source: Source | None = None, everything: bool = False) -> StageResult:
    """Synchronise the lake and the registry with the source."""
    return collect(
        job, source if source is not None else open_source(job.stores.settings, job.stores.source), relist=everything
    )


def parsed(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Parse documents that have no text yet."""
    return parse_missing(job, _pending(job, active_target(job.stores), everything=everything))


def chunked(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Chunk texts that have no chunks yet."""
    active = active_target(job.stores)
    counts = chunk_missing(job, _pending(job, active, everything=everything), active.profiles, active.tokenizer())
    run_for_secondary(job, active, "chunked", lambda secondary, documents: chunk_missing(
        job, documents, secondary.profiles, secondary.tokenizer()
    ))  # fmt: skip
    return StageResult(counts)


def embedded(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Embed chunks that have no vector yet."""
    active = active_target(job.stores)
    counts = embed_missing(job, active, _pending(job, active, everything=everything))
    run_for_secondary(job, active, "embedded", lambda secondary, documents: embed_missing(job, secondary, documents))
    return StageResult(counts)


def indexed(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Synchronise Postgres and Qdrant with the lake, then compact the lake."""
    stores = job.stores
    active = active_target(stores)
    active = ensure_collection(stores, active, _pending(job, active, everything=everything))
    result = StageResult({"documents": 0, "points": 0, "removed": remove_gone(job, active.collection)})
    result.add(update_payloads(job, active))
    result.counts["keywords_refreshed"] = refresh_keyword_vectors(job, active)
    todo = [document for document in _pending(job, active, everything=everything) if document.state == "live"]
    # before the active collection: once it has these documents, they are no longer recognisable as new
    run_for_secondary(job, active, "indexed", lambda secondary, documents: _write(job, secondary, documents))
    result.add(_write(job, active, todo))
    events = Events(stores.connection)
    events.show(source=stores.source.value)
    events.members_read(source=stores.source.value)
    refresh_checks(stores, active.collection)
    collection = active.collection
    for table in (
        raw_table(stores.source),
        "parsed",
        "chunked",
        embedded_table(collection.model, collection.dimensions),
    ):
        stores.lake.compact(table)
    return result


def _write(job: SyncJob, target: Target, documents: Sequence[Pending]) -> StageResult:
    result = StageResult()
    for part in batches(documents, COMPACT_BATCH):
        result.add(index_missing(job, target, part))
    return result


WORK: Mapping[str, Callable[..., StageResult]] = {
    "raw": raw,
    "parsed": parsed,
    "chunked": chunked,
    "embedded": embedded,
    "indexed": indexed,
}


def sync(job: SyncJob, *, source: Source | None = None) -> dict[str, Mapping[str, Any]]:
    """Run all five stages in order in this process and return their counts."""
    raw_of = partial(raw, job, source=source)
    return {stage: job.run(stage, raw_of if stage == "raw" else partial(WORK[stage], job)).counts for stage in STAGES}
