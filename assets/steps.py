"""The stages after `raw` as functions of a list of documents, for the active collection and one under construction."""

from collections.abc import Container, Sequence
from functools import partial

from assets.chunked import TABLE as CHUNKED
from assets.chunked import batches, chunk_missing
from assets.embedded import embed_missing, embeddable
from assets.index.keywords import refresh_keyword_vectors
from assets.index.targets import IndexCollection, Target, run_for_secondary
from assets.index.work import marked, merge_counts, unmark
from assets.indexed import index_missing, refresh_checks, remove_gone, update_payloads
from assets.parsed import TABLE as PARSED
from assets.raw import raw_table
from resources.core.tables import embedded_table
from resources.stores.compaction import compact_written
from resources.stores.uploads import follow_origins
from resources.stores.withholding import settle_documents
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending
from sql.sources import Events

COMPACT_BATCH = 50_000
SETTLED_DOCUMENTS = 10_000
"""Documents whose rows are in memory at a time. A change of a folder's readers may concern millions."""


def chunk(job: SyncJob, active: Target, documents: Sequence[Pending]) -> StageResult:
    """Chunk texts that have no chunks yet."""
    result = chunk_missing(job, documents, active.profiles, active.tokenizer())
    run_for_secondary(job, active, "chunked", lambda other, rows: chunk_missing(
        job, rows, other.profiles, other.tokenizer()
    ), [one.doc_id for one in documents])  # fmt: skip
    return result


def embed(job: SyncJob, active: Target, documents: Sequence[Pending]) -> StageResult:
    """Embed chunks that have no vector yet."""
    result = embed_missing(job, active, documents)
    ids = [one.doc_id for one in documents]
    run_for_secondary(job, active, "embedded", lambda other, rows: embed_missing(job, other, rows), ids)
    return result


def index(job: SyncJob, active: Target, documents: Sequence[Pending], ids: Sequence[str]) -> StageResult:
    """Write documents to both stores; `ids` are those that the collection under construction may lack."""
    # before the active collection: once it has these documents, they are no longer recognisable as new
    run_for_secondary(job, active, "indexed", lambda other, rows: _write(job, other, embeddable(job, rows)), ids)
    return _write(job, active, documents)


def _write(job: SyncJob, target: Target, documents: Sequence[Pending]) -> StageResult:
    result = StageResult({"documents": 0, "points": 0})
    for part in batches(documents, COMPACT_BATCH):
        result.add(index_missing(job, target, part))
    return result


def list_keys(job: SyncJob, active: Target) -> None:
    """List the keys of the tables a sync reads that an earlier version wrote, or that may be newer than a restored database: each look-up
    reads all of them until then. A table of another model is left to the reindex, so one that is damaged fails no sync.
    """
    for name in _keyed(active.collection):
        job.stores.keyed.complete(name, partial(job.progress, "indexed"))


def _keyed(collection: IndexCollection) -> tuple[str, ...]:
    return PARSED, CHUNKED, embedded_table(collection.model, collection.dimensions)


def settle(job: SyncJob, active: Target, busy: Container[str] = ()) -> StageResult:
    """Remove deleted documents, let new readers of content that is indexed now read it, and update changed payloads and names, except of
    documents that another thread is writing.
    """
    with job.writing:
        if job.stores.documents.widen(partitions=job.stores.covered):
            follow_origins(job.stores.connection, job.stores.withheld)
    ids = marked(job, active)
    result = StageResult({"removed": 0, "payloads_updated": 0, "keywords_refreshed": 0})
    for part in batches(ids, SETTLED_DOCUMENTS):
        result.add(remove_gone(job, active.collection, part, busy=busy))
    for part in batches([one for one in ids if one not in busy], SETTLED_DOCUMENTS):
        result.add(update_payloads(job, active, part))
        result.counts["keywords_refreshed"] += refresh_keyword_vectors(job, active, part)
    return result


def finish(job: SyncJob, active: Target) -> None:
    """Show documents again whose events are processed, refresh permission checks, keep the marks of documents that still differ, and
    compact what was written of the lake.
    """
    stores, collection = job.stores, active.collection
    events = Events(stores.connection)
    events.show(source=stores.source.value)
    events.members_read(source=stores.source.value)
    refresh_checks(stores)
    stores.repeating.call(partial(settle_documents, stores.connection, stores.withheld, stores.source.value))
    unmark(job, active, marked(job, active))
    merge_counts(stores)
    written = [table for table in (raw_table(stores.source), *_keyed(collection)) if table in stores.lake.appended]
    compact_written(stores.settings.postgres_dsn, stores.lake, written)
