"""Preview of what the next syncs index again: documents, passages, tokens, cost and time by source. Nothing is written.

Counts of documents are exact. How many passages a document will have is known once it is split, so documents without passages of the wanted
version are read by a sample, evenly by size, and scaled by their bytes; if the sample has all of them, these counts are exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
import polars as pl

from assets.backlog import evenly
from assets.chunked import batches, chunk_version, parsed_documents, present
from assets.embedded import WINDOW_DOCUMENTS, texts_of
from assets.index.targets import PENDING_DOCUMENTS, Target, active_target, pending_pages
from assets.parsed import parse_unrecorded, untried
from assets.stages.chunk import chunk
from assets.stages.identify import scoped_hash
from resources.core.domain import State
from resources.core.tables import embedded_table
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob
from sql.cli import Commands, StageRate
from sql.rows import Pending


class Passages(msgspec.Struct):
    """Passages of documents, distinct texts of these that have no vector, and the tokens of those."""

    passages: float = 0
    embed: float = 0
    tokens: float = 0

    def add(self, other: Passages, times: float = 1.0) -> None:
        self.passages += other.passages * times
        self.embed += other.embed * times
        self.tokens += other.tokens * times


class SourcePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What indexing documents of a source again takes."""

    source: str
    documents: int
    fetch: int
    """Documents that the source is asked for: in a full sync, all."""
    parse: int
    split: int
    passages: int
    """Passages that are written to the index."""
    embed: int
    """Distinct texts of these without a vector."""
    tokens: int
    sampled: int | None
    """Documents from which passages and tokens are estimated; null if all were read."""
    cost_usd: float | None
    """Null if the price of the model is unknown."""
    seconds: float | None
    """Null if no earlier sync has measured a stage that has work."""
    measured: int
    """Syncs that the time is based on."""
    since: datetime | None
    """When the first of them ended."""


def preview(job: SyncJob, *, full: bool) -> SourcePreview:
    """Return what the next sync of the job's source indexes again; with `full`, a full sync or a backfill of all partitions."""
    stores = job.stores
    active = active_target(stores)
    total, sample = Passages(), list[Pending]()
    documents = parse = split = split_bytes = 0
    for page in pending_pages(job, active, everything=full, rejected=True):
        for part in batches([one for one in page if full or one.again], WINDOW_DOCUMENTS):
            tried = {one.doc_id for one in untried(stores, part)}
            live = [one for one in part if one.state == State.LIVE]
            there = present(stores, {one.content_key for one in live})
            absent = [one for one in live if _version(active, one) not in there]
            documents += len({one.doc_id for one in live} | tried)
            parse += len(tried)
            split += len(absent)
            split_bytes += _bytes(absent)
            total.add(_stored(stores, active, [one for one in live if _version(active, one) in there]))
            # content keys are hashes, so those of the least are as good as drawn
            sample = sorted(sample + absent, key=lambda one: one.content_key)[:PENDING_DOCUMENTS]
    sample = evenly(sample)
    of_split = Passages()
    if sample:
        of_split.add(_read(stores, active, sample), split_bytes / _bytes(sample))
        total.add(of_split)
    fetch = documents if full else 0
    rows = {
        "raw": float(fetch),
        "parsed": float(parse),
        "chunked": of_split.passages,
        "embedded": total.embed,
        "indexed": total.passages,
    }
    rates = _rates(stores)
    price = active.embedder.price_per_million
    return SourcePreview(
        source=stores.source.value,
        documents=documents,
        fetch=fetch,
        parse=parse,
        split=split,
        passages=round(total.passages),
        embed=round(total.embed),
        tokens=round(total.tokens),
        sampled=len(sample) if len(sample) < split else None,
        cost_usd=None if price is None else round(total.tokens / 1e6 * price, 4),
        seconds=_seconds(rows, rates),
        measured=max((rate.syncs for rate in rates.values()), default=0),
        since=min((rate.since for rate in rates.values()), default=None),
    )


def _version(active: Target, document: Pending) -> tuple[str, str]:
    return document.content_key, chunk_version(active.profiles[document.profile])


def _bytes(documents: Sequence[Pending]) -> int:
    return sum(max(1, one.size) for one in documents)


def _stored(stores: Stores, active: Target, documents: Sequence[Pending]) -> Passages:
    """Count the passages that the lake has of documents."""
    texts = texts_of(stores, documents, active.profiles)
    return _counted(stores, active, texts.select("text_hash", "tokens", "passages"))


def _read(stores: Stores, active: Target, documents: Sequence[Pending]) -> Passages:
    """Parse and split documents and count their passages; those that cannot be parsed have none."""
    texts = parsed_documents(stores, {one.content_key for one in documents})
    texts |= parse_unrecorded(stores, [one for one in documents if one.content_key not in texts])
    tokenizer = active.tokenizer()
    rows = [
        {"text_hash": scoped_hash(one.content_key, piece.text_hash), "tokens": piece.tokens, "passages": 1}
        for one in documents
        if one.content_key in texts
        for piece in chunk(texts[one.content_key], tokenizer, active.profiles[one.profile])
    ]
    schema = {"text_hash": pl.String, "tokens": pl.Int64, "passages": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema)
    return _counted(stores, active, frame.group_by("text_hash").agg(pl.col("tokens").first(), pl.col("passages").sum()))


def _counted(stores: Stores, active: Target, texts: pl.DataFrame) -> Passages:
    table = embedded_table(active.collection.model, active.collection.dimensions)
    missing = texts.filter(~pl.col("text_hash").is_in(stores.keyed.present(table, texts["text_hash"]).implode()))
    return Passages(int(texts["passages"].sum()), missing.height, int(missing["tokens"].sum()))


def _rates(stores: Stores) -> Mapping[str, StageRate]:
    """Return how long each stage took for its rows in earlier syncs of the source; where it had none, in those of all sources."""
    statements = Commands(stores.connection)
    found = {rate.stage: rate for rate in statements.stage_rates(source=None)}
    return found | {rate.stage: rate for rate in statements.stage_rates(source=stores.source.value)}


def _seconds(rows: Mapping[str, float], rates: Mapping[str, StageRate]) -> float | None:
    """Return how long a sync with so many rows of each stage takes: as long as the slowest of its threads, since they overlap."""
    if any(number and stage not in rates for stage, number in rows.items()):
        return None
    took = {
        stage: number * rates[stage].seconds / rates[stage].rows if number else 0.0 for stage, number in rows.items()
    }
    return round(max(took["raw"], took["parsed"] + took["chunked"], took["embedded"], took["indexed"]), 1)
