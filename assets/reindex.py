"""Build a secondary collection for another embedding model from the lake's texts, while searches continue.

Nothing is fetched or parsed again. Texts are chunked for the new model's window and embedded in the background; the syncs of a source
wait only while a batch of points is written. Syncs write to both collections as soon as the new one exists. Every step is an anti-join,
so a run after a crash continues where it stopped; `assets/cutover.py` makes the result active.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager

import msgspec
import polars as pl
import structlog

from assets.chunked import batches, chunk_missing
from assets.embedded import embed_missing, embeddable, texts_of
from assets.index.collection import average_length, record
from assets.index.targets import Target, active_target, pending, pending_pages, proposed, target
from assets.indexed import index_missing
from resources.core.errors import AbortSyncError, InvalidRequestError
from resources.core.scratch import scratch_database, told_when_full
from resources.core.tables import embedded_table
from resources.embedding import ModelChoice, embedder
from resources.settings import Settings
from resources.stores import leases, qdrant
from resources.stores.clients import Stores
from resources.stores.compaction import compact_written
from resources.stores.fenced import fenced_session
from resources.stores.postgres import Connection
from resources.syncs.jobs import hold, stored_sources
from resources.syncs.syncing import SyncJob
from sql.rows import LeftBehind, Pending
from sql.sync import Collections

BATCH_DOCUMENTS = 1000
"""Documents whose points are written at a time: about 2,500 chunks, for which syncs of the source wait two or three seconds."""
SAMPLE_TEXTS = 48
"""Texts embedded to measure the model's rate; less than a second at the bundled model's 70 per second."""
WORK = "reindex"
"""Name of its lease: one process at a time reindexes or cleans up."""

log = structlog.get_logger("reindex")

Progress = Callable[[int, int], None]
"""Called with the number of chunks embedded and the number to embed."""


class SourceEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a source in the work of a reindex; texts that several sources have count for the first."""

    source: str
    documents: int
    chunks: int
    to_embed: int
    tokens: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimate of a reindex: its work and its cost."""

    collection: str
    model: str
    dimensions: int
    documents: int
    """Documents that are not in the new collection yet."""
    chunks: int
    """Distinct chunk texts of these."""
    to_embed: int
    """Those without a vector of this model in the lake."""
    tokens: int
    cost_usd: float | None
    """None if the price of the model is unknown."""
    chunks_per_second: float | None
    """Measured now; None if there is nothing to embed."""
    hours: float
    sources: list[SourceEstimate]
    """Those with documents that are not in the new collection yet."""


class Reindex:
    """Fills one secondary collection. Made by `open_reindex`."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self.settings = settings
        self.connection = connection
        self.collections = Collections(connection)
        self.jobs = [SyncJob(Stores(settings, source, connection)) for source in stored_sources(connection)]
        """One for each source, without its lease."""

    def active_name(self) -> str:
        """Return the active collection's name. Raises `InvalidRequestError` when there is none."""
        row = self.collections.active_collection()
        if row is None:
            raise InvalidRequestError("There is no index yet: set the model by CONCORDANCE_EMBEDDING_MODEL and sync.")
        return row.name

    def active(self) -> Target:
        """Return the active collection. Raises `ConfigurationError` if its model is no longer available."""
        return active_target(self.jobs[0].stores)

    def wanted(self, chosen: ModelChoice) -> Target:
        """Return the target for a model, whether new or started earlier.

        Raises `InvalidRequestError` if it is already active, another secondary collection exists, or documents use chunks larger than
        the model's window.
        """
        found = proposed(self.settings, chosen, embedder(chosen.settings(self.settings)), average=1, active=False)
        name = found.collection.name
        rows = self.collections.collections()
        for row in rows:
            if row.name == name and row.active:
                raise InvalidRequestError(f"The index already uses {row.model}.")
        for row in rows:
            if row.name != name and row.building:
                raise InvalidRequestError(
                    f"A reindex to {row.model} is under way. Finish it with the same model, or drop the unfinished collection: "
                    "concordance cleanup --unfinished --yes"
                )
            if row.name != name and row.replaced_at is not None:
                raise InvalidRequestError(
                    f"The index of {row.model} is still kept for rollback. Drop it first: concordance cleanup --yes"
                )
        too_large = [
            f"{row.profile} ({row.documents} documents)"
            for row in self.collections.profiles_in_use()
            if row.profile not in found.profiles
        ]
        if too_large:
            raise InvalidRequestError(
                f"{found.collection.model} sees {found.embedder.window} tokens, which is less than the chunks of these profiles: "
                f"{', '.join(too_large)}. Give their roots a smaller profile, or choose a model with a larger window."
            )
        return found

    def kept(self) -> Target:
        """Return the collection that was replaced last. Raises `InvalidRequestError` if none is kept."""
        row = self.collections.kept_collection()
        if row is None:
            raise InvalidRequestError("No earlier index is kept, so there is nothing to roll back to.")
        return target(self.settings, row, active=False)

    def estimate(self, made: Target) -> Estimate:
        """Return what filling the collection takes. Texts are chunked now, which needs no model, so the count is exact."""
        rate: float | None = None
        sources: list[SourceEstimate] = []
        with scratch_database() as known, told_when_full():
            known.execute("CREATE TABLE texts (text_hash TEXT PRIMARY KEY) WITHOUT ROWID")
            for job in self.jobs:
                documents, chunks, to_embed, tokens = 0, 0, 0, 0
                for part in (part for page in pending_pages(job, made) for part in batches(page, BATCH_DOCUMENTS)):
                    documents += len(part)
                    chunk_missing(job, part, made.profiles, made.tokenizer())
                    texts = texts_of(job.stores, part, made.profiles)
                    new = "INSERT OR IGNORE INTO texts VALUES (?)"
                    texts = texts.filter([known.execute(new, [one]).rowcount == 1 for one in texts["text_hash"]])
                    missing = _without_vector(job.stores, made, texts)
                    chunks += texts.height
                    to_embed += missing.height
                    tokens += int(missing["tokens"].sum())
                    if rate is None and missing.height:
                        rate = _rate(made, missing["text"].head(SAMPLE_TEXTS).to_list())
                if documents:
                    sources.append(
                        SourceEstimate(
                            source=job.stores.source.value,
                            documents=documents,
                            chunks=chunks,
                            to_embed=to_embed,
                            tokens=tokens,
                        )
                    )
        tokens, to_embed = sum(one.tokens for one in sources), sum(one.to_embed for one in sources)
        price = made.embedder.price_per_million
        return Estimate(
            collection=made.collection.name,
            model=made.collection.model,
            dimensions=made.collection.dimensions,
            documents=sum(one.documents for one in sources),
            chunks=sum(one.chunks for one in sources),
            to_embed=to_embed,
            tokens=tokens,
            cost_usd=None if price is None else round(tokens / 1e6 * price, 4),
            chunks_per_second=None if rate is None else round(rate, 1),
            hours=0.0 if rate is None else round(to_embed / rate / 3600, 4),
            sources=sources,
        )

    def begin(self, made: Target) -> Target:
        """Create the collection if needed and make syncs write to it. One that Qdrant lost starts from scratch."""
        name = made.collection.name
        stores = self.jobs[0].stores
        known = self.collections.collection(name=name)
        average = self._average(made) if known is None else known.bm25_avg_len
        made = msgspec.structs.replace(made, collection=msgspec.structs.replace(made.collection, bm25_avg_len=average))
        with qdrant.qdrant_errors("look for the collection"):
            exists = stores.qdrant.collection_exists(name)
        qdrant.create_collection(stores.qdrant, name, made.collection.dimensions, qdrant.layout_of(stores.settings))
        with self.connection.transaction():
            record(stores, made)
            if not exists:
                self.collections.forget_entries(collection=name)
            self.collections.begin_building(name=name)
        return made

    def fill(self, made: Target, progress: Progress, to_embed: int, *, batch: int = BATCH_DOCUMENTS) -> None:
        """Write pending documents to the collection, holding syncs only briefly, until none are left or the limit of a run is reached."""
        limit = self.settings.reindex_documents
        table = embedded_table(made.collection.model, made.collection.dimensions)
        self.jobs[0].stores.keyed.complete(table)

        def write(job: SyncJob, part: Sequence[Pending]) -> int:
            chunk_missing(job, part, made.profiles, made.tokenizer())
            embed_missing(job, made, part)
            if not (part := embeddable(job, part)):
                return 0
            progress(sum(one.counts.embedded for one in self.jobs), to_embed)
            compact_written(self.settings.postgres_dsn, job.stores.lake, [table])
            partitions = sorted({document.partition for document in part})
            with hold(self.settings, job.stores.source, partitions=partitions) as stores:
                return _write(SyncJob(stores), made, part)

        for job in self.jobs:
            # what is left then is not parsed yet, and the sync that parses it writes to both collections; or it cannot be embedded; or no
            # more are allowed
            going_on = True
            while going_on:
                going_on = False
                for page in pending_pages(job, made):
                    todo = sorted(embeddable(job, page)[:limit], key=lambda one: one.partition)
                    failed = len(job.unembeddable)
                    written = sum(write(job, part) for part in batches(todo, batch))
                    going_on |= written + len(job.unembeddable) > failed
                    if limit is not None:
                        limit -= written

    def left(self, made: Target) -> int:
        """Return how many documents of the active collection are not in this one yet."""
        return expected_points(self.connection, made).documents

    def left_out(self) -> set[str]:
        """Return the ids of the documents that the model of the new collection could not embed so far."""
        return {doc_id for job in self.jobs for doc_id in job.unembeddable}

    def _average(self, made: Target) -> float:
        """Return the mean BM25 length of the source with the most documents."""
        todo = max((next(pending_pages(job, made)) for job in self.jobs), key=len)
        return average_length(self.jobs[0].stores, made, todo)


