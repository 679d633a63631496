"""Start processes that end with this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

END_WITH_PARENT = Path(__file__).with_name("end_with_parent.py")

_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
"""Starts every process: to the kernel, a child's parent is the thread that started it, and this one lasts as long as the process."""


def start(
    command: Sequence[str],
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
    pass_fds: Collection[int] = (),
    start_new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program, which gets `stop_signal` when this process ends, also when it is killed."""
    lifeline, _ = _pipe()
    own = [sys.executable, "-I", "-S", str(END_WITH_PARENT), str(os.getpid()), str(int(stop_signal)), str(lifeline)]

    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*own, *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            cwd=cwd,
            env=env,
            pass_fds=(*pass_fds, lifeline),
            start_new_session=start_new_session,
        )

    return _spawner.submit(spawn).result()


@cache
def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe whose writing end only this process has, so that it closes with this process."""
    return os.pipe()
