"""Every column of every table is described in the catalog."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from assets.columns import COLUMNS, schema_of
from assets.sample import masked
from assets.stages.payload import CHUNK_FIELDS, chunk_payload, document_payload
from resources.core.tables import embedded_table, table

TABLES = {"raw": "raw_files", "parsed": "parsed", "chunked": "chunked", "embedded": embedded_table("m", 8)}


@pytest.mark.parametrize("stage", TABLES)
def test_every_column_of_the_lake_is_described(stage: str) -> None:
    columns = {column.name: column.description for column in schema_of(stage, TABLES[stage]).columns}
    assert list(columns) == list(table(TABLES[stage]).schema)
    assert columns.keys() == COLUMNS[stage].keys()
    assert all((text or "").endswith(".") for text in columns.values())


def test_every_property_of_a_point_is_described() -> None:
    row: dict[str, Any] = defaultdict(lambda: None, collection_ids=[], permissions=[])
    chunk = defaultdict(lambda: None)
    assert {column.name for column in schema_of("indexed", "").columns} == {
        *document_payload(row),
        *chunk_payload(chunk),
    }
    assert set(CHUNK_FIELDS) <= COLUMNS["chunked"].keys()


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("text", "The otter sleeps.", "17 characters"),
        ("document", b"\x00\x01", "2 bytes"),
        ("section_path", ["Otters", "Grey"], "2 entries"),
        ("permissions", ["ada@acme.example"], "1 entries"),
        ("tokens", 12, 12),
        ("is_table", False, False),
        ("a_column_of_tomorrow", "Larch", "5 characters"),
        ("tokens", None, ""),
    ],
)
def test_a_sample_shows_values_of_harmless_columns_only(column: str, value: Any, shown: Any) -> None:
    assert masked(column, value) == shown
