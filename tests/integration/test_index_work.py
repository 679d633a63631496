"""Work lists and kept counts equal what comparing all documents with all entries finds, whatever happened before."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest

import sql
from assets.stages.diff import MAX_ATTEMPTS
from resources.stores.postgres import connect
from sql.cli import Commands
from sql.sync import IndexEntries, IndexWork, Partitions
from sql.upkeep import Checks
from tests.fixtures.installation import Installation

SOURCE = "files"
SIGNATURES = {"default": "p1|c1|one", "wide": "p1|c2|one"}
COLLECTIONS = [
    {"name": "one", "signatures": SIGNATURES, "version": "v1"},
    {"name": "two", "signatures": None, "version": "v1"},
]
PARTITIONS = ("docs", "notes", "mail")
STATES = ("live", "live", "live", "skipped", "failed", "deleted", "lost_access")
HISTORIES = 12
STEPS = 60

OLD_JOIN = """
WITH compared AS (
    SELECT
        d.*, e.content, e.payload, e.keywords, e.doc_id AS held, c.name, c.signatures, c.version AS keyword_version,
        E'\\n' || d.title || E'\\n' || d.source_title || E'\\n' || substring(d.path FROM '[^/]*$') AS names
    FROM documents AS d
    CROSS JOIN (VALUES ('one', %(signatures)s::jsonb, 'v1'), ('two', NULL::jsonb, 'v1')) AS c (name, signatures, version)
    LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = c.name
    WHERE d.source = 'files'
)

SELECT DISTINCT doc_id::text AS doc_id FROM compared WHERE
    (state <> 'live' AND held IS NOT NULL)
    OR (state = 'live' AND signatures IS NOT NULL AND content_key IS NOT NULL
        AND content IS DISTINCT FROM content_key || '|' || (signatures ->> profile))
    OR (state = 'live' AND signatures IS NOT NULL AND coalesce(content, '') = '')
    OR (state = 'live' AND held IS NOT NULL AND payload IS DISTINCT FROM payload_hash)
    OR (state = 'live' AND held IS NOT NULL AND content <> '' AND keywords IS DISTINCT FROM keyword_version || names)
    OR (state = 'failed' AND stage = 'parsed' AND content_key IS NOT NULL AND attempts < 3)
