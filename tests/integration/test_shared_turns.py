"""Turns of the language model are those of all machines that use one database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import psycopg
import pytest

from serving.answers import shared_turns
from serving.answers.shared_turns import SharedTurns
from serving.http.database import Database
from tests.fixtures.waiting import until

LIMIT, MACHINES, CALLS = 2, 4, 5


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Postgres however long it takes to answer: after a second, a machine goes on without it."""
    monkeypatch.setattr(shared_turns, "DEADLINE_SECONDS", 60)


def machines(database: str, run: Callable[[Sequence[SharedTurns]], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        pools = [Database(database, prepare_threshold=5, size=3) for _ in range(MACHINES)]
        for pool in pools:
            await pool.open()
        try:
            await run([SharedTurns(pool, b"model", LIMIT) for pool in pools])
        finally:
            for pool in pools:
                await pool.close()

    asyncio.run(all_of_it())


def deadline(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def test_no_more_calls_run_than_allowed_and_all_get_a_turn(database: str) -> None:
    running, most, done = 0, 0, 0

    async def call(turns: SharedTurns) -> None:
        nonlocal running, most, done
        async with turns.turn(deadline(60)):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            done += 1

    async def run(all_turns: Sequence[SharedTurns]) -> None:
        await asyncio.gather(*(call(turns) for turns in all_turns for _ in range(CALLS)))

    machines(database, run)
    assert (most, done) == (LIMIT, MACHINES * CALLS)


def test_turns_of_a_process_that_was_killed_end_by_their_time(database: str) -> None:
    async def run(all_turns: Sequence[SharedTurns]) -> None:
        first, second, third, _ = all_turns
        assert await first._take("11111111-1111-4111-8111-111111111111")
        assert await second._take("22222222-2222-4222-8222-222222222222")
        with pytest.raises(TimeoutError):
            async with third.turn(deadline(0.3)):
                raise AssertionError("Nobody has left.")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE model_turns SET until[1] = now() - interval '1 second'")
        async with third.turn(deadline(30)):
            pass

    machines(database, run)


def test_a_long_call_keeps_its_turn(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_turns, "RENEW_SECONDS", 0.1)

    async def run(all_turns: Sequence[SharedTurns]) -> None:
        first, second, third, _ = all_turns
        async with first.turn(deadline(30)), second.turn(deadline(30)):
            with psycopg.connect(database, autocommit=True) as connection:
                first_end = connection.execute("SELECT max(u) FROM model_turns, unnest(until) AS t (u)").fetchone()
                renewed = "SELECT 1 FROM model_turns WHERE %s < ALL (until)"
                await asyncio.to_thread(
                    until, lambda: connection.execute(renewed, first_end).fetchone(), "renewed turns"
                )
            with pytest.raises(TimeoutError):
                async with third.turn(deadline(0.3)):
                    raise AssertionError("Both still have their turns.")

    machines(database, run)


def test_without_postgres_calls_are_not_held_up() -> None:
    done: list[int] = []

    async def run(all_turns: Sequence[SharedTurns]) -> None:
        for number, turns in enumerate(all_turns):
            async with turns.turn(deadline(30)):
                done.append(number)

    machines("postgresql://nobody@127.0.0.1:1/none", run)
    assert done == [0, 1, 2, 3]
