"""Processes end with the one that started them, with the kernel's help or without, and what they start ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from resources.servers import managed
from resources.servers.privileges import unprivileged

ROOT = Path(__file__).parents[2]
PARENT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from resources.servers import managed
managed.END_WITH_PARENT = Path(sys.argv[2])
child = managed.ManagedProcess([sys.executable, "-c", sys.argv[3]], stdout=sys.stdout)
sys.stdin.read()
"""
CHILD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(os.getpid(), signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN, flush=True)
time.sleep(600)
"""
AS_ANOTHER = """
import sys
sys.path.insert(0, sys.argv[1])
from resources.servers import managed
from resources.servers.privileges import run_as, unprivileged
account = unprivileged()
managed.ManagedProcess(run_as(["/bin/sh", "-c", "echo $$; exec sleep 600"], account, []), stdout=sys.stdout)
sys.stdin.read()
"""
POOL = """
import sys
sys.path.insert(0, sys.argv[1])
from orchestration.supervision.workers import WorkerPool
pool = WorkerPool([sys.executable, "-c", "import time; time.sleep(600)"])
pid, _ = pool.hand_over("run")
print(pid, flush=True)
sys.stdin.read()
"""
ELSEWHERE = """
import runpy, sys
sys.platform = "darwin"
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture(params=["linux", "elsewhere"])
def starter(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The program that starts others, on Linux and as it would run elsewhere."""
    if request.param == "linux":
        return managed.END_WITH_PARENT
    path = tmp_path / "elsewhere.py"
    path.write_text(ELSEWHERE.format(path=str(managed.END_WITH_PARENT)))
    return path


def test_a_process_ends_with_a_killed_parent(starter: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(ROOT), str(starter), CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline().split()[0]))
        started = [child, *child.children()]
        assert len(started) == (1 if starter == managed.END_WITH_PARENT else 2)
        parent.send_signal(signal.SIGKILL)
        assert psutil.wait_procs(started, timeout=60)[1] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another account takes root")
def test_it_also_does_as_another_account() -> None:
    account = unprivileged(make=True)
    assert account is not None
    with subprocess.Popen(
        [sys.executable, "-c", AS_ANOTHER, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.uids().real == account.uid
        parent.send_signal(signal.SIGKILL)
        assert psutil.wait_procs([child], timeout=60)[1] == []


def test_run_workers_end_with_a_killed_pool() -> None:
    """Before, one that hung or was in the middle of a run continued."""
    with subprocess.Popen(
        [sys.executable, "-c", POOL, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pool:
        assert pool.stdout is not None
        worker = next(psutil.Process(int(line)) for line in pool.stdout if line.strip().isdigit())  # after its log
        pool.send_signal(signal.SIGKILL)
        assert psutil.wait_procs([worker], timeout=60)[1] == []


def test_its_end_closes_its_pipes_and_nothing_is_left(starter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed, "END_WITH_PARENT", starter)
    process = managed.ManagedProcess([sys.executable, "-c", "print('x')"], stdout=subprocess.PIPE)
    started = psutil.Process(process.pid).children()
    assert process.stdout.read() == b"x\n"
    assert process.end(60) == process.end() == 0
    assert psutil.wait_procs(started, timeout=60)[1] == []


def test_its_group_ends_with_it() -> None:
    script = "import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    process = managed.ManagedProcess(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True, stop_signal=signal.SIGKILL
    )
    helper = psutil.Process(int(process.stdout.readline()))
    assert process.end(60) == 0
    assert not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE


def test_one_that_ignores_its_stop_signal_is_killed() -> None:
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('x', flush=True)\nsignal.pause()"
    process = managed.ManagedProcess([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"x\n"
    process.ask_to_stop()
    assert process.status is None
    assert process.end() == -signal.SIGKILL


def test_one_that_was_stopped_hangs_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    process = managed.ManagedProcess(["sleep", "600"])
    try:
        assert not process.hangs(600)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert not process.hangs(600)
        monkeypatch.setattr(managed, "STOPPED_SECONDS", 0)
        assert process.hangs(600)
        os.kill(process.pid, signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        assert not process.hangs(600)
        assert process.hangs(0)
    finally:
        process.end()


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = managed.ManagedProcess(["/nowhere/at/all"], stderr=out)
    assert process.end(60) == 1
    assert "/nowhere/at/all cannot be run" in log.read_text()
