"""Processes end with the one that started them, with the kernel's help or without."""

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
child = managed.start([sys.executable, "-c", sys.argv[3]], stdout=sys.stdout)
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
managed.start(run_as(["/bin/sh", "-c", "echo $$; exec sleep 600"], account, []), stdout=sys.stdout)
sys.stdin.read()
"""
ELSEWHERE = """
import runpy, sys
sys.platform = "darwin"
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("system", ["linux", "elsewhere"])
def test_a_process_ends_with_a_killed_parent(tmp_path: Path, system: str) -> None:
    starter = managed.END_WITH_PARENT
    if system == "elsewhere":
        starter = tmp_path / "elsewhere.py"
        starter.write_text(ELSEWHERE.format(path=str(managed.END_WITH_PARENT)))
    command = [sys.executable, "-c", PARENT, str(ROOT), str(starter), CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline().split()[0]))
        started = [child, *child.children()]
        assert len(started) == (2 if system == "elsewhere" else 1)
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


def test_a_program_that_cannot_be_run_is_named() -> None:
    process = managed.start(["/nowhere/at/all"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr as said:
        assert b"/nowhere/at/all cannot be run" in said.read()
    assert process.wait() == 1
