"""What the serving monitor reads every ten seconds, in each process, costs the same however many documents wait for a sync."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from resources.stores.disk import HUNG, DiskFault
from serving.http.database import Database
from serving.http.monitor import TOTALS_SECONDS, StatusMonitor
from sql.family import Declared

LISTED = 1000


class Asked(Database):
    """A pool that notes the names of the statements."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, prepare_threshold=5)
        self.statements: list[str] = []

    async def run(self, declared: Declared, parameters: Mapping[str, Any]) -> Any:
        self.statements.append(declared.name)
        return await super().run(declared, parameters)


async def look(database: str, *points: int) -> tuple[bool, list[str]]:
    """Return whether the index is incomplete after a monitor has found these numbers of points in it, and the statements."""
    counts = iter(points)

    async def index() -> tuple[int | None, int | None]:
        return next(counts), 0

    pool = Asked(database)
    await pool.open()
    try:
        monitor = StatusMonitor(pool, index, list)
        for _ in points:
            await monitor._look()
        assert monitor.dependencies["postgres"]
        return monitor.incomplete, pool.statements
    finally:
        await pool.close()


async def index() -> tuple[int | None, int | None]:
    return 0, 0


async def looked(database: str) -> StatusMonitor:
    """Return a monitor after its first look."""
    pool = Asked(database)
    await pool.open()
    monitor = StatusMonitor(pool, index, list)
    await monitor._look()
    await pool.close()
    return monitor


@pytest.fixture
def listed(database: str) -> str:
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active)"
            " VALUES ('one', 'm', 3, 'c1', 9.0, true)"
        )
        connection.execute(
            "INSERT INTO passage_counts (collection, source, partition, passages) VALUES ('one', 'files', 'docs', %s)",
            (LISTED,),
        )
    return database


def test_documents_that_wait_are_not_read_while_the_index_holds_what_is_listed(listed: str) -> None:
    incomplete, statements = asyncio.run(look(listed, LISTED, LISTED + 5))
    assert (incomplete, statements) == (False, ["totals", "listed_passages"] * 2)


def test_an_index_that_holds_less_than_is_listed_twice_is_incomplete(listed: str) -> None:
    incomplete, statements = asyncio.run(look(listed, 900, 900))
    assert (incomplete, statements) == (True, ["totals", "listed_passages", "expected_passages"] * 2)
    assert not asyncio.run(look(listed, 900, LISTED))[0]
    assert not asyncio.run(look(listed, LISTED, 900))[0]


def test_figures_do_not_wait_for_tables_that_are_rewritten(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO source_states (source) VALUES ('files')")
        connection.commit()
        connection.execute("LOCK TABLE audit_log, answers, uploads IN ACCESS EXCLUSIVE MODE")
        monitor = asyncio.run(looked(database))
    sizes = {one.label: one.value for one in monitor.totals if one.what == "table_bytes"}
    assert sizes["audit_log"] > 0
    assert monitor.dependencies["postgres"]


def test_a_postgres_that_is_busy_for_two_minutes_is_not_down_and_leaves_the_last_figures(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.http.database.STATEMENT_SECONDS", 0.5)

    async def looks() -> None:
        pool = Asked(database)
        await pool.open()
        now = 0.0
        monitor = StatusMonitor(pool, index, list, clock=lambda: now)
        await monitor._look()
        before = monitor.totals
        assert before
        with psycopg.connect(database) as connection:
            connection.execute("LOCK TABLE document_counts IN ACCESS EXCLUSIVE MODE")
            for later, kept in ((TOTALS_SECONDS, before), (TOTALS_SECONDS + 1, ())):
                now = later
                await monitor._look()
                assert (monitor.totals, monitor.dependencies["postgres"]) == (kept, bool(kept))
        now += 10
        await monitor._look()
        await pool.close()
        assert monitor.dependencies["postgres"]

    asyncio.run(looks())


def test_a_postgres_that_is_busy_at_the_start_is_not_down(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.http.database.STATEMENT_SECONDS", 0.5)

    async def looks() -> None:
        pool = Asked(database)
        await pool.open()
        monitor = StatusMonitor(pool, index, list)
        with psycopg.connect(database) as connection:
            connection.execute("LOCK TABLE document_counts IN ACCESS EXCLUSIVE MODE")
            await monitor._look()
        await pool.close()
        assert (monitor.totals, monitor.dependencies["postgres"]) == ((), True)

    asyncio.run(looks())


def test_a_file_system_that_hangs_is_a_fault_and_stops_nothing_else(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.http.monitor.DISK_SECONDS", 0.05)
    back, asked = threading.Event(), 0
    answers = [True, False]

    def disk() -> list[DiskFault]:
        nonlocal asked
        asked += 1
        back.wait(60)
        return []

    async def looks() -> None:
        pool = Asked(database)
        await pool.open()
        monitor = StatusMonitor(pool, index, disk, lambda: {"home_disk_bytes": 1.0})
        monitor.watch("embedding", lambda: answers.pop())
        for answer, states in ((False, []), (True, [HUNG])):
            await monitor._look()
            assert [one.state for one in monitor.disk_faults] == states, "a disk may be slow once"
            assert monitor.gauges["home_disk_writable"] == (not states)
            assert monitor.dependencies["embedding"] is answer
        assert asked == 1
        back.set()
        answers.append(True)
        monkeypatch.setattr("serving.http.monitor.DISK_SECONDS", 30)
        await monitor._look()
        assert (monitor.disk_faults, monitor.gauges) == ([], {"home_disk_bytes": 1.0, "home_disk_writable": 1.0})
        await pool.close()

    asyncio.run(looks())
    assert asked == 1
