"""The documents of one source as the source, the registry and the lake have them: a table on disk, so that comparing millions of documents
takes little memory.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import polars as pl

from assets.intake.rows import raw_table
from resources.core.scratch import scratch_database, told_when_full
from resources.stores.clients import Stores
from sql.upkeep import Reconciliation

CACHE_KB = 8 * 1024
PAGE = 2000
"""Documents that are read and written at a time."""

TABLE = """CREATE TABLE documents (
    source_id TEXT PRIMARY KEY,
    shown INTEGER, -- 1: the source has it; 0: it says that it is deleted; null: it says nothing
    partition TEXT, state TEXT, content_hash TEXT, waiting INTEGER, -- registry
    stored INTEGER, stored_partition TEXT, stored_hash TEXT, seq INTEGER, -- lake: its newest row; stored: the row is no tombstone
    held INTEGER AS (coalesce(state IN ('live', 'skipped', 'failed'), 0)) -- registry: the source should show it
) WITHOUT ROWID"""
LISTED = """INSERT INTO documents (source_id, shown) VALUES (?, ?)
ON CONFLICT (source_id) DO UPDATE SET shown = excluded.shown"""
REGISTERED = """INSERT INTO documents (source_id, partition, state, content_hash) VALUES (?, ?, ?, ?)
ON CONFLICT (source_id) DO UPDATE
SET partition = excluded.partition, state = excluded.state, content_hash = excluded.content_hash"""
WAITING = "UPDATE documents SET waiting = 1 WHERE source_id = ?"
STORED = """INSERT INTO documents (source_id, stored, stored_partition, stored_hash, seq) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (source_id) DO UPDATE
SET stored = excluded.stored, stored_partition = excluded.stored_partition, stored_hash = excluded.stored_hash, seq = excluded.seq
WHERE seq IS NULL OR excluded.seq >= seq"""
EXPECTED = """CREATE VIEW expected AS SELECT * FROM documents
WHERE content_hash IS NOT NULL AND state NOT IN ('deleted', 'lost_access')"""
"""Documents whose content the lake should have: those that we can no longer read are checked when they return."""


class Inventory:
    """Made by `open_inventory`. For one thread at a time."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        for statement in (TABLE, EXPECTED):
            database.execute(statement)

    def note_listing(self, shown: Iterable[str], deleted: Iterable[str]) -> None:
        """Note what the source shows and what it says is deleted."""
        self._write(LISTED, ((source_id, 0) for source_id in deleted))
        self._write(LISTED, ((source_id, 1) for source_id in shown))

    def read_stores(self, stores: Stores) -> None:
        """Note what the registry and the lake have."""
        statements = Reconciliation(stores.connection, stores.source.value)
        after = ""
        while page := statements.registered_page(after=after, most=PAGE):
            self._write(REGISTERED, ((row.source_id, row.partition, row.state, row.content_hash) for row in page))
            after = page[-1].source_id
        self._write(WAITING, ((source_id,) for source_id in statements.waiting()))
        name = raw_table(stores.source)
        columns = ("source_id", pl.col("op") == "upsert", "partition", "content_hash", "seq")
        for rows in stores.lake.pages(name, *columns):
            self._write(STORED, rows.iter_rows())

    def checked(self) -> int:
        """Return how many documents any of the three has."""
        return self._number("SELECT count(*) FROM documents WHERE held OR shown = 1 OR stored = 1")

    def waiting(self) -> int:
        """Return how many deletions await approval."""
        return self._number("SELECT count(*) FROM documents WHERE waiting = 1")

    def unstored(self) -> Iterator[str]:
        """Yield documents whose content the lake should have and does not."""
        return self._ids("SELECT source_id FROM expected WHERE stored IS NOT 1 OR stored_hash IS NOT content_hash")

    def only_stored(self) -> dict[str, str]:
        """Return documents that only the lake has, with their partition."""
        rows = self._database.execute(
            "SELECT source_id, stored_partition FROM documents WHERE stored = 1"
            " AND (content_hash IS NULL OR state = 'deleted') ORDER BY source_id"
        )
        return dict(rows)

    def forgotten(self) -> Iterator[str]:
        """Yield documents that the lake has and the registry knows nothing of, as after its loss."""
        return self._ids("SELECT source_id FROM documents WHERE stored = 1 AND state IS NULL")

    def contents(self) -> Iterator[Sequence[str]]:
        """Yield the distinct contents that the source's documents need, page by page."""
        rows = self._database.execute("SELECT DISTINCT content_hash FROM expected")
        while page := rows.fetchmany(PAGE):
            yield [content_hash for (content_hash,) in page]

    def with_contents(self, hashes: Sequence[str]) -> set[str]:
        """Return documents that need one of these contents."""
        if not hashes:
            return set()
        wanted = json.dumps(list(hashes))
        return set(
            self._ids("SELECT source_id FROM expected WHERE content_hash IN (SELECT value FROM json_each(?))", wanted)
        )

    def unshown(self) -> Iterator[tuple[str, str, bool]]:
        """Yield documents of the registry that the source does not show, with their partition and whether the source says that they are
        deleted; not those whose deletion awaits approval.
        """
        rows = self._database.execute(
            "SELECT source_id, partition, shown IS 0 FROM documents WHERE held AND shown IS NOT 1 AND waiting IS NULL"
        )
        for source_id, partition, deleted in rows:
            yield source_id, partition, bool(deleted)

    def unregistered(self) -> Iterator[str]:
        """Yield documents that the source has and that the registry lacks or has marked as gone."""
        return self._ids("SELECT source_id FROM documents WHERE shown = 1 AND NOT held")

    def held(self, source_ids: Iterable[str]) -> set[str]:
        """Return those of these documents that exist at the source according to the registry."""
        one = "SELECT 1 FROM documents WHERE source_id = ? AND held"
        return {source_id for source_id in source_ids if self._database.execute(one, [source_id]).fetchone()}

    def _ids(self, query: str, *parameters: str) -> Iterator[str]:
        for (source_id,) in self._database.execute(query, parameters):
            yield source_id

    def _number(self, query: str) -> int:
        return int(self._database.execute(query).fetchone()[0])

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        with told_when_full():
            self._database.executemany(statement, rows)


@contextmanager
def open_inventory() -> Generator[Inventory]:
    """Open an empty inventory; its file is gone after the block."""
    with scratch_database() as database:
        yield Inventory(database)
