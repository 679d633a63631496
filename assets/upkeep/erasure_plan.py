"""Determine what is due for erasure: contents, texts and rows that no document refers to any more.

The lake's change rows tell since when a content is unused: since a newer row of its document replaced the last row that named it.
Everything that is stored is compared with everything that is in use, in tables on disk (`sql/lake`), which takes no more memory for more
documents; what is due fits into memory.

Texts and passages of earlier versions of the parser, of chunking or of a profile are due once every index that has the content has later
ones. Vectors of their texts follow with the next erasure, as those of no passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.intake.rows import raw_table
from assets.parsed import TABLE as PARSED
from assets.upkeep.redaction import words_of
from resources.core.tables import RAW
from resources.stores.clients import Stores
from resources.stores.lake_sql import ScratchTables, scratch_tables
from resources.syncs.jobs import stored_sources
from sql.upkeep import Erasure
from sql.upkeep_rows import DueDocument

BATCH_ROWS = 10_000
"""Rows that are added to a table at a time."""
MOST_OUTDATED = 100_000
"""Texts, and passages of texts, of earlier versions that one erasure removes: after a new parser, all are due, and syncs wait meanwhile."""
_CONTENT = {"content_hash": pl.String, "content_key": pl.String}
_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "due": {"doc_id": pl.String, **_CONTENT},
    "in_use": _CONTENT,
    "changes": {
        "name": pl.String,
        "seq": pl.Int64,
        "written_at": RAW["at"],
        "op": pl.String,
        "doc_id": pl.String,
        **_CONTENT,
    },
    "passages": {"content_key": pl.String, "text_hash": pl.String},
    "blobs": {"content_hash": pl.String},
    "parses": {"content_key": pl.String},
    "vectors": {"text_hash": pl.String},
    "readings": {
        "name": pl.String,
        "content_key": pl.String,
        "version": pl.String,
        "rejected": pl.Boolean,
        "written_at": RAW["at"],
    },
    "indexed": {"content_key": pl.String, "version": pl.String},
}
"""Tables of the comparison; `name` is the table of the lake that a row is from."""
_WRITTEN = pl.col("at").alias("written_at")
"""`at` is a keyword of DuckDB."""

T = TypeVar("T")


class ErasurePlan(msgspec.Struct):
    """Everything to erase, without contents, keys and texts that are still referenced elsewhere."""

    documents: list[DueDocument]
    outdated: pl.DataFrame
    """Rows of earlier versions: name (of the table), content_key, version, written_at."""
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
        return not (self.beyond_vectors() or self.texts)

    def beyond_vectors(self) -> bool:
        """Return True if more is to be erased than vectors of dropped passages, which are in the lake alone."""
        return bool(self.documents or self.contents or self.keys or any(self.changes.values()))


def plan_erasure(stores: Stores, *, cutoff: datetime, document: str | None) -> ErasurePlan:
    """Return what is due for erasure. With `document`, only what belongs to that document, whenever it was deleted."""
    due = Erasure(stores.connection).due(cutoff=cutoff, document=document)
    found = ErasurePlan(documents=due, outdated=pl.DataFrame(schema={"name": pl.String}))
    raw_tables = [raw_table(source) for source in stored_sources(stores.connection)]
    with scratch_tables(_SCHEMAS) as tables:
        _add_references(stores, tables, raw_tables, found.documents, cutoff)
        if document is None:
            _add_stored(stores, tables, cutoff)
        going = tables.make("erased_changes", cutoff=cutoff, everything=document is None)
        found.contents = tables.make("unused_contents")["content_hash"].to_list()
        found.keys = tables.make("unused_keys")["content_key"].to_list()
        found.texts = tables.make("unused_texts")["text_hash"].to_list()
        # an index that is being built needs versions that only its entries will name
        if document is None and stores.collections.building_collection() is None:
            _add_indexed(stores, tables)
            found.outdated = tables.make("outdated", cutoff=cutoff, most=MOST_OUTDATED)
    for name, seq in going.select("name", "seq").iter_rows():
        found.changes.setdefault(name, []).append(seq)
    mine = {row.content_hash for row in found.documents} | set(going["content_hash"])
    found.shared = len(mine - {None, *found.contents})
    found.words = _words_of_texts(stores, found) | _words_of_titles(stores, raw_tables, found.documents, going)
    found.since = min([*going["written_at"], *(row.first_seen_at for row in found.documents)], default=None)
    return found


def _add_references(
    stores: Stores, tables: ScratchTables, raw_tables: Iterable[str], due: Sequence[DueDocument], cutoff: datetime
) -> None:
    """Add all change rows and passages of the lake, and the contents that the registry refers to, now or for these documents."""
    due_rows = [(row.doc_id, row.content_hash, row.content_key) for row in due]
    tables.add("due", pl.DataFrame(due_rows, _SCHEMAS["due"], orient="row"))
    content_key = pl.col("meta").str.json_path_match("$.content_key").alias("content_key")
    for name in raw_tables:
        columns = (pl.lit(name).alias("name"), "seq", _WRITTEN, "op", "doc_id", "content_hash", content_key)
        for page in stores.lake.pages(name, *columns):
            tables.add("changes", page)
    for page in stores.lake.pages(CHUNKED, "content_key", "text_hash", "chunk_index"):
        tables.add("passages", page.filter(pl.col("chunk_index") >= 0).select("content_key", "text_hash"))
    in_use = Erasure(stores.connection).contents_in_use(doc_ids=[row.doc_id for row in due], cutoff=cutoff)
    for rows in _batches(in_use):
        references = [(row.content_hash, row.content_key) for row in rows]
        tables.add("in_use", pl.DataFrame(references, _SCHEMAS["in_use"], orient="row"))


def _add_stored(stores: Stores, tables: ScratchTables, cutoff: datetime) -> None:
    """Add blobs, parses and vectors from before the cutoff; those of a killed sync belong to no document."""
    old = pl.col("at") <= cutoff
    for hashes in _batches(blob.content_hash for blob in stores.blobs.stored() if blob.written_at <= cutoff):
        tables.add("blobs", pl.DataFrame({"content_hash": hashes}))
    readings = {
        PARSED: (pl.col("parser_version").alias("version"), (pl.col("status") != "ok").alias("rejected")),
        CHUNKED: (pl.col("version"), pl.lit(False).alias("rejected")),
    }
    for name, columns in readings.items():
        for page in stores.lake.pages(name, pl.lit(name).alias("name"), "content_key", *columns, "at"):
            tables.add("parses", page.filter(old).select("content_key"))
            tables.add("readings", page.rename({"at": "written_at"}).unique())
    for name in stores.lake.names():
        if name.startswith("embedded_"):
            for page in stores.lake.pages(name, "text_hash", "at"):
                tables.add("vectors", page.filter(old).select("text_hash"))


def _add_indexed(stores: Stores, tables: ScratchTables) -> None:
    """Add the contents of all indexes, with the versions of their passages."""
    for rows in _batches(Erasure(stores.connection).indexed_versions()):
        versions = [(row.content_key, row.version) for row in rows]
        tables.add("indexed", pl.DataFrame(versions, _SCHEMAS["indexed"], orient="row"))


def _words_of_texts(stores: Stores, found: ErasurePlan) -> set[str]:
    """Return the words of the passages whose texts are erased. An interrupted erasure may have removed them from the lists of keys."""
    if not found.keys:
        return set()
    key, text = (pl.Series(values, dtype=pl.String).implode() for values in (found.keys, found.texts))
    gone = stores.lake.scan(CHUNKED).filter(pl.col("content_key").is_in(key), pl.col("text_hash").is_in(text))
    return words_of(gone.select("text").unique().collect(engine="streaming")["text"])


def _words_of_titles(
    stores: Stores, raw_tables: Iterable[str], due: Sequence[DueDocument], going: pl.DataFrame
) -> set[str]:
    """Return the words of titles, paths and descriptions of erased documents and rows that no title that stays contains."""
    titles = [text for row in due for text in (row.title, row.path, row.description) if text]
    row_of = ["name", "seq", "written_at"]

    def pages() -> Iterator[pl.DataFrame]:
        for name in raw_tables:
            yield from stores.lake.pages(name, pl.lit(name).alias("name"), "seq", _WRITTEN, "title")

    if not going.is_empty():
        titles += [text for page in pages() for text in page.join(going, on=row_of, how="semi")["title"].drop_nulls()]
    words = words_of(titles)
    if words:
        for page in pages():
            words -= words_of(page.join(going, on=row_of, how="anti")["title"].drop_nulls())
    return words


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while part := list(islice(remaining, BATCH_ROWS)):
        yield part
