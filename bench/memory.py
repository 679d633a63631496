"""Print the memory of an idle installation: the proportional set size (PSS) of each process, and their sum.

PSS divides memory that several processes share among them, so the sum is what the installation takes from the machine.
The sample company is indexed first, because a used run worker takes more than a fresh one.
Run it with `python -m bench.memory`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from bench.installation import set_up, temporary_folder
from orchestration.supervision import run_state
from resources.settings import load
from resources.stores.postgres import session

START_SECONDS = 300
SYNC_SECONDS = 600
IDLE_SECONDS = 75
"""Longer than surplus run workers are kept."""
STOP_SECONDS = 120


def main() -> int:
    """Start an installation, wait until it is idle, and print its processes."""
    with temporary_folder() as folder:
        set_up(folder, SYNC_MINUTES="60")
        command = [sys.executable, "-m", "orchestration.cli", "up", "--sample"]
        began = time.monotonic()
        with (folder / "up.log").open("wb") as log:
            up = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(lambda: run_state.running(load(_env_file=None)), up, START_SECONDS)
            print(f"ready after {time.monotonic() - began:.1f} s")
            _wait(_synced, up, SYNC_SECONDS)
            time.sleep(IDLE_SECONDS)
            _print(psutil.Process(up.pid))
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(STOP_SECONDS)
    return 0


def _wait(condition: Callable[[], bool], up: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if up.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("The installation did not become idle.")
        time.sleep(0.2)


def _synced() -> bool:
    with session(load(_env_file=None).postgres_dsn) as connection:
        rows = connection.execute("SELECT status FROM sync_jobs").fetchall()
    return bool(rows) and all(row["status"] != "running" for row in rows)


def _print(supervisor: psutil.Process) -> None:
    total = 0
    for process, depth in list(_family(supervisor)):
        with suppress(psutil.NoSuchProcess):  # a connection of Postgres that has been closed meanwhile
            megabytes, name = process.memory_full_info().pss / 2**20, _name(process)
            total += round(megabytes)
            print(f"{megabytes:7.0f} MB  {'  ' * depth}{name}")
    print(f"{total:7} MB  in all")


def _family(process: psutil.Process, depth: int = 0) -> Iterator[tuple[psutil.Process, int]]:
    yield process, depth
    with suppress(psutil.NoSuchProcess):
        for child in process.children():
            yield from _family(child, depth + 1)


def _name(process: psutil.Process) -> str:
    words = process.cmdline()
    return " ".join(Path(word).name if "/" in word else word for word in words[:7])[:80]


if __name__ == "__main__":
    sys.exit(main())
