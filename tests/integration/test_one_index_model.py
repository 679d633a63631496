"""The migration to one index model keeps every entry and passage, finds the same, and leaves nothing to be written or embedded again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from resources.schema import prepare
from resources.stores.migrate import migrate, migrations
from resources.stores.postgres import Connection
from sql import MIGRATIONS, statement
from sql.sync import Collections, Documents, IndexEntries
from tests.fixtures.make_previous_installation import NARROWING, READER
from tests.fixtures.postgres import PostgresProcess, with_database

MIGRATION = "0020_one_index_model.sql"
STATES: dict[str, Any] = json.loads(
    Path(__file__).parents[1].joinpath("fixtures/previous_installation.json").read_text()
)
EXCHANGE = (
    "ALTER TABLE chunks RENAME TO chunks_moving",
    "ALTER TABLE chunks_beside RENAME TO chunks",
    "ALTER TABLE chunks_moving RENAME TO chunks_beside",
)
"""What the version before did at each promotion."""
NAMES = """
SELECT tablename AS owner, indexdef AS definition FROM pg_indexes WHERE tablename IN ('chunks', 'index_entries', 'documents')
UNION ALL
SELECT conrelid::regclass::text, conname || pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid IN ('chunks'::regclass, 'index_entries'::regclass) AND contype <> 'n'
UNION ALL
SELECT table_name, concat_ws(' ', column_name, data_type, is_nullable, column_default, generation_expression)
FROM information_schema.columns WHERE table_schema = 'public'
ORDER BY owner, definition
"""


@pytest.fixture
def empty(postgres_server: PostgresProcess) -> Iterator[str]:
    """URL of a database without a schema."""
    name = f"p_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield with_database(postgres_server.dsn, name)
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def connected(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, row_factory=dict_row)


def install_previous(dsn: str, folder: Path, state: str) -> dict[str, Any]:
    """Create a registry of the version before and return what the fixture knows of it."""
    for migration in migrations():
        if migration.name < MIGRATION:
            shutil.copy(MIGRATIONS / migration.name, folder)
    migrate(dsn, folder)
    with connected(dsn) as connection:
        for rename in EXCHANGE if state == "kept" else ():
            connection.execute(rename)
        for name in ("index_collections", "documents", "partitions", "chunks", "chunks_beside", "index_entries"):
            columns = connection.execute(
                "SELECT string_agg(quote_ident(column_name), ', ') AS names FROM information_schema.columns"
                " WHERE table_name = %s AND is_generated = 'NEVER'",
                [name],
            ).fetchone()
            assert columns is not None
            insert = f"INSERT INTO {name} ({columns['names']}) SELECT {columns['names']} FROM"
            rows = Jsonb(STATES[state]["tables"][name])
            connection.execute(f"{insert} jsonb_populate_recordset(NULL::{name}, %s)".encode(), [rows])
    return STATES[state]


def rows(connection: Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    return connection.execute(query.encode(), values).fetchall()


def answered(connection: Connection, name: str, **wanted: Any) -> list[dict[str, Any]]:
    """Run a statement of the service as a reader of everything."""
    return connection.execute(statement("serving", name).encode(), READER | wanted).fetchall()


def rechecked(connection: Connection, chunk_ids: list[str], collection: str | None) -> dict[str, Any]:
    """Return the passages that the permission check returns, by chunk id."""
    (answer,) = answered(connection, "recheck", chunk_ids=chunk_ids, collection=collection, collection_ids=None)
    added = {"author", "language"}  # columns that the previous installation did not return
    return {
        one["chunk_id"]: {name: value for name, value in one.items() if name not in added}
        for one in json.loads(answer["hits"])
    }


def names(before: dict[str, Any]) -> tuple[str, str]:
    """Return the active and the other collection of the fixture."""
    collections = before["tables"]["index_collections"]
    (active,) = [row["name"] for row in collections if row["active"]]
    (other,) = [row["name"] for row in collections if not row["active"]]
    return active, other


def entries_before(before: dict[str, Any]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return content, payload, keywords and number of passages by collection and document, as the version before stored them."""
    active, _ = names(before)
    documents = {
        (active, row["doc_id"]): (
            row["indexed_content"], row.get("indexed_payload"), row.get("indexed_keywords"), row["chunk_count"],
        )
        for row in before["tables"]["documents"]
        if "indexed_content" in row
    }  # fmt: skip
    others = {
        (row["collection"], row["doc_id"]): (
            row["content"],
            row.get("payload"),
            row.get("keywords"),
            row["chunk_count"],
        )
        for row in before["tables"]["index_entries"]
    }
    return documents | others


def outdated(before: dict[str, Any], collection: str, signatures: dict[str, str]) -> set[str]:
    """Return the live documents that a collection did not hold as wanted."""
    entries = entries_before(before)
    return {
        row["doc_id"]
        for row in before["tables"]["documents"]
        if row["state"] == "live"
        and entries.get((collection, row["doc_id"]), ("",))[0] != f"{row['content_key']}|{signatures[row['profile']]}"
    }


