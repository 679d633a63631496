"""The queue for the language model: a limit, people in turn, and nobody is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from resources.servers.shared import Shared
from serving.answers.turns import Turns


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _queue(turns: Turns, people: str) -> tuple[list[str], list[asyncio.Task[None]]]:
    """Let calls of people, a letter each, wait in this order; return who has a place, in order, and their tasks."""
    served: list[str] = []

    async def call(person: str) -> None:
        await turns.take(person)
        served.append(person)

    tasks = [asyncio.create_task(call(person)) for person in people]
    await _settled()
    return served, tasks


@pytest.mark.parametrize(
    ("people", "order"), [("abc", "abc"), ("aaab", "aaba"), ("aaabbc", "aabcab"), ("abababc", "abacbab")]
)
def test_people_take_turns(people: str, order: str) -> None:
    async def run() -> str:
        turns = Turns(1, Shared.alone())
        served, tasks = await _queue(turns, people)
        while len(served) < len(people):
            turns.leave()
            await _settled()
        await asyncio.gather(*tasks)
        return "".join(served)

    assert asyncio.run(run()) == order


def test_no_more_than_the_limit_at_a_time() -> None:
    async def run() -> list[int]:
        turns = Turns(2, Shared.alone())
        served, tasks = await _queue(turns, "abcd")
        counts = [len(served)]
        for _ in range(4):
            turns.leave()
            await _settled()
            counts.append(len(served))
        await asyncio.gather(*tasks)
        return counts

    assert asyncio.run(run()) == [2, 3, 4, 4, 4]


@pytest.mark.parametrize("granted", [False, True])
def test_whoever_leaves_the_queue_takes_no_place(granted: bool) -> None:
    async def run() -> None:
        turns = Turns(1, Shared.alone())
        served, tasks = await _queue(turns, "abc")
        if granted:  # at the very moment that it is given the place
            turns.leave()
            tasks[1].cancel()
        else:
            tasks[1].cancel()
            turns.leave()
        await _settled()
        assert served == ["a", "c"]
        assert tasks[1].cancelled()
        turns.leave()
        await asyncio.wait_for(turns.take("d"), 5)

    asyncio.run(run())