"""
"""What the stages would find by comparing everything, and rejected documents that parsing tries again."""


class World:
    """A registry that changes at random. Everything is written by plain SQL, since triggers keep list and counts."""

    def __init__(self, connection: psycopg.Connection[Any], random: Random) -> None:
        self.connection, self.random = connection, random
        self.work = IndexWork(connection, SOURCE)
        connection.execute(
            "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active)"
            " VALUES ('one', 'm', 3, 'c', 1, TRUE), ('two', 'm', 3, 'c', 1, FALSE)"
        )
        for one in COLLECTIONS:
            self.work.begin_pass(collection=str(one["name"]), wanted="w1", parser="p1")
            self.complete(one)

    def complete(self, one: dict[str, Any], most: int = 3) -> None:
        while self.work.mark_page(
            collection=one["name"], signatures=one["signatures"], version=one["version"], most=most
        ):
            pass

    def step(self) -> None:
        """Change a few documents or entries, in a transaction that is taken back now and then."""
        act: Callable[[], object] = self.random.choice([
            self.add, self.add, self.change, self.change, self.rename, self.reject, self.move, self.index, self.index, self.index,
            self.begin, self.payload, self.remove, self.forget, self.delete, self.work.merge_documents, self.work.merge_passages,
            self.unmark,
        ])  # fmt: skip
        with self.connection.transaction(
            force_rollback=self.random.random() < 0.2
        ):  # as if it were killed before its commit
            for _ in range(self.random.randint(1, 3)):
                act()

    def some(self) -> list[UUID]:
        rows = self.connection.execute("SELECT doc_id FROM documents ORDER BY doc_id").fetchall()
        return self.random.sample([row["doc_id"] for row in rows], min(len(rows), self.random.randint(1, 4)))

    def add(self) -> None:
        self.connection.execute(
            "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, source_title, path, mime_type, profile,"
            " content_key, payload_hash) VALUES (%s, 'files', %s, %s, 'live', '{}', 'title', 'a/title', 'text/plain', %s, %s, 'h0')",
            [
                UUID(int=self.random.getrandbits(128)),
                f"s{self.random.getrandbits(48)}",
                self.random.choice(PARTITIONS),
                self.random.choice(list(SIGNATURES)),
                f"k{self.random.randint(0, 9)}",
            ],
        )

    def change(self) -> None:
        self.connection.execute(
            "UPDATE documents SET content_key = %s, payload_hash = %s, state = %s, stage = NULL WHERE doc_id = ANY(%s)",
            [f"k{self.random.randint(0, 9)}", f"h{self.random.randint(0, 3)}", self.random.choice(STATES), self.some()],
        )

    def rename(self) -> None:
        self.connection.execute(
            "UPDATE documents SET source_title = %s, path = %s WHERE doc_id = ANY(%s)",
            ["title", f"a/{self.random.choice(['title', 'other'])}", self.some()],
        )

    def reject(self) -> None:
        self.connection.execute(
            "UPDATE documents SET state = %s, stage = 'parsed', attempts = %s WHERE doc_id = ANY(%s)",
            [self.random.choice(["skipped", "failed"]), self.random.randint(0, MAX_ATTEMPTS), self.some()],
        )

    def move(self) -> None:
        self.connection.execute(
            "UPDATE documents SET partition = %s WHERE doc_id = ANY(%s)", [self.random.choice(PARTITIONS), self.some()]
        )

    def begin(self) -> None:
        IndexEntries(self.connection, SOURCE).begin_entries(
            collection=self.random.choice(["one", "two"]),
            rows=[
                {"doc_id": str(one), "document_title": None, "language": None, "page_count": None, "notes": []}
                for one in self.some()
            ],
        )

    def index(self) -> None:
        """Write entries as wanted, or as some were wanted before."""
        self.connection.execute(
            "INSERT INTO index_entries (collection, doc_id, content, payload, keywords, chunk_count)"
            " SELECT %(name)s, d.doc_id, d.content_key || '|' || (%(signatures)s::jsonb ->> d.profile), d.payload_hash,"
            " 'v1' || keyword_names(d.title, d.source_title, d.path), %(chunks)s FROM documents AS d"
            " WHERE d.doc_id = ANY(%(ids)s) AND d.content_key IS NOT NULL"
            " ON CONFLICT (doc_id, collection) DO UPDATE SET"
            " content = excluded.content, payload = excluded.payload, keywords = excluded.keywords, chunk_count = excluded.chunk_count",
            {
                "name": self.random.choice(["one", "one", "two"]),
                "signatures": _json(SIGNATURES),
                "chunks": self.random.randint(0, 5),
                "ids": self.some(),
            },
        )

    def payload(self) -> None:
        self.connection.execute(
            "UPDATE index_entries SET payload = %s WHERE doc_id = ANY(%s)",
            [f"h{self.random.randint(0, 3)}", self.some()],
        )

    def remove(self) -> None:
        self.connection.execute("DELETE FROM index_entries WHERE doc_id = ANY(%s)", [self.some()])

    def forget(self) -> None:
        self.connection.execute("UPDATE index_entries SET content = '', payload = NULL WHERE collection = 'two'")

    def delete(self) -> None:
        self.connection.execute("DELETE FROM documents WHERE doc_id = ANY(%s)", [self.some()[:1]])

    def unmark(self) -> None:
        self.work.unmark(
            doc_ids=self.work.marked(partitions=None), collections=COLLECTIONS, attempts=MAX_ATTEMPTS, parsed=True, deferred=[],
            partitions=None,
        )  # fmt: skip

    def differing(self) -> set[str]:
        rows = self.connection.execute(OLD_JOIN, {"signatures": _json(SIGNATURES)}).fetchall()
        return {row["doc_id"] for row in rows}

    def check(self) -> None:
        """Compare list and counts with scans."""
        self.connection.execute(
            "INSERT INTO partitions (source, partition) SELECT 'files', unnest(%s::text []) ON CONFLICT DO NOTHING",
            [list(PARTITIONS)],
        )
        assert self.differing() <= set(self.work.marked(partitions=None))
        self.check_counts()

    def check_counts(self) -> None:
        scanned = self.connection.execute(SCANNED).fetchall()
        kept = Partitions(self.connection, SOURCE).states()
        assert [(one.partition, one.live, one.skipped, one.failed, one.indexed, one.passages) for one in kept] == [
            tuple(row.values()) for row in scanned
        ]
        index = IndexEntries(self.connection, SOURCE)
        for partitions in (None, list(PARTITIONS[:1]), list(PARTITIONS[1:])):
            scan = self.connection.execute(LEDGER, {"partitions": partitions}).fetchone()
            assert index.ledger(partitions=partitions) == scan
        totals = index.totals()
        found = self.connection.execute(TOTALS).fetchone()
        assert found == {"documents": totals.documents, "chunks": totals.chunks}
        expected = self.connection.execute(sql.statement("serving", "expected_passages").encode()).fetchone()
        assert expected == {"passages": totals.chunks}
        complete = {
            row.partition: (row.live, row.skipped, row.failed) for row in Checks(self.connection, SOURCE).completeness()
        }
        assert complete == {one.partition: (one.live, one.skipped, one.failed) for one in kept}
        rows = Commands(self.connection).sources(parser="p1")
        assert [(row.live, row.skipped, row.failed) for row in rows] == [
            tuple(sum(getattr(one, name) for one in kept) for name in ("live", "skipped", "failed"))
        ]


SCANNED = """
SELECT
    p.partition, count(*) FILTER (WHERE d.state = 'live') AS live, count(*) FILTER (WHERE d.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE d.state = 'failed') AS failed,
    count(e.doc_id) FILTER (WHERE e.content <> '' AND d.state IN ('live', 'skipped', 'failed')) AS indexed,
    coalesce(sum(e.chunk_count) FILTER (WHERE d.state IN ('live', 'skipped', 'failed')), 0) AS passages
