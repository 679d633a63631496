"""What triggers compare grows with the rows of a statement, also where the session's first statement, whose plan is kept, changed none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from resources.schema import prepare
from resources.servers.postgres import EmbeddedPostgres
from resources.stores.postgres import connect
from tests.fixtures.postgres import QUICK, copy_cluster, home_settings, make_home

DOCUMENTS = 200
EXPLAINED = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}
"""Each session is sent the plans of its statements."""


@pytest.fixture
def connection(cluster: Path) -> Iterator[psycopg.Connection[Any]]:
    home = make_home()
    copy_cluster(cluster, home)
    settings = home_settings(home)
    server = EmbeddedPostgres(settings, QUICK | EXPLAINED)
    server.start()
    try:
        prepare(settings.postgres_dsn)
        with connect(settings.postgres_dsn, autocommit=True) as found:
            found.execute(
                "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active)"
                " VALUES ('one', 'm', 3, 'c', 1, TRUE)"
            )
            found.execute(
                "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, mime_type,"
                " profile, content_key, payload_hash) SELECT gen_random_uuid(), 'files', n::text, 'docs', 'live',"
                " '{user:ann@acme.example}', 'title', 'a/title', 'text/plain', 'default', 'k', 'h0' FROM generate_series(1, %s) AS s (n)",
                [DOCUMENTS],
            )
            found.execute(
                "INSERT INTO index_entries (collection, doc_id, content, payload, keywords, chunk_count)"
                " SELECT 'one', doc_id, 'k|p', 'h0', '', 1 FROM documents"
            )
            yield found
    finally:
        server.stop()
        shutil.rmtree(home)


def plans(connection: psycopg.Connection[Any], statement: LiteralString) -> list[dict[str, Any]]:
    """Run a statement and return the plans of all statements of its triggers, with what they did."""
    logged: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        logged.append(diagnostic.message_primary or "")

    connection.add_notice_handler(note)
    connection.execute(statement)
    connection.remove_notice_handler(note)
    found = [json.loads(text[text.index("{") :])["Plan"] for text in logged if "plan:" in text]
    assert len(found) > 1
    return found


def compared(plan: dict[str, Any]) -> int:
    """Return the number of pairs of rows that the joins of a plan looked at for nothing."""
    removed = int(plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"])
    return removed + sum(compared(part) for part in plan.get("Plans", ()))


def rows(connection: psycopg.Connection[Any], statement: LiteralString) -> list[Any]:
    return connection.execute(statement).fetchall()


@pytest.mark.parametrize(
    "update",
    [
        "UPDATE documents SET permissions = '{user:bob@acme.example}', payload_hash = 'h1', partition = 'notes' WHERE chosen",
        "UPDATE index_entries SET payload = 'h1', chunk_count = 2 WHERE chosen",
    ],
)
def test_triggers_do_not_compare_each_changed_row_with_each(
    connection: psycopg.Connection[Any], update: LiteralString
) -> None:
    connection.execute(update.replace("chosen", "FALSE"))
    found = plans(connection, update.replace("chosen", "TRUE"))
    assert [compared(plan) for plan in found if compared(plan)] == []


def test_an_entry_that_follows_its_document_puts_the_grants_into_effect(connection: psycopg.Connection[Any]) -> None:
    connection.execute("UPDATE documents SET permissions = '{user:bob@acme.example}', payload_hash = 'h1'")
    pending = "SELECT count(*) AS n FROM grant_audit WHERE effective_at IS NULL AND change = 'added' AND principal LIKE '%bob%'"
    assert rows(connection, pending) == [{"n": DOCUMENTS}]
    connection.execute("UPDATE index_entries SET chunk_count = 2")
    assert rows(connection, pending) == [{"n": DOCUMENTS}]
    connection.execute(
        "UPDATE index_entries SET payload = CASE WHEN doc_id = (SELECT doc_id FROM documents LIMIT 1) THEN 'h1' ELSE 'h2' END"
    )
    assert rows(connection, pending) == [{"n": DOCUMENTS - 1}]


def test_a_key_of_a_listing_is_forgotten_where_its_document_changes(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "INSERT INTO listing_keys (doc_id, source, partition, key) SELECT doc_id, source, partition, 1 FROM documents"
    )
    connection.execute("UPDATE documents SET gone_at_source = now()")
    assert rows(connection, "SELECT count(*) AS n FROM listing_keys") == [{"n": DOCUMENTS}]
    connection.execute("UPDATE documents SET content_hash = CASE WHEN source_id = '1' THEN 'c1' END")
    assert rows(
        connection,
        "SELECT d.source_id FROM documents AS d LEFT JOIN listing_keys AS k USING (doc_id) WHERE k.key IS NULL",
    ) == [{"source_id": "1"}]
