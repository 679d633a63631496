"""The five stages of a source as plain functions of a `SyncJob`, called by the assets and by tests without Dagster.

In a sync of all five, `raw` runs them together (`assets.waves`), and the others return their results. A stage that is run alone, as
in a backfill, processes everything that it has to in one go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from assets import steps
from assets.chunked import batches
from assets.index.again import admitted, rewrite_all, tell_left
from assets.index.collection import ensure_collection
from assets.index.targets import PENDING_DOCUMENTS, Target, active_target, pending, pending_pages
from assets.index.work import marked
from assets.parsed import parse_missing
from assets.raw import COUNTED, collect
from assets.waves import COUNTS, Waves
from resources.core.domain import STAGES, State
from resources.core.ports import Source
from resources.sources import open_source
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending


def _pending(job: SyncJob, active: Target, *, everything: bool) -> Iterator[list[Pending]]:
    """Yield the documents that a stage has to look at for the active collection, in pages."""
    if job.documents is not None or ((everything or job.full) and not _rewrites(job, everything=everything)):
        yield from pending_pages(job, active, everything=True, rejected=True)
    elif job.stores.collections.collection(name=active.collection.name) is None:
        yield from pending_pages(job, active, rejected=True)
    elif ids := marked(job, active):
        # a run that may leave some to the next one decides about all of them at once
        some = PENDING_DOCUMENTS if job.stores.settings.reindex_documents is None else len(ids)
        for part in batches(ids, some):
            yield admitted(job, pending(job, active, doc_ids=part, rejected=True))


def _each(stage: str, pages: Iterable[list[Pending]], work: Callable[[list[Pending]], StageResult]) -> StageResult:
    """Return what a stage did with all pages."""
    result = StageResult(dict.fromkeys(COUNTS[stage], 0))
    for page in pages:
        result.add(work(page))
    return result


def _rewrites(job: SyncJob, *, everything: bool) -> bool:
    """Return True if this run writes every entry again, and have that done before its first stage."""
    if not (everything or job.full) or STAGES[-1] not in job.planned or job.documents is not None:
        return False
    if not job.rewriting:
        rewrite_all(job, job.partitions)
        job.rewriting = True
    return True


def raw(job: SyncJob, *, source: Source | None = None, everything: bool = False) -> StageResult:
    """Synchronise the lake and the registry with the source; in a sync of all stages, run the others too."""

    def opened() -> Source:
        return source if source is not None else open_source(job.stores.settings, job.stores.source)

    if job.documents is not None:
        return StageResult(dict.fromkeys(COUNTED, 0))
    _rewrites(job, everything=everything)
    if everything or not job.planned.issuperset(STAGES):
        return collect(job, opened(), relist=everything)
    job.overlapped = True
    Waves(job, lambda one, stored: collect(one, opened(), stored=stored)).run()
    return job.results["raw"]


def parsed(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Parse documents that have no text yet."""
    if job.overlapped:
        return _outcome(job, "parsed")
    pages = _pending(job, active_target(job.stores), everything=everything)
    return _each("parsed", pages, lambda page: parse_missing(job, page))


def chunked(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Chunk texts that have no chunks yet."""
    if job.overlapped:
        return _outcome(job, "chunked")
    active = active_target(job.stores)
    pages = _pending(job, active, everything=everything)
    return _each("chunked", pages, lambda page: steps.chunk(job, active, page))


def embedded(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Embed chunks that have no vector yet."""
    if job.overlapped:
        return _outcome(job, "embedded")
    active = active_target(job.stores)
    pages = _pending(job, active, everything=everything)
    return _each("embedded", pages, lambda page: steps.embed(job, active, page))


def indexed(job: SyncJob, *, everything: bool = False) -> StageResult:
    """Synchronise Postgres and Qdrant with the lake, then compact the lake."""
    if job.overlapped:
        return _outcome(job, "indexed")
    active = active_target(job.stores)
    first = next(_pending(job, active, everything=everything), list[Pending]())
    active = ensure_collection(job.stores, active, first)
    result = steps.settle(job, active)
    pages = _pending(job, active, everything=everything)
    result.add(
        _each("indexed", pages, lambda page: steps.index(job, active, _live(page), [one.doc_id for one in page]))
    )
    steps.finish(job, active)
    tell_left(job)
    return result


def _live(documents: Sequence[Pending]) -> list[Pending]:
    return [one for one in documents if one.state == State.LIVE]


def _outcome(job: SyncJob, stage: str) -> StageResult:
    """Return the result of a stage that ran with the others, or raise its error."""
    if stage in job.failures:
        raise job.failures[stage]
    return job.results[stage]


WORK: Mapping[str, Callable[..., StageResult]] = {
    "raw": raw,
    "parsed": parsed,
    "chunked": chunked,
    "embedded": embedded,
    "indexed": indexed,
}


def sync(job: SyncJob, *, source: Source | None = None) -> dict[str, Mapping[str, Any]]:
    """Run all five stages in this process and return their counts."""
    job.planned = set(STAGES)
    raw_of = partial(raw, job, source=source)
    return {stage: job.run(stage, raw_of if stage == "raw" else partial(WORK[stage], job)).counts for stage in STAGES}
