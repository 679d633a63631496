"""The `embedded` stage: embed the texts of pending chunks that have no vector yet, each distinct text once.

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
from resources.core.errors import BudgetExceededError
from resources.core.ports import Vectors
from resources.core.tables import embedded_table
from resources.embedding import check_dimensions
from resources.embedding.budget import Budget, month_key
from resources.rates.reservation import Reservation
from resources.stores.clients import Stores
from resources.stores.postgres import Connection
from resources.stores.room import check_room
from resources.sync_counts import StageResult
from resources.syncing import SyncJob
from sql.rows import Pending
from sql.sync import Collections

WINDOW_DOCUMENTS = 5000
"""Documents whose texts are held in memory at a time."""
REQUESTS_AT_ONCE = 4
WRITE_CHUNKS = 2000
"""Vectors between two appends to the lake. At 70 chunks/s, a crash repeats at most half a minute of work."""

log = structlog.get_logger("embedding")


def embed_missing(job: SyncJob, target: Target, pending: Sequence[Pending]) -> StageResult:
    """Embed chunks that have no vector yet, within the month's budget.

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
            tokens, cost = _embed(job, target, table, piece)
            for key, number in _by_content(piece):
                result.count(partitions[key], embedded=number)
            result.counts["tokens"] += tokens
            result.counts["cost_usd"] += cost
    return result


def _by_content(texts: pl.DataFrame) -> list[tuple[str, int]]:
    """Return the number of texts of each content."""
    return texts.group_by("content_key").len().rows()


def _embed(job: SyncJob, target: Target, table: str, texts: pl.DataFrame) -> tuple[int, float]:
    """Embed texts, store their vectors and record the usage, also if it fails on the way. Returns tokens and cost in US dollars."""
    stores, model = job.stores, target.embedder
    price = model.price_per_million or 0.0
    reservation = _reserve(job, int(texts["tokens"].sum()) / 1e6 * price)
    vectors: list[Vectors] = []
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
        now = datetime.now(UTC)
        matrix, hashes = np.concatenate(vectors), texts["text_hash"].to_list()
        stores.keyed.append_vectors(table, model.model, hashes, matrix, texts["tokens"].to_list(), now)
    finally:
        # what was embedded is paid for, stored or not
        cost = tokens / 1e6 * price
        embedded = sum(len(rows) for rows in vectors)
        reservation.settle(model=model.model, texts=embedded, tokens=tokens, cost_usd=cost)
    job.count(tokens=tokens, cost_usd=cost)
    return tokens, cost


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