FROM partitions AS p
LEFT JOIN documents AS d ON d.source = p.source AND d.partition = p.partition
LEFT JOIN active_entries AS e ON e.doc_id = d.doc_id
GROUP BY p.partition
ORDER BY p.partition
"""
LEDGER = """
SELECT
    count(*) FILTER (WHERE d.state = 'live') AS live, count(*) FILTER (WHERE d.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE d.state = 'failed') AS failed, count(*) FILTER (WHERE d.state = 'deleted') AS deleted,
    count(*) FILTER (WHERE d.state = 'lost_access') AS lost_access,
    count(*) FILTER (WHERE c.chosen AND d.state = 'live' AND coalesce(e.content, '') = '') AS unfinished,
    count(*) FILTER (WHERE c.chosen AND d.state <> 'live' AND e.doc_id IS NOT NULL) AS lingering
FROM documents AS d
CROSS JOIN LATERAL (
    SELECT %(partitions)s::text[] IS NULL OR d.partition = ANY(%(partitions)s::text[]) AS chosen
) AS c
LEFT JOIN active_entries AS e ON e.doc_id = d.doc_id
"""
TOTALS = """
SELECT count(*) AS documents, coalesce(sum(e.chunk_count), 0) AS chunks
FROM documents AS d
LEFT JOIN active_entries AS e ON e.doc_id = d.doc_id
WHERE d.state = 'live'
"""


def _json(value: Any) -> str:
    return json.dumps(value)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database, autocommit=True) as found:
        yield found


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_list_and_counts_equal_a_comparison_of_everything(connection: psycopg.Connection[Any], seed: int) -> None:
    world = World(connection, Random(seed))
    for _ in range(STEPS):
        world.step()
        world.check()
    world.unmark()
    assert set(world.work.marked(partitions=None)) == world.differing()
    world.check()
    world.work.merge_documents()
    world.work.merge_passages()
    world.check()
    several = connection.execute(
        "SELECT FROM document_counts GROUP BY source, partition, state HAVING count(*) > 1 OR sum(documents) = 0"
    ).fetchall()
    assert several == []


def test_nothing_is_lost_when_documents_change_while_they_are_compared(
    connection: psycopg.Connection[Any], database: str
) -> None:
    world = World(connection, Random(1))
    for _ in range(40):
        world.add()
    stop = threading.Event()

    def compare() -> None:
        with connect(database, autocommit=True) as other:
            work = IndexWork(other, SOURCE)
            while not stop.is_set():
                work.unmark(
                    doc_ids=work.marked(partitions=None), collections=COLLECTIONS, attempts=MAX_ATTEMPTS, parsed=True, deferred=[],
                    partitions=None,
                )  # fmt: skip
                work.merge_documents()
                work.merge_passages()

    threads = [threading.Thread(target=compare) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(400):
            world.random.choice([world.change, world.index, world.begin, world.rename, world.move, world.payload])()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    world.check()


def test_two_syncs_of_a_source_remove_the_marks_of_their_own_partitions(
    connection: psycopg.Connection[Any], database: str
) -> None:
    world = World(connection, Random(4))
    for _ in range(60):
        world.add()
    connection.execute("UPDATE documents SET state = 'skipped', stage = 'parsed', content_key = 'k1'")
    connection.execute(
        "UPDATE documents SET partition = CASE WHEN abs(hashtext(doc_id::text)) % 2 = 0 THEN 'docs' ELSE 'notes' END"
    )
    together = threading.Barrier(2)

    def sync(partition: str) -> None:
        with connect(database, autocommit=True) as other:
            work = IndexWork(other, SOURCE)
            ids = work.marked(partitions=None)
            together.wait()
            work.unmark(
                doc_ids=ids, collections=COLLECTIONS, attempts=MAX_ATTEMPTS, parsed=True, deferred=[],
                partitions=[partition],
            )  # fmt: skip

    def run(*partitions: str) -> None:
        threads = [threading.Thread(target=sync, args=[partition]) for partition in partitions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run("docs", "docs")
    left = connection.execute(
        "SELECT doc_id::text AS doc_id FROM documents WHERE partition = 'notes' ORDER BY doc_id"
    ).fetchall()
    assert left
    assert world.work.marked(partitions=None) == [row["doc_id"] for row in left]
    connection.execute("UPDATE documents SET attempts = attempts + 1 WHERE partition = 'docs'")
    run("docs", "notes")
    assert world.work.marked(partitions=None) == []


def test_a_pass_over_all_documents_goes_on_where_it_was_interrupted(connection: psycopg.Connection[Any]) -> None:
    world = World(connection, Random(2))
    for _ in range(10):
        world.add()
    world.connection.execute("DELETE FROM index_work")
    other = COLLECTIONS[0] | {"version": "v2"}
    world.work.begin_pass(collection="one", wanted="w2", parser="p1")
    mark: dict[str, Any] = {"collection": "one", "signatures": SIGNATURES, "version": "v2"}
    assert world.work.mark_page(**mark, most=4) == 4
    found = world.work.wanted(collection="one")
    assert found is not None
    assert (found.wanted, bool(found.after)) == ("w2", True)
    world.work.begin_pass(collection="one", wanted="w2", parser="p1")
    assert world.work.mark_page(**mark, most=4) == 4
    world.complete(other)
    assert len(world.work.marked(partitions=None)) == 10
    found = world.work.wanted(collection="one")
    assert found is not None
    assert found.after is None
    world.work.begin_pass(collection="one", wanted="w3", parser="p1")
    assert world.work.mark_page(**mark, most=4) == 4


def test_rejected_documents_keep_their_mark_until_a_sync_has_tried_them(connection: psycopg.Connection[Any]) -> None:
    world = World(connection, Random(3))
    world.add()
    world.connection.execute("UPDATE documents SET state = 'skipped', stage = 'parsed', content_key = 'k1'")
    ids = world.work.marked(partitions=None)
    assert len(ids) == 1

    def unmark(*, parsed: bool = True, deferred: Sequence[str] = (), partitions: list[str] | None = None) -> None:
        world.work.unmark(
            doc_ids=ids, collections=COLLECTIONS, attempts=MAX_ATTEMPTS, parsed=parsed, deferred=list(deferred),
            partitions=partitions,
        )  # fmt: skip

    unmark(parsed=False)
    unmark(deferred=["k1"])
    unmark(partitions=["elsewhere"])
    assert world.work.marked(partitions=None) == ids
    unmark()
    assert world.work.marked(partitions=None) == []


def test_a_sync_leaves_nothing_marked_and_the_next_compares_nothing(installation: Installation) -> None:
    for name in ("one", "two", "three"):
        installation.write(f"{name}.txt", f"The {name} otter of the river sleeps until noon.\n")
    installation.sync()
    assert installation.rows("SELECT * FROM index_work") == []
    before = installation.rows("SELECT * FROM index_passes")
    assert [row["after"] for row in before] == [None]
    installation.write("two.txt", "The second otter swims.\n")
    installation.sync()
    assert installation.rows("SELECT * FROM index_work") == []
    assert installation.agrees()


def test_an_entry_that_is_emptied_is_written_by_the_next_sync(installation: Installation) -> None:
    installation.write("one.txt", "The otter of the river sleeps until noon.\n")
    installation.sync()
    installation.rows("UPDATE index_entries SET content = '' RETURNING doc_id")
    assert installation.sync().counts.synced == 1
    assert installation.agrees()