@contextmanager
def open_reindex(settings: Settings) -> Generator[Reindex]:
    """Open a reindex; only one process at a time may hold it. Raises `BusyError` or `ServiceUnavailableError`."""
    with (
        leases.alone(
            settings.postgres_dsn, WORK, "Another process is reindexing, erasing, backing up or cleaning up."
        ) as lease,
        fenced_session(settings.postgres_dsn, lease) as connection,
    ):
        yield Reindex(settings, connection)


def catch_up(job: SyncJob, made: Target) -> None:
    """Write the remaining documents of a source to the collection while its syncs wait, without those that its model cannot embed."""
    for todo in pending_pages(job, made):
        chunk_missing(job, todo, made.profiles, made.tokenizer())
        embed_missing(job, made, todo)
        _write(job, made, embeddable(job, todo))


def _write(job: SyncJob, made: Target, documents: Sequence[Pending]) -> int:
    """Write the documents that have not changed since they were embedded; return their number."""
    were = {(document.doc_id, document.content_key) for document in documents}
    ids = [document.doc_id for document in documents]
    todo = [one for one in pending(job, made, doc_ids=ids) if (one.doc_id, one.content_key) in were]
    if not todo:
        return 0
    return index_missing(job, made, todo).counts["documents"]


def _without_vector(stores: Stores, made: Target, texts: pl.DataFrame) -> pl.DataFrame:
    table = embedded_table(made.collection.model, made.collection.dimensions)
    return texts.filter(~pl.col("text_hash").is_in(stores.keyed.present(table, texts["text_hash"]).implode()))


