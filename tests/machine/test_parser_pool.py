"""The parser pool with real processes: bad files affect nothing else, no process is left behind, memory stays bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import psutil
import pytest

from assets.parsing.pool import ParseJob, ParserPool
from assets.parsing.process import Queue
from resources.core.errors import AbortSyncError
from tests.fixtures.waiting import until

pytestmark = pytest.mark.usefixtures("no_kept_parsers")
HANGS = b"* * a\n" * 700_000
"""Nested lists that take half a minute to parse."""
BUSY_SECONDS = 2.0
"""Processor time after which a worker is in the middle of such a file."""
PARTS = "\n\n".join(['{"size":0}'] * 60_000)
"""More bytes than are sent at once, that look like the lines between them."""


def hanging(key: str) -> ParseJob:
    return ParseJob(key=key, mime_type="text/markdown", title="x", data=HANGS)


def text_job(key: str, text: str = "Some words of a text.") -> ParseJob:
    return ParseJob(key=key, mime_type="text/plain", title="x", data=text.encode())


def children(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "assets.parsing.worker" in child.cmdline()]


def workers() -> list[psutil.Process]:
    return children(os.getpid())


@pytest.fixture
def pool() -> Iterator[ParserPool]:
    with ParserPool(2, 30, 512) as made:
        yield made
    assert not workers()


def test_every_job_has_its_outcome(pool: ParserPool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("From a file.", encoding="utf-8")
    jobs = [text_job(str(number), f"Text number {number}.") for number in range(100)]
    jobs.append(ParseJob(key="file", mime_type="text/plain", title="x", path=str(tmp_path / "a.txt")))
    jobs.append(ParseJob(key="gone", mime_type="text/plain", title="x", path=str(tmp_path / "none")))
    jobs.append(text_job("parts", PARTS))
    jobs.append(ParseJob(key="empty", mime_type="text/plain", title="x", data=b""))
    outcomes = {outcome.key: outcome for outcome in pool.run(jobs)}
    assert len(outcomes) == 104
    for number in range(100):
        document = outcomes[str(number)].document
        assert document is not None
        assert document.text == f"Text number {number}."
    found = outcomes["file"].document
    assert found is not None
    assert found.text == "From a file."
    whole = outcomes["parts"].document
    assert whole is not None
    assert whole.text == PARTS
    assert outcomes["gone"].error is not None
    assert not outcomes["gone"].skipped
    assert outcomes["empty"].skipped


def test_a_file_that_takes_too_long_costs_only_itself() -> None:
    jobs = [
        text_job("before"),
        hanging("slow"),
        *map(text_job, "abc"),
    ]
    with ParserPool(1, 2, 2048) as pool:
        outcomes = {outcome.key: outcome for outcome in pool.run(jobs)}
    slow = outcomes.pop("slow")
    assert slow.error == "Parsing took longer than 2 s (CONCORDANCE_LIMITS__PARSE_SECONDS)."
    assert slow.skipped
    assert {outcome.key for outcome in outcomes.values() if outcome.document} == {"before", "a", "b", "c"}


def test_the_files_of_one_person_never_occupy_every_worker() -> None:
    bombs = [hanging(f"bomb {number}") for number in range(3)]
    with ParserPool(2, 600, 2048) as pool:
        order = [outcome.key for outcome in islice(pool.run(bombs, map(text_job, "abcdefgh")), 8)]
    assert sorted(order) == list("abcdefgh"), "a text waited for a bomb"


def test_queues_take_turns_with_a_single_worker() -> None:
    with ParserPool(1, 30, 512) as pool:
        order = [outcome.key for outcome in pool.run(map(text_job, "abcdefgh"), map(text_job, "12"))]
    assert sorted(order) == sorted("abcdefgh12")
    assert order[:4] == ["a", "1", "b", "2"]


def test_what_a_pool_was_given_is_not_kept(pool: ParserPool) -> None:
    given = [text_job("a"), text_job("b")]
    queues = [(job for job in [one]) for one in given]
    left = [weakref.ref(queue) for queue in queues]
    assert sorted(outcome.key for outcome in pool.run(*queues)) == ["a", "b"]
    del queues
    assert [queue() for queue in left] == [None, None]
    assert [outcome.key for outcome in pool.run([text_job("again")])] == ["again"]


def test_the_queues_of_many_people_are_not_all_asked_for_each_file() -> None:
    asked = 0

    class Counting(ParserPool):
        def _may_send(self, queue: Queue, *, shared: bool) -> bool:
            nonlocal asked
            asked += 1
            return super()._may_send(queue, shared=shared)

    people = 200
    with Counting(2, 30, 512) as pool:
        outcomes = list(pool.run(*([text_job(f"{number}")] for number in range(people))))
    assert sorted(int(outcome.key) for outcome in outcomes) == list(range(people))
    assert asked < 10 * people


def test_jobs_of_a_killed_worker_are_repeated_for_each_of_many_people(pool: ParserPool) -> None:
    outcomes = pool.run(*(map(text_job, [f"{person} {number}" for number in range(10)]) for person in range(20)))
    keys = [next(outcomes).key]
    for worker in workers():
        worker.kill()
    keys += [outcome.key for outcome in outcomes]
    assert sorted(keys) == sorted(f"{person} {number}" for person in range(20) for number in range(10))


def test_a_file_that_needs_too_much_memory_costs_only_itself() -> None:
    hog = ParseJob(key="hog", mime_type="application/json", title="x", data=b"[" + b"{}," * 8_000_000 + b"{}]")
    with ParserPool(1, 60, 256) as pool:
        outcomes = {outcome.key: outcome for outcome in pool.run([text_job("a"), hog, text_job("b")])}
    assert "256 MB" in str(outcomes["hog"].error)
    assert not outcomes["hog"].skipped
    assert outcomes["a"].document is not None
    assert outcomes["b"].document is not None


def test_a_killed_worker_is_replaced(pool: ParserPool) -> None:
    outcomes = pool.run(text_job(str(number), "word " * 2000) for number in range(200))
    keys = [next(outcomes).key]
    for worker in workers():
        worker.kill()
    keys += [outcome.key for outcome in outcomes]
    assert sorted(keys, key=int) == [str(number) for number in range(200)]


def test_jobs_are_read_no_faster_than_outcomes_are_taken(pool: ParserPool) -> None:
    read = 0

    def endless() -> Iterator[ParseJob]:
        nonlocal read
        while True:
            read += 1
            yield text_job(str(read))

    outcomes = pool.run(endless())
    for _ in range(300):
        next(outcomes)
    assert read < 300 + 200
    outcomes.close()  # pyright: ignore[reportAttributeAccessIssue] - run is a generator
    assert not workers()
    assert [outcome.key for outcome in pool.run([text_job("again")])] == ["again"]


def test_workers_see_no_secrets(pool: ParserPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_SECRET_KEY", "x" * 40)
    next(iter(pool.run([text_job("a")])))
    assert list(pool.run([text_job("b")]))
    for worker in workers():
        assert not [name for name in worker.environ() if "CONCORDANCE" in name or "KEY" in name]
    assert workers()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import time\nfrom assets.parsing.pool import *\n"
        "pool = ParserPool(1, 30, 512)\n"
        "list(pool.run([ParseJob(key='a', mime_type='text/plain', title='x', data=b'hello there')]))\n"
        "print(pool._workers[0].process.pid, flush=True)\ntime.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.wait()
    psutil.wait_procs([child], timeout=30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_worker_ends_in_the_middle_of_a_file_when_its_parent_is_killed() -> None:
    """Before, it finished the file first."""
    script = (
        "from assets.parsing.pool import *\n"
        "job = ParseJob(key='a', mime_type='text/markdown', title='x', data=b'* * a\\n' * 2_000_000)\n"
        "next(ParserPool(1, 600, 4096).run([job]))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=Path.cwd())
    try:
        busy = until(
            lambda: [child for child in children(parent.pid) if child.cpu_times().user > BUSY_SECONDS], "the worker"
        )
    finally:
        parent.kill()
        parent.wait()
    assert psutil.wait_procs(busy, timeout=60)[1] == []


def test_workers_that_do_not_start_end_the_sync() -> None:
    with ParserPool(1, 30, 512, ["/bin/false"]) as pool, pytest.raises(AbortSyncError, match="does not start"):
        list(pool.run([text_job("a")]))


@pytest.mark.parametrize(
    "does",
    [
        "print('no report', flush=True)",
        """print('{"outcome": {"key": "of another document", "error": "no"}}', flush=True)""",
        """print('{"leaving": true}', flush=True)""",
        "while True: print('{}', flush=True); time.sleep(0.1)",
        "while True: print(' ', end='', flush=True); time.sleep(0.1)",
        "while True: print(' ' * 1000, end='')",
    ],
    ids=["no report", "of another", "leaving", "only ready", "slow line", "endless line"],
)
def test_what_a_worker_that_a_file_has_taken_over_does_counts_for_that_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """The worker is told the file by its name, and ends after what it does, as one whose code a file replaces."""
    for name in ("START_SECONDS", "SILENCE_SECONDS"):
        monkeypatch.setattr(f"assets.parsing.pool.{name}", 2)
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, sys, time\n"
        "print('{}', flush=True)\n"
        "while job := sys.stdin.buffer.readline():\n"
        "    key = json.loads(job)['key']\n"
        "    while size := json.loads(sys.stdin.buffer.readline())['size']:\n"
        "        sys.stdin.buffer.read(size)\n"
        "    if key == 'bad':\n"
        f"        {does}\n"
        "        break\n"
        "    print(json.dumps({'outcome': {'key': key, 'error': 'fine'}}), flush=True)\n"
    )
    with ParserPool(1, 0.1, 64, command=[sys.executable, str(script)]) as pool:
        jobs = (text_job(key) for key in ("first", "bad", "last"))
        outcomes = {outcome.key: outcome.error for outcome in islice(pool.run(jobs), 10)}
    assert outcomes.pop("bad") not in {None, "no", "fine"}
    assert outcomes == {"first": "fine", "last": "fine"}


def test_an_error_of_the_jobs_passes_through(pool: ParserPool) -> None:
    def jobs() -> Iterator[ParseJob]:
        yield text_job("a")
        raise KeyError("listing")

    with pytest.raises(KeyError, match="listing"):
        list(pool.run(jobs()))
