"""Shared memory with real processes: no take is lost or granted twice, and a killed process holds no lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resources.servers.shared import Shared
from resources.servers.tally import SharedTally
from serving.http.rate_limit import RateLimit

ROOT = Path(__file__).parents[2]
SECRET = "s" * 40
TAKES, CAPACITY = 5_000, 6_000
OTHER = f"""
import sys, threading
sys.path.insert(0, {str(ROOT)!r})
from resources.servers.shared import Shared
from resources.servers.tally import SharedTally
from serving.http.rate_limit import RateLimit
shared = Shared.attach(1, 2, {SECRET!r}, int(sys.argv[1]))
limit = RateLimit({CAPACITY}, shared, "search", clock=lambda: 0.0)
tally = SharedTally(shared, "requests", 100)
print("ready", flush=True)
input()
if sys.argv[2] == "hold":
    tally.enter(("all", 5))
    with tally._region:
        print("held", flush=True)
        threading.Event().wait()
granted = sum(limit.take("ann") == 0 for _ in range({TAKES}))
for _ in range({TAKES}):
    entry = tally.enter(("all", 1))
    assert entry.reached is not None or sum(tally.by_worker("all")) == 1
    tally.leave(entry.slots)
print(granted)
"""


@contextmanager
def other(shared: Shared, what: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that shares the memory, which begins with the first line of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(shared.fd), what],
        pass_fds=[shared.fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        yield process


def test_two_processes_share_a_limit_exactly() -> None:
    shared = Shared.create(2, SECRET)
    limit = RateLimit(CAPACITY, shared, "search", clock=lambda: 0.0)
    tally = SharedTally(shared, "requests", 100)
    with other(shared, "take") as process:
        granted = sum(limit.take("ann") == 0 for _ in range(TAKES))
        for _ in range(TAKES):
            entry = tally.enter(("all", 1))
            assert entry.reached is not None or sum(tally.by_worker("all")) == 1
            tally.leave(entry.slots)
        assert process.stdout is not None
        assert granted + int(process.stdout.readline()) == CAPACITY
    assert tally.by_worker("all") == [0, 0]


def test_a_killed_process_holds_no_lock() -> None:
    shared = Shared.create(2, SECRET)
    RateLimit(CAPACITY, shared, "search")
    tally = SharedTally(shared, "requests", 100)
    with other(shared, "hold") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert tally.enter(("all", 5)).reached is None
    assert tally.by_worker("all") == [1, 1]
    shared.clear(1)
    assert tally.by_worker("all") == [1, 0]
