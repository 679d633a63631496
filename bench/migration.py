"""Measure how long the migration to work lists (0054) takes on an installation with documents, and the first pass of a sync after it.

`python -m bench.migration [--documents 100000]`. The state before it is made by dropping what it creates. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import time

import sql
from bench.search_setup import parts
from resources.stores.postgres import Connection, connect
from sql.sync import IndexWork

NAME = "0054_index_work"
PAGE = 2000
FILLED = (
    "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active)"
    " VALUES ('one', 'm', 3, 'c', 1, TRUE)",
    "INSERT INTO documents (doc_id, source, source_id, partition, source_title, path, mime_type, permissions, profile, version,"
    " payload_hash, state, content_key) SELECT gen_random_uuid(), 'files', 'texts/' || n, 'texts', 't', 'p', 'text/plain', '{}',"
    " 'default', 'v', 'h', 'live', 'k' || n FROM generate_series(1, %(count)s) AS s (n)",
    "INSERT INTO index_entries (collection, doc_id, content, payload, keywords, chunk_count)"
    " SELECT 'one', doc_id, content_key || '|x', 'h',"
    " 'v1' || E'\\n' || title || E'\\n' || source_title || E'\\n' || path, 1 FROM documents",
)


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    count = parser.parse_args().documents
    text = (sql.ROOT / "migrations" / f"{NAME}.sql").read_text()
    with parts() as (_, settings, _), connect(settings.postgres_dsn, autocommit=True) as connection:
        _undo(connection, text)
        for statement in FILLED:
            connection.execute(statement.encode(), {"count": count})
        connection.execute("VACUUM ANALYZE")
        began = time.perf_counter()
        with connection.transaction():
            connection.execute(text.encode())
        migrated = time.perf_counter()
        work = IndexWork(connection, "files")
        work.begin_pass(collection="one", wanted="w", parser="p")
        while work.mark_page(collection="one", signatures={"default": "x"}, version="v1", most=PAGE):
            pass
        figures = {
            "documents": count,
            "migration_s": round(migrated - began, 2),
            "first_pass_s": round(time.perf_counter() - migrated, 2),
            "marked": len(work.marked(partitions=None)),
        }
    print(json.dumps(figures))


def _undo(connection: Connection, text: str) -> None:
    """Drop what the migration creates, by its text."""
    for name in re.findall(r"CREATE FUNCTION (\w+)\(", text):
        connection.execute(f"DROP FUNCTION {name} CASCADE".encode())
    for name in re.findall(r"CREATE TABLE (\w+)", text):
        connection.execute(f"DROP TABLE {name} CASCADE".encode())
    connection.execute("DROP SEQUENCE IF EXISTS index_work_marks")


if __name__ == "__main__":
    main()
