"""Statements that change several documents lock them in one order, so that two of them never wait for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from assets.index import doubt
from resources.core.domain import SourceName, document_id
from resources.core.errors import LostLeaseError
from resources.stores import uploads
from resources.stores.fenced import connect_fenced
from resources.stores.leases import claim
from resources.stores.postgres import Connection, connect
from sql.sync import Documents, IndexEntries, IndexWork, Jobs
from sql.upkeep import PermissionAudit

FILES = SourceName.FILES
ANN, BOB = "user:ann@acme.example", "user:bob@acme.example"
NUMBERS = range(1, 6)
IDS = [f"00000000-0000-0000-0000-{number:012}" for number in NUMBERS]
NAMES = [str(9 - number) for number in NUMBERS]
"""Source IDs, in the opposite order of the IDs, as is the table itself."""
FREE = "SELECT doc_id::text AS doc_id FROM documents ORDER BY doc_id FOR NO KEY UPDATE SKIP LOCKED"
MARKS = "SELECT count(*) AS marks FROM index_work"


def insert(connection: Connection, rows: list[tuple[str, str]], source: str = "files") -> None:
    for doc_id, source_id in rows:
        connection.execute(
            "INSERT INTO documents (doc_id, source, source_id, partition, state, permissions, next_permissions, source_title, path,"
            " mime_type, profile, content_key, payload_hash)"
            " VALUES (%s, %s, %s, 'docs', 'live', %s, %s, 'title', 'a/title', 'text/plain', 'default', 'k', 'h0')",
            [doc_id, source, source_id, [ANN], [ANN, BOB]],
        )


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    """Documents with an entry each, which Ann may read, and Bob once `widen` is called."""
    with connect(database, autocommit=True) as found:
        found.execute(
            "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active)"
            " VALUES ('one', 'm', 3, 'c', 1, TRUE)"
        )
        insert(found, list(zip(IDS, NAMES, strict=True))[::-1])
        found.execute(
            "INSERT INTO index_entries (collection, doc_id, content, payload, keywords, chunk_count)"
            " SELECT 'one', doc_id, 'k|p', 'h0', '', 1 FROM documents ORDER BY doc_id DESC"
        )
        yield found


WAITING = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def wait_for_lock(connection: Connection, thread: threading.Thread) -> None:
    deadline = time.monotonic() + 60
    while not connection.execute(WAITING).fetchall():
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def free_while_waiting(dsn: str, connection: Connection, lowest: str, work: Callable[[Connection], object]) -> set[str]:
    """Return the documents that are not locked while work waits for the lowest one, which another transaction is changing."""
    faults: list[Exception] = []

    def run() -> None:
        try:
            with connect(dsn) as own:
                work(own)
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    thread = threading.Thread(target=run)
    with connect(dsn) as other:
        other.execute("SELECT FROM documents WHERE doc_id = %s FOR NO KEY UPDATE", [lowest])
        thread.start()
        wait_for_lock(connection, thread)
        found = {row["doc_id"] for row in connection.execute(FREE).fetchall()}
    thread.join()
    assert faults == []
    return found


def granting(doc_id: str) -> dict[str, Any]:
    return {"doc_id": doc_id, "permissions": [BOB]}


CHANGES: dict[str, Callable[[Connection], object]] = {
    "tombstone": lambda c: Documents(c, "files").tombstone(source_ids=NAMES, times={}),
    "widen": lambda c: Documents(c, "files").widen(partitions=None),
    "readdress": lambda c: Documents(c, "files").readdress(emails=[ANN]),
    "hide_partition": lambda c: Documents(c, "files").hide_partition(partition="docs"),
    "set_outcomes": lambda c: Documents(c, "files").set_outcomes(
        rows=[
            {"doc_id": one, "state": "failed", "reason": "broken", "stage": "parsed", "attempts": 1}
            for one in IDS[::-1]
        ]
    ),
    "narrow": lambda c: PermissionAudit(c, "files").narrow(rows=[granting(one) for one in IDS[::-1]]),
    "grant": lambda c: PermissionAudit(c, "files").grant(rows=[granting(one) for one in IDS[::-1]]),
    "mark_changed": lambda c: PermissionAudit(c, "files").mark_changed(doc_ids=IDS[::-1]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_documents_are_locked_in_the_order_of_their_ids(database: str, connection: Connection, name: str) -> None:
    before = connection.execute("SELECT * FROM documents ORDER BY doc_id").fetchall()
    assert free_while_waiting(database, connection, IDS[0], CHANGES[name]) == set(IDS[1:])
    after = connection.execute("SELECT * FROM documents ORDER BY doc_id").fetchall()
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_copies_are_locked_in_the_order_of_their_ids(database: str, connection: Connection) -> None:
    names = sorted(
        map(str, NUMBERS),
        key=lambda name: document_id(SourceName.UPLOAD, uploads.source_id_of("ann@acme.example", "", name)),
        reverse=True,
    )
    copies: list[str] = []
    for name in names:
        one = uploads.NewUpload(
            owner="ann@acme.example", content_hash=name, size=1, file_name="plan.md", title=None, description=None,
            mime_type="text/markdown", permissions=(), tags={}, name=name, origin=uploads.Origin(IDS[0], (ANN,), (ANN,)),
        )  # fmt: skip
        kept = uploads.record(connection, one)
        copies.append(kept.doc_id)
        insert(connection, [(kept.doc_id, kept.source_id)], "upload")
    connection.execute("UPDATE documents SET permissions = '{}' WHERE doc_id = %s", [IDS[0]])
    withheld: Any = SimpleNamespace(documents=list)
    free = free_while_waiting(
        database, connection, copies[-1], lambda own: uploads.follow_origins(own, withheld, [IDS[0]])
    )
    assert free == {*IDS, *copies[:-1]}
    left = connection.execute("SELECT DISTINCT permissions FROM documents WHERE source = 'upload'").fetchall()
    assert left == [{"permissions": []}]


def test_a_doubt_locks_documents_before_entries(database: str, connection: Connection) -> None:
    stores: Any = SimpleNamespace(
        settings=SimpleNamespace(postgres_dsn=database),
        source=FILES,
        withheld=SimpleNamespace(documents=list),
    )

    def lose() -> None:
        with pytest.raises(LostLeaseError), doubt.doubting(stores, ["one"], IDS):
            raise LostLeaseError("Another process has taken over.")

    thread = threading.Thread(target=lose)
    with connect(database) as other:
        other.execute("SELECT FROM documents WHERE doc_id = %s FOR NO KEY UPDATE", [IDS[0]])
        thread.start()
        wait_for_lock(connection, thread)
        assert len(connection.execute("SELECT FROM index_entries FOR UPDATE SKIP LOCKED").fetchall()) == len(IDS)
    thread.join()
    doubted = connection.execute("SELECT count(*) AS n FROM index_entries WHERE content = ''").fetchall()
    assert doubted == [{"n": len(IDS)}]


def deadlock(connection: Connection, other: Connection, work: Callable[[], object]) -> bool:
    """Run work, which changes the entries from the last to the first, against a transaction that does so from the first to the last.

    Return True if Postgres has ended the work, which waits first; on a busy machine it may be the transaction.
    """
    faults: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    thread = threading.Thread(target=run)
    with capture_logs() as logs, suppress(psycopg.errors.DeadlockDetected), other.transaction():
        other.execute("UPDATE index_entries SET chunk_count = 2 WHERE doc_id = %s", [IDS[0]])
        thread.start()
        wait_for_lock(connection, thread)
        other.execute("UPDATE index_entries SET chunk_count = 2")
    thread.join()
    assert faults == []
    return "deadlock" in [one["event"] for one in logs]


def test_a_single_statement_is_repeated_after_a_deadlock(database: str, connection: Connection) -> None:
    lease = claim(database, FILES.value, ["docs"])
    assert lease is not None
    with closing(connect_fenced(database, lease)) as fenced, connect(database, autocommit=True) as other:
        entries = IndexEntries(fenced, FILES.value)
        assert any(
            deadlock(connection, other, lambda: entries.begin_payloads(collection="one", doc_ids=IDS))
            for _ in range(20)
        )
        with pytest.raises(psycopg.errors.DeadlockDetected), fenced.transaction(), capture_logs() as logs:
            fenced.execute("DO $$ BEGIN RAISE deadlock_detected; UPDATE index_entries SET content = ''; END $$")
        assert logs == [], "a transaction is not repeated in part"
    lease.release()
    found = connection.execute("SELECT payload, chunk_count FROM index_entries").fetchall()
    assert found == [{"payload": None, "chunk_count": 2}] * len(IDS)


def test_numbers_of_change_rows_are_reserved_once(database: str, connection: Connection) -> None:
    def reserved(_: int) -> list[int]:
        with connect(database, autocommit=True) as own:
            return [Jobs(own).next_sequence(clock_ns=0, reserve=10) for _ in range(200)]

    with ThreadPoolExecutor(8) as pool:
        firsts = sorted(first for found in pool.map(reserved, range(8)) for first in found)
    assert all(later - first >= 10 for first, later in pairwise(firsts))


def test_marks_that_another_run_removes_are_left_to_it(database: str, connection: Connection) -> None:
    connection.execute("UPDATE index_entries SET content = 'k|p', payload = 'h0', keywords = E'v\n\ntitle\ntitle'")
    connection.execute(
        "INSERT INTO index_work (doc_id, source) SELECT doc_id, source FROM documents ON CONFLICT DO NOTHING"
    )
    assert connection.execute(MARKS).fetchall() == [{"marks": len(IDS)}]
    connection.execute("SET lock_timeout = '200ms'")
    with connect(database) as other:
        other.execute("SELECT FROM index_work WHERE doc_id = %s FOR UPDATE", [IDS[0]])
        removed = IndexWork(connection, "files").unmark(
            doc_ids=IDS, collections=[], attempts=3, parsed=True, deferred=[], partitions=None
        )
    assert removed == len(IDS) - 1
    assert connection.execute(MARKS).fetchall() == [{"marks": 1}]


def test_counts_that_another_run_merges_are_left_to_it(database: str, connection: Connection) -> None:
    totals = (
        "SELECT sum(documents)::int AS documents FROM document_counts",
        "SELECT sum(passages)::int AS passages FROM passage_counts",
    )
    before = [connection.execute(one).fetchall() for one in totals]
    work = IndexWork(connection, "files")
    with connect(database) as other:
        other.execute("SELECT FROM document_counts LIMIT 1 FOR UPDATE")
        other.execute("SELECT FROM passage_counts LIMIT 1 FOR UPDATE")
        connection.execute("SET lock_timeout = '200ms'")
        work.merge_documents()
        work.merge_passages()
        assert [connection.execute(one).fetchall() for one in totals] == before
    work.merge_documents()
    work.merge_passages()
    assert [connection.execute(one).fetchall() for one in totals] == before
    for table in ("document_counts", "passage_counts"):
        assert len(connection.execute(f"SELECT FROM {table}").fetchall()) == 1
