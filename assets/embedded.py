"""The `embedded` stage: embed the texts of pending chunks that have no vector yet, each distinct text once.

A document with a text that the service cannot embed fails, like one that cannot be parsed; the others continue. A collection under
construction goes without it.

Texts of uploads are embedded once per owner, because their `text_hash` includes the owner (`identify.scoped_hash`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import polars as pl
import structlog

from assets.chunked import TABLE as CHUNKED
from assets.chunked import batches, chunk_version
from assets.index.targets import Target
from assets.stages.profiles import Profile
from resources.core.domain import State
from resources.core.errors import BudgetExceededError
from resources.core.ports import Vectors
from resources.core.tables import embedded_table
from resources.embedding import check_dimensions
from resources.embedding.budget import Budget, month_key
from resources.rates.reservation import Reservation
from resources.stores.clients import Stores
from resources.stores.postgres import Connection
from resources.stores.room import check_room
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending
from sql.sync import Collections

WINDOW_DOCUMENTS = 5000
"""Documents whose texts are held in memory at a time."""
REQUESTS_AT_ONCE = 4
UNEMBEDDABLE = "The embedding service cannot embed one of its passages."
WRITE_CHUNKS = 2000
"""Vectors between two appends to the lake. At 70 chunks/s, a crash repeats at most half a minute of work."""

log = structlog.get_logger("embedding")


def embed_missing(job: SyncJob, target: Target, pending: Sequence[Pending], *, ahead: bool = False) -> StageResult:
    """Embed chunks that have no vector yet, within the month's budget. `ahead`: for another sync, to which failures are left.

    Raises `BudgetExceededError` if the budget is used up and the setting is to stop, and `CapacityError` if there is too little room
    on a disk; vectors written so far are kept.
    """
    result = StageResult({"chunks": 0, "embedded": 0, "reused": 0, "tokens": 0, "cost_usd": 0.0})
    if not pending:
        return result
    table = embedded_table(target.collection.model, target.collection.dimensions)
    for part in batches(pending, WINDOW_DOCUMENTS):
        texts = texts_of(job.stores, part, target.profiles)
        partitions = {document.content_key: document.partition for document in part}
        has_vector = texts["text_hash"].is_in(job.stores.keyed.present(table, texts["text_hash"]).implode())
        todo = texts.filter(~has_vector)
        for key, number in _by_content(texts.filter(has_vector)):
            result.count(partitions[key], chunks=number, reused=number)
        if target.collection.active:
            job.count(passages=int(texts.filter(has_vector)["passages"].sum()))
        for key, number in _by_content(todo):
            result.count(partitions[key], chunks=number)
        for piece in todo.iter_slices(WRITE_CHUNKS):
            check_room(job.stores.settings)
            tokens, cost, failed = _embed(job, target, table, piece)
            for key, number in _by_content(piece.filter(~pl.col("text_hash").is_in(failed))):
                result.count(partitions[key], embedded=number)
            if failed and not ahead:
                result.touched |= _fail(job, target, part, failed)
            result.counts["tokens"] += tokens
            result.counts["cost_usd"] += cost
    return result


def _by_content(texts: pl.DataFrame) -> list[tuple[str, int]]:
    """Return the number of texts of each content."""
    return texts.group_by("content_key").len().rows()


def _embed(job: SyncJob, target: Target, table: str, texts: pl.DataFrame) -> tuple[int, float, list[str]]:
    """Embed texts, store their vectors and record the usage, also of a part if it fails on the way.

    Returns tokens, cost in US dollars, and the hashes of texts that cannot be embedded.
    """
    stores, model = job.stores, target.embedder
    price = model.price_per_million or 0.0
    reservation = _reserve(job, int(texts["tokens"].sum()) / 1e6 * price)
    vectors: list[Vectors] = []
    failed: list[str] = []
    tokens = 0
    try:
        for piece in texts.iter_slices(stores.settings.embedding_batch * REQUESTS_AT_ONCE):
            rows, used = model.embed_counted(piece["text"].to_list())
            check_dimensions(model.model, rows.shape[1], target.collection.dimensions)
            vectors.append(rows)
            tokens += used
            reservation.extend()
            job.count(embedded=piece.height, passages=int(piece["passages"].sum()) if target.collection.active else 0)
            job.progress("embedded")
    finally:
        # what was embedded is paid for, and kept
        cost = tokens / 1e6 * price
        embedded = sum(len(rows) for rows in vectors)
        reservation.settle(model=model.model, texts=embedded, tokens=tokens, cost_usd=cost)
        if vectors:
            matrix = np.concatenate(vectors)
            usable = ~np.isnan(matrix[:, 0])
            done = texts.head(embedded).with_columns(pl.Series("usable", usable))
            kept, failed = done.filter("usable"), done.filter(~pl.col("usable"))["text_hash"].to_list()
            hashes, sizes = kept["text_hash"].to_list(), kept["tokens"].to_list()
            stores.keyed.append_vectors(table, model.model, hashes, matrix[usable], sizes, datetime.now(UTC))
    job.count(tokens=tokens, cost_usd=cost)
    return tokens, cost, failed


def _fail(job: SyncJob, target: Target, documents: Sequence[Pending], hashes: Sequence[str]) -> set[str]:
    """Fail those of the documents that have one of these texts, and return their partitions.

    They are left out of a collection that is not searched, and do not fail: they may be fine in the active one.
    """
    versions = {one.doc_id: chunk_version(target.profiles[one.profile]) for one in documents}
    rows = job.stores.keyed.rows(CHUNKED, {one.content_key for one in documents})
    chunks = rows.filter(pl.col("text_hash").is_in(hashes)).select("content_key", "version").collect()
    found = set(chunks.iter_rows())
    failed = [one for one in documents if (one.content_key, versions[one.doc_id]) in found]
    if not failed:  # only another profile has these texts
        return set()
    if not target.collection.active:
        job.unembeddable.update(one.doc_id for one in failed)
        return set()
    with job.writing:
        job.stores.documents.set_outcomes(
            rows=[
                {
                    "doc_id": one.doc_id,
                    "state": State.FAILED,
                    "reason": UNEMBEDDABLE,
                    # "raw": its new bytes could not be read and still are to be
                    "stage": "raw" if one.stage == "raw" else "embedded",
                    "attempts": one.attempts if one.stage == "raw" else _earlier(one) + 1,
                }
                for one in failed
            ]
        )
    for one in failed:
        job.fault(one.source_id, "embedded", UNEMBEDDABLE, skipped=False)
    return {one.partition for one in failed}


def embeddable(job: SyncJob, documents: Sequence[Pending]) -> list[Pending]:
    """Return the documents without those that the model of a collection under construction could not embed."""
    return [one for one in documents if one.doc_id not in job.unembeddable]


def _earlier(document: Pending) -> int:
    """Return how often the document could not be embedded; the stages alone set it live again before they try."""
    return document.attempts if document.stage in (None, "embedded") else 0


def texts_of(stores: Stores, pending: Sequence[Pending], profiles: Mapping[str, Profile]) -> pl.DataFrame:
    """Return the distinct texts: text_hash, text, tokens, content_key (of one content that has it) and the number of passages."""
    keys = {document.content_key for document in pending}
    versions = [chunk_version(profile) for profile in profiles.values()]
    return (
        stores.keyed.rows(CHUNKED, keys)
        .filter(pl.col("version").is_in(versions) & (pl.col("chunk_index") >= 0))
        .select("text_hash", "text", "tokens", "content_key", pl.len().over("text_hash").alias("passages"))
        .unique("text_hash", keep="any")
        .sort("text_hash")
        .collect()
    )


def spent(connection: Connection) -> float:
    """Return what embedding has cost this month, in US dollars."""
    return Collections(connection).usage(month=month_key(datetime.now(UTC)))


def _reserve(job: SyncJob, cost: float) -> Reservation:
    """Reserve the cost of the next texts, in US dollars. Raises `BudgetExceededError`."""
    settings = job.stores.settings
    reservation = Reservation(job.stores.connection, month_key(datetime.now(UTC)))
    limit = settings.embedding_budget
    if limit is None:
        return reservation
    used = reservation.reserve(cost, limit if settings.embedding_budget_stop else float("inf"))
    verdict = Budget(limit=limit, spent=used + cost)
    if verdict.exceeded and settings.embedding_budget_stop:
        raise BudgetExceededError(
            f"The monthly embedding budget of ${limit:.2f} would be exceeded (${used:.2f} used or reserved). Raise "
            "CONCORDANCE_LIMITS__EMBEDDING_BUDGET and sync again; vectors embedded so far are kept."
        )
    if verdict.warn:
        log.warning("embedding_budget", limit_usd=limit, spent_usd=round(used, 4), job_id=job.job_id)
    return reservation
