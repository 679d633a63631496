"""The tables of the lake: columns, what identifies a row, and what orders its versions. A data dictionary for code.

| table | grain | latest by | traps |
|---|---|---|---|
| raw_{source} | one change of one document | seq | a delete has no content; the newest seq is the state |
| parsed | one parse of one content | at | keyed by parser_version too: raise it and everything is parsed again |
| chunked | one chunk of one content | at | a content without chunks has one row with chunk_index -1 and null text; places is JSON or null |
| embedded_{model}_{dimensions} | one vector of one text | at | shared by all sources, uploads by owner; the name holds the model |
"""

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

_TIME = pl.Datetime("us", "UTC")
_NAME = re.compile(r"[a-z0-9_]{1,200}")

RAW: dict[str, Any] = {
    "seq": pl.Int64,
    "op": pl.String,
    "doc_id": pl.String,
    "source_id": pl.String,
    "partition": pl.String,
    "version": pl.String,
    "content_hash": pl.String,
    "mime_type": pl.String,
    "profile": pl.String,
    "title": pl.String,
    "description": pl.String,
    "owner": pl.String,
    "permissions": pl.List(pl.String),
    "meta": pl.String,
    "created_at": _TIME,
    "modified_at": _TIME,
    "at": _TIME,
}
PARSED: dict[str, Any] = {
    "content_key": pl.String,
    "parser_version": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "document": pl.Binary,
    "seconds": pl.Float64,
    "at": _TIME,
}
CHUNKED: dict[str, Any] = {
    "content_key": pl.String,
    "version": pl.String,
    "chunk_index": pl.Int32,
    "text": pl.String,
    "text_hash": pl.String,
    "start_char": pl.Int32,
    "end_char": pl.Int32,
    "tokens": pl.Int32,
    "section_path": pl.List(pl.String),
    "anchor": pl.String,
    "page_start": pl.Int32,
    "page_end": pl.Int32,
    "is_table": pl.Boolean,
    "sheet": pl.String,
    "row_start": pl.Int32,
    "row_end": pl.Int32,
    "language": pl.String,
    "places": pl.String,
    "at": _TIME,
}


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `key` identifies a row across its versions, its first column sorts the files; `order` picks the latest
    version.
    """

    name: str
    schema: pl.Schema
    key: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors; None for tables without them."""
        vector = self.schema.get("vector")
        return vector.size if isinstance(vector, pl.Array) else None


def table(name: str) -> Table:
    """Return the table called `name`. Raises `ValueError` if there is none."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid table name")
    if name.startswith("raw_"):
        return Table(name, pl.Schema(RAW), ("doc_id",), ("seq", "at"))
    if name == "parsed":
        return Table(name, pl.Schema(PARSED), ("content_key", "parser_version"), ("at",))
    if name == "chunked":
        return Table(name, pl.Schema(CHUNKED), ("content_key", "version", "chunk_index"), ("at",))
    vectors = re.fullmatch(r"embedded_.+_([1-9]\d{0,4})", name)
    if vectors:
        return Table(name, embedded_schema(int(vectors[1])), ("text_hash",), ("at",))
    raise ValueError(
        f"The lake has no table {name!r}; it has raw_<source>, parsed, chunked and embedded_<model>_<dimensions>"
    )


def is_table(name: str) -> bool:
    try:
        table(name)
    except ValueError:
        return False
    return True


def embedded_schema(dimensions: int) -> pl.Schema:
    vector = pl.Array(pl.Float32, dimensions)
    return pl.Schema({"model": pl.String, "text_hash": pl.String, "vector": vector, "tokens": pl.Int32, "at": _TIME})


def embedded_table(model: str, dimensions: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", model.lower()).strip("_")
    return f"embedded_{slug}_{dimensions}"
