"""Limits hold for all processes that use one database, and without it each has its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
import pytest

from assets.upkeep.retention import prune_expired
from resources.rates import Rate, bucket
from resources.servers.shared import Shared
from resources.stores.postgres import session
from serving.http import rate_limit
from serving.http.database import Database
from serving.http.rate_limit import CallerLimit, CallerLimits
from sql.rates import SharedRates, Taken
from tests.fixtures.serving import Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ROOT = Path(__file__).parents[2]
PROCESSES, MOST, CALLS = 4, 60, 200
CALLER = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from resources.servers.shared import Shared
from serving.http import rate_limit
from serving.http.database import Database

rate_limit.DEADLINE_SECONDS = 60

async def main():
    database = Database(sys.argv[1], prepare_threshold=5)
    await database.open()
    limit = rate_limit.CallerLimits(Shared.alone(), database, "k" * 40).limit({MOST}, "search")
    print("ready", flush=True)
    sys.stdin.readline()
    granted = 0
    for _ in range({CALLS}):
        granted += await limit.take("ann") == 0
        await asyncio.sleep(0.005)
    await database.close()
    print(granted)

asyncio.run(main())
"""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Postgres however long it takes to answer: after half a second, each service grants what its own limit holds."""
    monkeypatch.setattr(rate_limit, "DEADLINE_SECONDS", 60)


def test_four_processes_together_never_pass_a_limit(database: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CALLER, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    answers: list[int] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=60)
        answers.append(int(out))
    assert MOST - PROCESSES * 3 <= sum(answers) <= MOST + (time.monotonic() - began) * MOST / 60 + 1
    with psycopg.connect(database) as connection:
        (stored,) = connection.execute("SELECT bucket FROM rate_buckets").fetchall()
    assert len(stored[0]) == 16
    assert b"ann" not in stored[0]


@pytest.mark.parametrize("asked_to_wait", [False, True])
def test_a_clock_that_is_set_back_holds_no_one_up(database: str, asked_to_wait: bool) -> None:
    name, rate = bucket("k" * 40, "ann"), Rate(5, 1)
    with session(database, autocommit=True) as connection:
        rates = SharedRates(connection)

        def take() -> int:
            taken = rates.take(bucket=name, most=rate.most, a_second=rate.a_second, wanted=5, returned=0)
            assert taken is not None
            return taken.granted

        assert take() == 5
        connection.execute("UPDATE rate_buckets SET at = at + interval '1 day', full_at = full_at + interval '1 day'")
        if asked_to_wait:
            rates.block(bucket=name, most=rate.most, a_second=rate.a_second, seconds=1)
        assert take() == 0, "nothing is given for the time that did not pass"
        connection.execute("UPDATE rate_buckets SET at = at - interval '20 seconds'")
        assert take() > 0


@pytest.mark.usefixtures("patient")
def test_searches_of_a_person_are_counted_over_two_services(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 10})
    site.add("Tea", ["Tea is served at four."], [ANN])
    with site.running() as one, site.running() as two:
        began = time.monotonic()
        found = [
            running.request("POST", "/api/search", ANN, json={"query": f"tea {number}"})
            for number in range(20)
            for running in (one, two)
        ]
        granted = [answer for answer in found if answer.status_code == 200]
        assert 8 <= len(granted) <= 10 + (time.monotonic() - began) * 10 / 60
        refused = [answer for answer in found if answer.status_code == 429]
        assert len(granted) + len(refused) == 40
        assert all(1 <= int(answer.headers["retry-after"]) <= 7 for answer in refused)
        assert one.request("POST", "/api/search", BOB, json={"query": "tea"}).status_code == 200


@pytest.mark.usefixtures("no_refills")
def test_failed_sign_ins_are_counted_over_two_services(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 4, "trusted_proxies": ("127.0.0.1",)})
    wrong = {"X-Forwarded-For": "192.0.2.1", "Authorization": "Bearer nonsense"}
    with site.running() as one, site.running() as two:
        for running in (one, two):  # what is right never counts
            for _ in range(4):
                assert running.request("GET", "/api/sources", ANN).status_code == 200
        found = [
            running.http.get("/api/sources", headers=wrong).status_code for _ in range(5) for running in (one, two)
        ]
    assert (found.count(401), found.count(429)) == (4, 6)


def limits(database: str, run: Callable[[Callable[[int], CallerLimit]], Awaitable[None]], *, clients: int = 1) -> None:
    """Run with a maker of the same limit in several processes, each of which has its own pool."""

    async def all_of_it() -> None:
        pools = [Database(database, prepare_threshold=5) for _ in range(clients)]
        for pool in pools:
            await pool.open()
        makers = [CallerLimits(Shared.alone(), pool, "k" * 40) for pool in pools]
        made = [maker.limit(5, "search", 3600) for maker in makers]
        try:
            await run(lambda number: made[number])
        finally:
            for pool in pools:
                await pool.close()

    asyncio.run(all_of_it())


@pytest.mark.usefixtures("patient")
def test_a_token_that_is_given_back_is_used_by_the_same_process(database: str) -> None:
    async def run(limit: Callable[[int], CallerLimit]) -> None:
        for _ in range(20):
            assert await limit(0).take("ann") == 0
            limit(0).give_back("ann")
        assert [await limit(1).take("ann") == 0 for _ in range(5)] == [True] * 4 + [False]
        assert await limit(0).take("ann") == 0
        assert await limit(0).take("ann") > 600

    limits(database, run, clients=2)


def test_without_postgres_each_process_has_the_limit_by_itself(unreachable: str) -> None:
    async def run(limit: Callable[[int], CallerLimit]) -> None:
        for number in range(2):
            assert [await limit(number).take("ann") == 0 for _ in range(6)] == [True] * 5 + [False]

    limits(unreachable, run, clients=2)


@pytest.fixture
def unreachable() -> str:
    """Address at which no Postgres answers."""
    return "postgresql://nobody@127.0.0.1:1/none"


def taken(connection: SharedRates, name: bytes, rate: Rate, wanted: int, returned: int = 0) -> tuple[int, float]:
    found = connection.take(bucket=name, most=rate.most, a_second=rate.a_second, wanted=wanted, returned=returned)
    assert isinstance(found, Taken)
    return found.granted, found.seconds


def test_a_bucket_is_refilled_evenly_and_holds_no_more_than_its_limit(database: str) -> None:
    name, rate = bucket("k", "a"), Rate.within(10, 60)
    with session(database) as connection:  # one transaction, in which no time passes
        rates = SharedRates(connection)
        assert taken(rates, name, rate, 4) == (4, 0)
        assert taken(rates, name, rate, 20)[0] == 6
        granted, seconds = taken(rates, name, rate, 1)
        assert granted == 0
        assert 5 < seconds <= 6
        connection.execute("UPDATE rate_buckets SET at = at - interval '13 seconds'")
        assert taken(rates, name, rate, 20)[0] == 2
        assert taken(rates, name, rate, 20, 3)[0] == 3
        connection.execute("UPDATE rate_buckets SET at = at - interval '1 day'")
        assert taken(rates, name, rate, 20)[0] == 10
        rates.block(bucket=name, most=rate.most, a_second=rate.a_second, seconds=30)
        granted, seconds = taken(rates, name, rate, 1)
        assert granted == 0
        assert 29 < seconds <= 36


def test_buckets_that_are_full_are_dropped(site: Site) -> None:
    with session(site.settings.postgres_dsn, autocommit=True) as connection:
        rates = SharedRates(connection)
        for name in ("old", "new"):
            taken(rates, bucket("k", name), Rate.within(10, 60), 1)
        connection.execute(
            "UPDATE rate_buckets SET full_at = now() - interval '2 hours' WHERE bucket = %s", (bucket("k", "old"),)
        )
        assert prune_expired(site.settings)["rate_buckets"] == 1
        assert connection.execute("SELECT bucket FROM rate_buckets").fetchall() == [{"bucket": bucket("k", "new")}]
