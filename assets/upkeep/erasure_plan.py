"""Determine what is due for erasure: contents, texts and rows that no document refers to any more.

The lake's change rows tell since when a content is unused: since a newer row of its document replaced the last row that named it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.intake.rows import raw_table
from assets.parsed import TABLE as PARSED
from assets.upkeep.redaction import words_of
from resources.jobs import stored_sources
from resources.stores.clients import Stores
from sql.upkeep import Erasure
from sql.upkeep_rows import DueDocument

_meta = msgspec.json.Decoder(dict[str, Any])


class ErasurePlan(msgspec.Struct):
    """Everything to erase, without contents, keys and texts that are still referenced elsewhere."""

    documents: list[DueDocument]
    changes: dict[str, list[int]] = {}
    """Sequence numbers of change rows by table."""
    contents: list[str] = []
    """Hashes of blobs."""
    keys: list[str] = []
    """Content keys of parsed texts and their chunks."""
    texts: list[str] = []
    """Hashes of chunk texts, the keys of vectors."""
    words: set[str] = set()
    shared: int = 0
    """Contents of these documents that are kept because they are referenced elsewhere."""
    since: datetime | None = None
    """When the oldest of the erased rows was written."""

    def empty(self) -> bool:
        """Return True if there is nothing to erase."""
        return not (self.documents or self.contents or self.keys or self.texts or any(self.changes.values()))


def plan_erasure(stores: Stores, *, cutoff: datetime, document: str | None) -> ErasurePlan:
    """Return what is due for erasure. With `document`, only what belongs to that document, whenever it was deleted."""
    statements = Erasure(stores.connection)
    found = ErasurePlan(documents=statements.due(cutoff=cutoff, document=document))
    ids = [row.doc_id for row in found.documents]
    history = _history(stores)
    going = _changes_to_erase(history, set(ids), cutoff, document)
    found.changes = {
        str(name): frame["seq"].to_list() for (name,), frame in going.partition_by("table", as_dict=True).items()
    }
    kept = history.join(going.select("table", "seq", "at"), on=["table", "seq", "at"], how="anti")
    in_use = statements.contents_in_use(doc_ids=ids, cutoff=cutoff)
    kept_hashes = {row.content_hash for row in in_use} | _present(kept["content_hash"])
    kept_keys = {row.content_key for row in in_use} | _present(kept["content_key"])
    mine = _present(going["content_hash"]) | {row.content_hash for row in found.documents if row.content_hash}
    found.shared = len(mine & kept_hashes)
    keys = _present(going["content_key"]) | {row.content_key for row in found.documents if row.content_key}
    if document is None:
        mine |= {blob.content_hash for blob in stores.blobs.stored() if blob.written_at <= cutoff}
        keys |= {key for table in (PARSED, CHUNKED) for key in _column(stores, table, "content_key", cutoff)}
    found.contents, found.keys = sorted(mine - kept_hashes), sorted(keys - kept_keys)
    _add_texts(stores, found, cutoff, everything=document is None)
    titles = [text for row in found.documents for text in (row.title, row.path, row.description or "")]
    found.words |= words_of([*titles, *_present(going["title"])]) - words_of(_present(kept["title"]))
    times = [*_present(going["at"]), *(row.first_seen_at for row in found.documents)]
    found.since = min(times, default=None)
    return found


def _history(stores: Stores) -> pl.DataFrame:
    """Return the change rows of all sources, each with the time of its document's next row (null: it is the current state)."""
    frames: list[pl.DataFrame] = []
    for source in stored_sources(stores.connection):
        name = raw_table(source)
        frame = stores.lake.scan(name).select("seq", "op", "doc_id", "title", "content_hash", "meta", "at").collect()
        frames.append(frame.with_columns(pl.lit(name).alias("table")))
    rows = pl.concat(frames).sort("table", "seq", "at")
    keys = [_meta.decode(meta).get("content_key") if meta else None for meta in rows["meta"]]
    return rows.drop("meta").with_columns(
        pl.Series("content_key", keys, dtype=pl.String),
        pl.col("at").shift(-1).over("table", "doc_id").alias("replaced_at"),
    )


def _changes_to_erase(history: pl.DataFrame, ids: set[str], cutoff: datetime, document: str | None) -> pl.DataFrame:
    """Return change rows to erase: all rows of erased documents, and replaced rows and tombstones older than the cutoff."""
    erased = pl.col("doc_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())
    if document is not None:
        return history.filter(erased)
    replaced = pl.col("replaced_at") <= cutoff
    tombstone = pl.col("replaced_at").is_null() & (pl.col("op") == "delete") & (pl.col("at") <= cutoff)
    return history.filter(erased | replaced.fill_null(value=False) | tombstone)


def _add_texts(stores: Stores, found: ErasurePlan, cutoff: datetime, *, everything: bool) -> None:
    """Add the hashes and words of chunk texts that only the erased contents contain."""
    chunks = stores.lake.scan(CHUNKED).filter(pl.col("chunk_index") >= 0)
    going = pl.col("content_key").is_in(pl.Series(found.keys, dtype=pl.String).implode())
    mine = chunks.filter(going).select("text_hash", "text").unique("text_hash").collect()
    kept = chunks.filter(~going).select("text_hash").unique().collect()
    candidates = mine.select("text_hash")
    if everything:
        tables = [name for name in stores.lake.names() if name.startswith("embedded_")]
        vectors = [pl.Series("text_hash", sorted(_column(stores, name, "text_hash", cutoff))) for name in tables]
        candidates = pl.concat([candidates, *(pl.DataFrame({"text_hash": one.cast(pl.String)}) for one in vectors)])
    found.texts = candidates.unique().join(kept, on="text_hash", how="anti")["text_hash"].sort().to_list()
    found.words = words_of(mine.join(kept, on="text_hash", how="anti")["text"])


def _column(stores: Stores, table: str, column: str, cutoff: datetime) -> set[str]:
    """Return the values of a column in rows written before the cutoff."""
    rows = stores.lake.scan(table).filter(pl.col("at") <= cutoff).select(column).unique().collect()
    return set(rows[column])


def _present(values: pl.Series) -> set[Any]:
    return set(values.drop_nulls())