def _rate(made: Target, texts: list[str]) -> float:
    """Measure and return chunks per second; the first text only warms up the model."""
    made.embedder.embed_counted(texts[:1])
    began = time.perf_counter()
    made.embedder.embed_counted(texts)
    return len(texts) / max(1e-6, time.perf_counter() - began)


def expected_points(connection: Connection, made: Target, left_out: Collection[str] = ()) -> LeftBehind:
    """Return the number of missing documents but for those left out, their sources, and the number of points the collection should have."""
    return Collections(connection).left_behind(
        collection=made.collection.name, signatures=made.signatures(), left_out=list(left_out)
    )


def lacking(made: Target, left_out: Collection[str]) -> str:
    """Say that documents are left out of the new index, and what to do about it."""
    documents = "1 document" if len(left_out) == 1 else f"{len(left_out):,} documents"
    return (
        f"{made.collection.model} cannot embed a text of {documents}, such as {min(left_out)}: `concordance why` names it. Change or "
        "remove them, or switch without them, by the same command with --force: then they fail, and are not found."
    )


def check_complete(stores: Stores, made: Target, left_out: Collection[str]) -> None:
    """Raise `AbortSyncError` unless the collection has all documents of the active one, but for those left out, and all their points."""
    name = made.collection.name
    row = expected_points(stores.connection, made, left_out)
    if row.documents:
        raise AbortSyncError(
            f"{row.documents} documents of {', '.join(row.sources)} are not in the new index because their sync has not finished. "
            "Sync, then run the same command again; it continues from here."
        )
    held = qdrant.count_points(stores.qdrant, name)
    if held != row.points:
        stores.collections.forget_entries(collection=name)
        with qdrant.qdrant_errors(f"delete {name}"):
            stores.qdrant.delete_collection(name)
        raise AbortSyncError(
            f"The new index has {held} points, but {row.points} were written. Run the same command again to rebuild it from the lake; "
            "nothing is embedded twice."
        )
