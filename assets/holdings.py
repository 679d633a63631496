"""Count what the stores hold of a source after each stage, as a whole and by partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.chunked import chunk_version
from assets.index.targets import active_target
from assets.parsed import TABLE as PARSED
from assets.stages.parse import PARSER_VERSION
from resources.core.tables import embedded_table
from resources.stores.clients import Stores
from sql.rows import PartitionCounts


class Rows(NamedTuple):
    """Rows of a table that belong to a source; partitions share the rows of contents and texts that they have in common."""

    total: int
    partitions: Mapping[str, int]


def rows_of(stores: Stores, stage: str, states: Sequence[PartitionCounts]) -> Rows:
    """Return the rows of a stage: documents, texts, passages, vectors or points."""
    if stage == "raw":
        return _added({state.partition: state.live + state.skipped + state.failed for state in states})
    if stage == "indexed":
        return _added({state.partition: state.passages for state in states})
    return _LAKE[stage](stores, _live_contents(stores))


def _added(partitions: Mapping[str, int]) -> Rows:
    return Rows(sum(partitions.values()), partitions)


def _live_contents(stores: Stores) -> pl.LazyFrame:
    rows = stores.partitions.live_contents()
    columns = {"partition": [row.partition for row in rows], "content_key": [row.content_key for row in rows]}
    return pl.LazyFrame(columns, schema={"partition": pl.String, "content_key": pl.String})


def _texts(stores: Stores, contents: pl.LazyFrame) -> Rows:
    parsed = stores.lake.scan(PARSED).filter((pl.col("parser_version") == PARSER_VERSION) & (pl.col("status") == "ok"))
    return _distinct(contents.join(parsed.select("content_key"), on="content_key", how="semi"), "content_key")


def _passages(stores: Stores, contents: pl.LazyFrame) -> Rows:
    passages = contents.join(_chunks(stores), on="content_key")
    return _distinct(passages.with_columns(pl.struct("content_key", "version", "chunk_index").alias("row")), "row")


def _vectors(stores: Stores, contents: pl.LazyFrame) -> Rows:
    collection = active_target(stores).collection
    vectors = stores.lake.scan(embedded_table(collection.model, collection.dimensions)).select("text_hash")
    texts = contents.join(_chunks(stores), on="content_key")
    return _distinct(texts.join(vectors, on="text_hash", how="semi"), "text_hash")


def _chunks(stores: Stores) -> pl.LazyFrame:
    versions = [chunk_version(profile) for profile in active_target(stores).profiles.values()]
    return (
        stores.lake.scan(CHUNKED)
        .filter(pl.col("version").is_in(versions) & (pl.col("chunk_index") >= 0))
        .select("content_key", "version", "chunk_index", "text_hash")
    )


def _distinct(rows: pl.LazyFrame, key: str) -> Rows:
    total, parts = pl.collect_all([
        rows.select(pl.col(key).n_unique()), rows.group_by("partition").agg(pl.col(key).n_unique())
    ])  # fmt: skip
    return Rows(total.item(), dict(parts.iter_rows()))


_LAKE: Mapping[str, Callable[[Stores, pl.LazyFrame], Rows]] = {
    "parsed": _texts,
    "chunked": _passages,
    "embedded": _vectors,
}
