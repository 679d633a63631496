"""Memory that several processes share, here seen by two of them in one process: counts, limits, turns, metrics, progress."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resources.core.errors import ServiceUnavailableError
from resources.servers.shared import PID, Numbers, Progress, Shared
from resources.servers.tally import ROOM, SharedTally
from resources.settings import Settings, load
from serving.answers.turns import Turns
from serving.http.errors import ProblemError, UnauthorizedError
from serving.http.metrics import Metrics
from serving.http.rate_limit import RateLimit
from serving.http.sign_ins import SignIns

SECRET = "s" * 40


@pytest.fixture
def pair() -> tuple[Shared, Shared]:
    """The two processes."""
    leader = Shared.create(2, SECRET)
    return leader, Shared.attach(1, 2, SECRET, os.dup(leader.fd))


def test_a_rate_is_counted_over_all_processes(pair: tuple[Shared, Shared]) -> None:
    limits = [RateLimit(5, shared, "search", clock=lambda: 0.0) for shared in pair]
    assert [limits[number % 2].take("ann") == 0 for number in range(7)] == [True] * 5 + [False] * 2
    limits[0].give_back("ann")
    assert limits[1].take("ann") == 0
    assert limits[1].take("bob") == 0


def test_no_key_can_be_read_in_the_memory(pair: tuple[Shared, Shared]) -> None:
    leader, _ = pair
    RateLimit(5, leader, "search").take("ann@acme.com")
    SharedTally(leader, "requests", 10).enter(("read ann@acme.com", 5))
    content = os.pread(leader.fd, os.fstat(leader.fd).st_size, 0)
    assert any(content)
    assert b"ann@acme" not in content
    assert Shared.alone().digest("ann") != Shared.alone().digest("ann")


def test_counts_are_limited_over_all_processes_and_cleared_with_one(pair: tuple[Shared, Shared]) -> None:
    leader, follower = (SharedTally(shared, "requests", 10) for shared in pair)
    entries = [one.enter(("all", 4), ("ann", 3)) for one in (leader, follower, follower)]
    assert [one.reached for one in entries] == [None, None, None]
    assert leader.enter(("all", 4), ("ann", 3)).reached == 1
    assert follower.enter(("all", 4), ("bob", 3)).reached is None
    assert leader.enter(("all", 4), ("bob", 3)).reached == 0
    assert leader.by_worker("all") == [1, 3]
    pair[0].clear(1)
    assert leader.by_worker("all") == [1, 0]
    leader.leave(entries[0].slots)
    assert leader.by_worker("ann") == [0, 0]


def test_a_refused_entry_counts_for_none_of_its_keys(pair: tuple[Shared, Shared]) -> None:
    tally = SharedTally(pair[0], "requests", 10)
    assert tally.enter(("all", 9), ("ann", 0)).reached == 1
    assert tally.by_worker("all") == [0, 0]


def test_keys_that_are_no_longer_counted_leave_room_for_others() -> None:
    tally = SharedTally(Shared.alone(), "requests", 50)
    for number in range(50 * ROOM * 20):
        entry = tally.enter((f"caller {number}", 1))
        assert entry.reached is None
        tally.leave(entry.slots)
    full = [tally.enter((f"caller {number}", 1)).reached for number in range(50 * ROOM * 20)]
    assert full[:50] == [None] * 50
    assert 50 < full.count(None) <= 50 * ROOM + 16, "beyond its room it refuses instead of forgetting"


def test_failed_sign_ins_and_accepted_credentials_are_known_to_all_processes(pair: tuple[Shared, Shared]) -> None:
    first, second = (SignIns(2, Metrics(), shared) for shared in pair)

    async def fail(sign_ins: SignIns) -> None:
        async with sign_ins.attempt("192.0.2.1", "wrong"):
            raise UnauthorizedError("token-invalid", "Wrong.")

    async def run() -> None:
        async with first.attempt("192.0.2.1", "right"):
            pass
        for sign_ins in (first, second):
            with pytest.raises(UnauthorizedError):
                await fail(sign_ins)
        for sign_ins in (first, second):
            with pytest.raises(ProblemError):
                await fail(sign_ins)
            async with sign_ins.attempt("192.0.2.1", "right"):
                pass

    asyncio.run(run())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (the condition is in other tasks)
            await asyncio.sleep(0.005)


def test_people_take_turns_over_all_processes(pair: tuple[Shared, Shared]) -> None:
    async def run() -> list[str]:
        leader, follower = (Turns(1, shared) for shared in pair)
        order: list[str] = []

        async def call(turns: Turns, person: str) -> None:
            await turns.take(person)
            order.append(person)
            turns.leave()

        await leader.take("a")
        tasks = [
            asyncio.create_task(call(turns, person))
            for turns, person in [(leader, "a"), (follower, "a"), (follower, "b"), (leader, "c")]
        ]
        await asyncio.sleep(0)
        assert order == []
        leader.leave()
        await _until(lambda: len(order) == 4)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == ["a", "b", "c", "a"]


def test_the_calls_of_a_process_that_ended_give_way(pair: tuple[Shared, Shared]) -> None:
    async def run() -> None:
        leader, follower = (Turns(1, shared) for shared in pair)
        await follower.take("a")
        ended = asyncio.create_task(follower.take("b"))
        waiting = asyncio.create_task(leader.take("c"))
        await asyncio.sleep(0)
        pair[0].clear(1)
        await asyncio.wait_for(waiting, 60)
        ended.cancel()
        leader.leave()
        await asyncio.wait_for(leader.take("d"), 60)

    asyncio.run(run())


def test_metrics_are_summed_and_those_of_a_process_that_ended_are_kept(pair: tuple[Shared, Shared]) -> None:
    leader, follower = (Metrics(shared) for shared in pair)
    follower.searched(mode="hybrid", cached=True, seconds=0.01, results=3, warnings=())
    leader.searched(mode="hybrid", cached=False, seconds=0.01, results=4, warnings=("x",))
    follower.searched(mode="hybrid", cached=False, seconds=0.01, results=5, warnings=())
    leader.audit_waiting.set(2)
    follower.audit_waiting.set(3)
    leader.publish()
    follower.publish()
    for metrics in (leader, follower):
        shown = metrics.render((), None, None).decode()
        assert 'rag_searches_total{cached="false",mode="hybrid"} 2.0' in shown
        assert "rag_search_latency_ms_count 3.0" in shown
        assert "rag_search_results_count 5.0" in shown
        assert f"rag_cache_hit_rate {1 / 3}" in shown
        assert "serving_audit_waiting 5.0" in shown
        assert 'rag_search_degraded_total{code="x"} 1.0' in shown
    pair[0].clear(1)
    shown = leader.render((), None, None).decode()
    assert "rag_search_latency_ms_count 3.0" in shown
    assert "rag_search_results_count 4.0" in shown
    assert "serving_audit_waiting 2.0" in shown


def test_one_process_waits_for_the_work_of_another(pair: tuple[Shared, Shared]) -> None:
    async def run() -> None:
        leader, follower = (Progress(shared, "writes") for shared in pair)
        follower.queued(3)
        follower.done(2)
        waiting = asyncio.create_task(leader.others())
        await asyncio.sleep(0)
        follower.queued(5)  # later work is not waited for
        assert not waiting.done()
        follower.done(1)
        await asyncio.wait_for(waiting, 60)
        follower.queued(1)
        waiting = asyncio.create_task(leader.others())
        pair[0].clear(1)
        await asyncio.wait_for(waiting, 60)

    asyncio.run(run())


def test_processes_with_other_parts_are_refused(pair: tuple[Shared, Shared]) -> None:
    first, second = pair
    Numbers(second, "requests", 2)  # whichever comes first decides
    with pytest.raises(ServiceUnavailableError, match="different settings or versions"):
        Numbers(first, "audit", 2)


def test_what_an_ended_process_left_is_cleared_once(pair: tuple[Shared, Shared]) -> None:
    first, second = pair
    cleared: list[int] = []
    for shared in pair:
        shared.on_clear(cleared.append)
        shared.begin()
    cleared.clear()
    first.clear_ended()
    assert cleared == [], "both run"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    second.processes[PID] = ended.pid
    first.clear_ended()
    first.clear_ended()
    assert cleared == [1]


@pytest.mark.parametrize("count", ["0", "65", "two"])
def test_the_number_of_processes_is_checked(count: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_SERVING_WORKERS", count)
    with pytest.raises(Exception, match="CONCORDANCE_SERVING_WORKERS"):
        load()


@pytest.mark.parametrize(("available", "count"), [(1, 1), (2, 2), (8, 2)])
def test_two_processes_serve_by_default(available: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.settings.service.cores", lambda: available)
    assert Settings(_env_file=None).serving_workers == count  # type: ignore[call-arg]


def test_a_number_that_has_changed_since_it_was_read_is_not_taken(pair: tuple[Shared, Shared]) -> None:
    first, second = pair
    second.processes[PID] = 7
    assert not first.processes.take(1, PID, 6), "a successor has written its own"
    assert second.processes[PID] == 7
    assert first.processes.take(1, PID, 7)
    assert not first.processes.take(1, PID, 7), "one of several gets it"
    assert second.processes[PID] == 0
