"""Compare a source in the lake, Postgres and Qdrant: after each sync what it changed, and now and then everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import polars as pl

from assets.index.targets import active_target
from assets.raw import raw_table
from resources.stores import qdrant
from resources.stores.clients import Stores
from resources.stores.lake import PAGE_ROWS
from sql.upkeep import Checks

COMPARED = 5000
"""Changed documents that are compared at a time."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What the stores hold of the documents that have changed, and their passages of all documents."""

    changed_documents: int
    only_in_lake: int
    """Documents that the registry does not have with the same content."""
    only_in_postgres: int
    postgres_live_documents: int
    postgres_chunks_counted: int
    qdrant_points: int | None
    """None: not compared, because other syncs of the source may write meanwhile."""
    partitions: list[str]
    """Partitions with documents whose contents differ."""

    @property
    def agrees(self) -> bool:
        return not self.partitions and self.qdrant_points in (None, self.postgres_chunks_counted)


def ledger(stores: Stores, partitions: list[str] | None) -> dict[str, Any]:
    """Count documents by state, and those of these partitions (None: all) whose index entry does not match their state."""
    return stores.index.ledger(partitions=partitions)


def changed(stores: Stores, since: int) -> Changed:
    """Compare the documents that have changed in the lake with the registry, and of a whole source the counts of passages.

    `since` is the least number of the change rows. The weekly reconciliation compares everything.
    """
    rows = stores.lake.scan(raw_table(stores.source)).filter(pl.col("seq") >= since)
    if stores.covered is not None:  # other syncs write the lake before the registry, and points before their number
        rows = rows.filter(pl.col("partition").is_in(stores.covered))
    newest = (  # hashes of eight bytes instead of texts, since a first sync changes every document
        rows.select(pl.col("doc_id").hash(), "seq", "at")
        .sort("seq", "at")
        .unique("doc_id", keep="last")
        .select("seq", "at")
        .collect()
    )
    statements = Checks(stores.connection, stores.source.value)
    only_in_lake = only_in_postgres = 0
    partitions = set[str]()
    for page in _pages(rows.select("doc_id", "op", "partition", "content_hash", "seq", "at"), newest):
        lake = {
            (doc_id, content_hash): partition
            for doc_id, op, partition, content_hash, *_ in page.iter_rows()
            if op == "upsert"
        }
        held = {
            (row.doc_id, row.content_hash): row.partition
            for row in statements.contents_of(doc_ids=page["doc_id"].to_list())
        }
        only_in_lake += len(lake.keys() - held.keys())
        only_in_postgres += len(held.keys() - lake.keys())
        partitions.update((lake | held)[key] for key in lake.keys() ^ held.keys())
    counted = stores.index.totals()
    points = None
    if stores.covered is None:
        points = qdrant.count_source(stores.qdrant, active_target(stores).collection.name, stores.source.value)
    return Changed(
        changed_documents=newest.height,
        only_in_lake=only_in_lake,
        only_in_postgres=only_in_postgres,
        postgres_live_documents=counted.documents,
        postgres_chunks_counted=counted.chunks,
        qdrant_points=points,
        partitions=sorted(partitions),
    )


def _pages(rows: pl.LazyFrame, newest: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield those of the change rows that are the newest of their documents, at most `COMPARED` at a time."""
    start = 0
    while not (page := rows.slice(start, PAGE_ROWS).collect(engine="streaming")).is_empty():
        yield from page.join(newest, on=["seq", "at"], how="semi").iter_slices(COMPARED)
        start += page.height
