"""The keeper of run workers: as many as a burst of runs needs, and no more than the spares once it is over."""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path

import psutil
import pytest
from dagster import DagsterRun

from orchestration.supervision import workers as pools
from orchestration.supervision.launcher import WORKER_TAG, worker_of
from orchestration.supervision.workers import AT_START, EVERY_RUN, SPARES, Launch, Task, WorkerPool
from resources.servers import managed
from resources.servers.lines import line
from tests.fixtures.waiting import until

QUICK = (sys.executable, "-c", "import os, sys\nfor line in sys.stdin: os.write(1, b'{\"done\": true}\\n')")
"""A worker whose every task is done at once. Like the real one, it writes a report in one piece, however Python buffers its output."""
BURST = SPARES + 3
WAIT_SECONDS = 30


def test_workers_of_a_burst_end_once_they_are_idle() -> None:
    workers = WorkerPool(QUICK, surplus_seconds=0)
    try:
        for number in range(BURST):
            workers.hand_over(f"run-{number}")
        assert len(workers.outputs()) == BURST
        while len(workers.outputs()) > SPARES:
            spoke, _, _ = select.select(workers.outputs(), [], [], WAIT_SECONDS)
            assert spoke, "no worker has ended"
            workers.tend(spoke)
        for _ in range(3):
            workers.tend()
        assert len(workers.outputs()) == SPARES
        assert workers.hand_over("another")
    finally:
        workers.stop()


def test_workers_of_a_burst_wait_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SOON_SECONDS", 2 * WAIT_SECONDS)  # however long Python takes to start
    workers = WorkerPool(QUICK, surplus_seconds=2 * WAIT_SECONDS)
    try:
        for number in range(BURST):
            workers.hand_over(f"run-{number}")
        left = BURST + 1  # with the check of earlier runs, which the first one that is idle gets
        while left:
            spoke, _, _ = select.select(workers.outputs(), [], [], WAIT_SECONDS)
            assert spoke, "a task has not ended"
            left -= len(spoke)
            workers.tend(spoke)
        for number in range(BURST):
            workers.hand_over(f"next-{number}")
        assert len(workers.outputs()) == BURST
    finally:
        workers.stop()


def test_two_workers_start_and_one_is_kept() -> None:
    workers = WorkerPool(QUICK, surplus_seconds=0)
    try:
        workers.tend()
        while len(workers.outputs()) < AT_START:
            spoke, _, _ = select.select(workers.outputs(), [], [], WAIT_SECONDS)
            assert spoke, "the check of earlier runs has not ended"
            workers.tend(spoke)
        while len(workers.outputs()) > SPARES:
            workers.tend(select.select(workers.outputs(), [], [], 0.2)[0])
    finally:
        workers.stop()


def test_checks_of_runs_do_not_keep_workers_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest, which checks, has grown with the most runs."""
    monkeypatch.setattr(pools, "CHECK_SECONDS", 0.3)
    workers = WorkerPool(QUICK, surplus_seconds=0.5)

    def ended() -> bool:
        workers.tend(select.select(workers.outputs(), [], [], 0.05)[0])
        return len(workers.outputs()) == SPARES

    try:
        workers.tend()
        until(ended, "the end of a worker")
    finally:
        workers.stop()


def test_another_spare_starts_once_a_run_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload during a long sync does not wait for Python either; a short sync is not slowed by a start beside it."""
    workers = WorkerPool((sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"), surplus_seconds=0)
    try:
        workers.tend()  # one of the two checks earlier runs, which never ends here
        workers.hand_over("long")
        workers.tend()
        assert len(workers.outputs()) == AT_START
        monkeypatch.setattr(pools, "SOON_SECONDS", 0)
        workers.tend()
        assert len(workers.outputs()) == AT_START + 1
    finally:
        monkeypatch.undo()
        workers.stop()


def test_checks_of_all_runs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine so busy that a worker needs longer to start than the time between two checks."""
    monkeypatch.setattr(pools, "CHECK_SECONDS", 0)
    monkeypatch.setattr(pools, "SOON_SECONDS", 0)
    workers = WorkerPool((sys.executable, "-c", "import sys\nfor line in sys.stdin: pass"))
    try:
        for _ in range(10):
            workers.tend()
        assert len(workers.outputs()) == AT_START
    finally:
        workers.stop()


def test_all_runs_are_checked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "CHECK_SECONDS", 0)
    given: list[Task] = []
    monkeypatch.setattr(pools.Worker, "give", lambda _self, task: given.append(task))
    workers = WorkerPool(QUICK)
    try:
        for _ in range(3):
            workers.tend()
        assert given[1:] == [Task("settle", (EVERY_RUN,))] * 2
    finally:
        workers.stop()


def test_workers_that_do_not_start_are_not_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, one Python after another started and failed, without a pause."""
    monkeypatch.setattr(managed, "FIRST_DELAY", managed.LONGEST_DELAY)
    monkeypatch.setattr(pools, "SOON_SECONDS", 0)
    workers = WorkerPool((sys.executable, "-c", "import sys\nsys.exit(1)"))
    try:
        workers.tend()
        assert [worker.process.end(WAIT_SECONDS) for worker in workers._workers] == [1] * AT_START
        workers.tend()
        assert workers.outputs() == []
    finally:
        workers.stop()


def test_a_worker_whose_output_is_not_a_report_is_killed() -> None:
    workers = WorkerPool((sys.executable, "-c", "import os, sys\nos.write(1, b'hello\\n')\nsys.stdin.read()"))
    try:
        workers.hand_over("run")
        (output,) = workers.outputs()
        assert select.select([output], [], [], WAIT_SECONDS)[0]
        workers.tend([output])
        assert output not in workers.outputs()
    finally:
        workers.stop()


def test_a_run_whose_launcher_no_longer_waits_is_not_handed_over(tmp_path: Path) -> None:
    """The launcher has started it another way; a second worker would have Dagster mark the run as failed."""
    workers = WorkerPool(QUICK)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "pool"))
            server.listen()
            for waits in (False, True):
                with socket.socket(socket.AF_UNIX) as launcher:
                    launcher.connect(str(tmp_path / "pool"))
                    launcher.sendall(line(Launch("run")))
                    if not waits:
                        launcher.close()
                    pools._answer(server, workers)
                    assert len(workers.outputs()) == waits
    finally:
        workers.stop()


def test_a_step_of_the_clock_leaves_the_worker_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = WorkerPool(QUICK)
    try:
        pid, started = workers.hand_over("run")
        run, written_by_an_earlier_version = (
            DagsterRun(job_name="sync_files", run_id="run", tags={WORKER_TAG: f"{pid} {since} run"})
            for since in (started, psutil.Process(pid).create_time())
        )
        for one in (run, written_by_an_earlier_version):
            assert worker_of(one) == psutil.Process(pid)
        later = psutil.boot_time() + 5
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: later)
        assert worker_of(run) is not None
        reused = DagsterRun(job_name="sync_files", run_id="run", tags={WORKER_TAG: f"{pid} {started - 1} run"})
        assert worker_of(reused) is None
    finally:
        workers.stop()
    assert worker_of(run) is None
