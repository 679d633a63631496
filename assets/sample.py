"""A sample of a stage's rows for the catalog, without anything that is for readers of the documents only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from assets.raw import raw_table
from resources.stores.clients import Stores

ROWS = 5
SHOWN = frozenset(
    {
        *("seq", "op", "doc_id", "partition", "mime_type", "profile", "parser_version", "status", "seconds"),
        *(
            "chunk_index",
            "start_char",
            "end_char",
            "tokens",
            "page_start",
            "page_end",
            "is_table",
            "row_start",
            "row_end",
        ),
        *("language", "model", "created_at", "modified_at", "at", "chunk_count", "page_count", "indexed_at"),
    }
)
"""Columns whose values are shown. Those of all others are described by their length: they may quote or name a document."""


def sample_of(stores: Stores, stage: str, name: str) -> list[dict[str, Any]]:
    """Return rows of a stage that were written last, masked. `name` is its table in the lake; the index has none there: its rows are
    those of the documents that changed last.
    """
    rows: Sequence[Mapping[str, Any]]
    if stage == "indexed":
        changed = stores.lake.newest(raw_table(stores.source), ROWS)
        rows = stores.index.sample(doc_ids=changed["doc_id"].to_list())
    else:
        rows = stores.lake.newest(name, ROWS).to_dicts()
    return [{column: masked(column, value) for column, value in row.items()} for row in rows]


def masked(column: str, value: Any) -> str | int | float | bool:
    """Return a value as the sample shows it."""
    if value is None:
        return ""
    if column in SHOWN:
        if isinstance(value, datetime):
            return value.isoformat(timespec="seconds")
        return value if isinstance(value, str | int | float | bool) else str(value)
    unit = "characters" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "entries"
    return f"{len(value)} {unit}" if hasattr(value, "__len__") else "not shown"