@pytest.mark.parametrize("state", ["kept", "building"])
def test_entries_and_passages_are_kept_and_nothing_is_pending(empty: str, tmp_path: Path, state: str) -> None:
    before = install_previous(empty, tmp_path, state)
    active, other = names(before)
    assert prepare(empty)[0] == MIGRATION
    with connected(empty) as connection:
        entries = entries_before(before)
        found = rows(connection, "SELECT to_jsonb(e) AS row FROM index_entries AS e")
        assert {
            (row["collection"], row["doc_id"]): (row["content"], row["payload"], row["keywords"], row["chunk_count"])
            for row in (one["row"] for one in found)
        } == entries
        passages = {
            (name, row["chunk_id"]): row
            for name, table in ((active, "chunks"), (other, "chunks_beside"))
            for row in before["tables"][table]
            if (name, row["doc_id"]) in entries
        }
        found = rows(
            connection,
            "SELECT jsonb_strip_nulls(to_jsonb(c) - '{tsv,collection}'::text[]) AS row, c.collection FROM chunks AS c",
        )
        assert {(one["collection"], one["row"]["chunk_id"]): one["row"] for one in found} == passages
        assert {name for name, _ in passages} == {active, other}
        assert (len({one for _, one in passages}) < len(passages)) == (state == "kept"), "ids in both collections"
        index, documents = IndexEntries(connection, "files"), Documents(connection, "files")
        every = [row["doc_id"] for row in before["tables"]["documents"]]
        for name in (active, other):
            contents = [content for (one, _), (content, *_) in entries.items() if one == name and content]
            signature = {content.partition("|")[2] for content in contents}
            assert len(signature) == 1
            signatures = {row["profile"]: min(signature) for row in before["tables"]["documents"]}
            pending = documents.pending(
                collection=name, signatures=signatures, partitions=None, doc_ids=None, everything=False, rejected=True, active=None,
                after="", most=None,
            )  # fmt: skip
            assert {one.doc_id for one in pending} == outdated(before, name, signatures)
            assert bool(pending) == (name == other)
            version = next(keywords for (one, _), (_, _, keywords, _) in entries.items() if one == name and keywords)
            version = version.partition("\n")[0]
            assert index.keywords_to_refresh(collection=name, signatures=None, version=version, doc_ids=every) == []
            assert index.payloads_to_update(collection=name, signatures=None, doc_ids=every) == []
        assert index.to_remove(doc_ids=every) == []


@pytest.mark.parametrize("state", ["kept", "building"])
def test_searches_find_the_same(empty: str, tmp_path: Path, state: str) -> None:
    before = install_previous(empty, tmp_path, state)
    active, other = names(before)
    prepare(empty)
    with connected(empty) as connection:
        chunk_ids = sorted({row["chunk_id"] for name in ("chunks", "chunks_beside") for row in before["tables"][name]})
        was = {one["chunk_id"]: one for one in json.loads(before["recheck"])}
        now = rechecked(connection, chunk_ids, active)
        assert now.keys() == {row["chunk_id"] for row in before["tables"]["chunks"]} & was.keys()
        assert rechecked(connection, chunk_ids, other) | now == was
        assert rechecked(connection, chunk_ids, None) == now
        words = dict.fromkeys(NARROWING) | {
            "query": "where does the otter sleep", "tags": "[]", "on_created": False, "include_archived": True,
            "depth": 50, "most": 2000, "most_words": 16, "collection": None, "left_out_chunks": [], "left_out_partitions": [],
        }  # fmt: skip
        assert answered(connection, "full_text", **words) == before["full_text"] != []
        why = {"urls": [], "channel": None, "names": [], "moment": None, "operator": False}
        doc_ids = sorted(row["doc_id"] for row in before["tables"]["documents"])
        explained = [answered(connection, "why", doc_ids=[one], own_id=one, **why) for one in doc_ids]
        assert explained == [[row | {"notes": []} for row in rows] for rows in before["why"]]
        assert sum(len(one) for one in explained) == len(
            [row for row in before["tables"]["documents"] if row["state"] == "live"]
        )
        assert answered(connection, "expected_passages") == before["passages"]
        # the pointer is all that a promotion moves
        with connection.transaction():
            Collections(connection).deactivate_others(name=other)
            Collections(connection).activate(name=other)
        assert rechecked(connection, chunk_ids, None) == rechecked(connection, chunk_ids, other)
        assert rechecked(connection, chunk_ids, active) == now


def test_the_tables_are_those_of_a_new_installation(empty: str, database: str, tmp_path: Path) -> None:
    install_previous(empty, tmp_path, "kept")
    prepare(empty)
    with connected(empty) as migrated, connected(database) as new:
        assert rows(migrated, NAMES) == rows(new, NAMES)


def test_without_an_active_collection_the_next_sync_writes_everything(empty: str, tmp_path: Path) -> None:
    before = install_previous(empty, tmp_path, "building")
    _, other = names(before)
    with connected(empty) as connection:
        connection.execute("UPDATE index_collections SET active = FALSE")
    prepare(empty)
    with connected(empty) as connection:
        assert rows(connection, "SELECT DISTINCT collection FROM chunks") == [{"collection": other}]
        assert answered(connection, "expected_passages") == [{"passages": 0}]


def test_a_collection_whose_passages_are_not_known_is_incomplete(empty: str, tmp_path: Path) -> None:
    before = install_previous(empty, tmp_path, "building")
    _, other = names(before)
    with connected(empty) as connection:
        connection.execute(
            "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len) VALUES ('older', 'm', 2, '1', 1)"
        )
        connection.execute("INSERT INTO index_entries SELECT 'older', doc_id, 'x', NULL, 1 FROM documents")
    prepare(empty)
    with connected(empty) as connection:
        assert rows(connection, "SELECT DISTINCT content FROM index_entries WHERE collection = 'older'") == [
            {"content": ""}
        ]
        assert rows(
            connection, "SELECT count(*) AS wanted FROM index_entries WHERE collection = %s AND content <> ''", other
        ) == [{"wanted": 5}]
