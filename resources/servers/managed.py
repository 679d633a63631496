"""Processes that end with this one: servers under the supervisor, run workers under their pool, parsers under a sync."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

from resources.servers.processes import ProcessIdentity, family, group, identify, kill_all, stopped_by_signal

END_WITH_PARENT = Path(__file__).with_name("end_with_parent.py")
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which a process counts as one that runs, and the delay is reset."""
STOPPED_SECONDS = 10.0
"""Silence after which a process that was stopped by a signal hangs."""

_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
"""Starts every process: to the kernel, a child's parent is the thread that started it, and this one lasts as long as the process."""


class ManagedProcess:
    """A process that this one starts, and that gets its stop signal when this one ends, also if that is killed."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        pass_fds: Collection[int] = (),
        start_new_session: bool = False,
    ) -> None:
        """Start it. With `start_new_session`, what it starts itself is its group, and ends with it."""
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

        self._process = _spawner.submit(spawn).result()
        self._stop_signal = stop_signal
        self._leads = start_new_session
        # A process that has already ended cannot be identified, but its pid is not reused until we wait for it.
        self.identity = identify(self._process.pid) or ProcessIdentity(self._process.pid, 0.0)
        self.since = self._heard = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes]:
        return _opened(self._process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return _opened(self._process.stdout)

    @property
    def status(self) -> int | None:
        """Its exit status (negative: the signal that ended it); None while it runs."""
        return self._process.poll()

    @property
    def stopped(self) -> bool:
        """True if it was stopped by a signal."""
        return stopped_by_signal(self.identity)

    def heard(self) -> None:
        """Record a sign of life."""
        self._heard = time.monotonic()

    def hangs(self, seconds: float) -> bool:
        """Return True if its last sign of life is so long ago. For one that was stopped by a signal, `STOPPED_SECONDS` do."""
        silence = time.monotonic() - self._heard
        return silence > seconds or (silence > STOPPED_SECONDS and self.stopped)

    def ask_to_stop(self, number: signal.Signals | None = None) -> None:
        """Send its stop signal, or another one, unless it has ended."""
        self._process.send_signal(number or self._stop_signal)

    def end(self, grace: float = 0.0) -> int:
        """Close its pipes, wait up to `grace` seconds for its end, and kill what is left of it and of its group.

        If it has not ended by then, its descendants are killed, too. Returns its status. Idempotent.
        """
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            left = family(self.identity)
        else:
            left = group(self.pid) if self._leads else []
        kill_all(left)
        self._leads = False  # from now on, another group may get its number
        return self._process.wait()


class RestartDelay:
    """How long to wait before a process is started again: 0.5 seconds, doubled with each failure up to 30."""

    def __init__(self) -> None:
        self.failures = 0
        """Failures in a row."""
        self.next_start = 0.0

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.next_start

    def postpone(self, since: float) -> float:
        """Record that the process started at `since` has failed; return the seconds until the next attempt."""
        if time.monotonic() - since > STEADY_SECONDS:
            self.failures = 0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self.failures)
        self.failures += 1
        self.next_start = time.monotonic() + delay
        return delay


@cache
def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe whose writing end only this process has, so that it closes with this process."""
    return os.pipe()


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the process was started without this pipe")
    return pipe
