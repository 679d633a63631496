"""Warm run workers: a run's id enters on a Unix socket that no other account reaches; a process that has everything imported does the run.

Starting Python with Dagster, Polars, Arrow and the model takes seconds, and most syncs take less. So two processes wait, warm,
and do run after run. `python -m orchestration.supervision.workers` keeps them; each of them is `orchestration/supervision/run_worker.py`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

import psutil
import structlog

from resources.logging import configure
from resources.servers.sockets import socket_path
from resources.settings import Settings, load

SOCKET = "workers.sock"
POLL_SECONDS = 1.0
REPLY_SECONDS = 5.0
MAX_REQUEST = 4096
SPARES = 2
"""Idle workers to keep: a run that is asked for while another ends should not wait for Python to start."""
SURPLUS_SECONDS = 60.0
"""How long an idle worker beyond the spares waits for another burst of runs before it ends: each holds some 300 MB."""
COMMAND = (sys.executable, "-m", "orchestration.supervision.run_worker")
SILENCE_SECONDS = 60.0
"""A worker writes every few seconds whatever it is doing; one that is silent for this long hangs and is killed."""
STOPPED_SECONDS = 10.0
"""The same for one that a signal has stopped."""
EVERY_RUN = "*"
"""In place of a run's id: every run whose worker has died."""
BEAT, DONE = b".", b"D"
"""What a worker writes: a sign of life, and that its task is done."""

log = structlog.get_logger("workers")


def address(settings: Settings) -> Path:
    """Return the socket that the keeper of the workers listens on."""
    return socket_path(settings, SOCKET)


class Worker:
    """One process: what it is doing, and when it was last heard of."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.output = _pipe(self.process.stdout)
        self.task: list[str] | None = None
        self.heard = time.monotonic()
        self.idle_since = self.heard
        self._stopped_since: float | None = None

    def give(self, *task: str) -> None:
        """Hand over a task: `run RUN_ID`, or `settle RUN_ID…`. Raises `OSError` when the process has ended."""
        _pipe(self.process.stdin).write((" ".join(task) + "\n").encode())
        self.task = list(task)

    def listen(self) -> None:
        """Read what it wrote: any byte is a sign of life, `D` says that its task is done."""
        said = os.read(self.output.fileno(), MAX_REQUEST)
        if said:
            self.heard = time.monotonic()
        if DONE in said:
            self.task = None
            self.idle_since = self.heard

    def dismiss(self) -> None:
        """Let it end by itself; it takes no more tasks."""
        _pipe(self.process.stdin).close()
        self.task = ["leave"]

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    @property
    def stopped(self) -> bool:
        """Whether a signal keeps it from working at the moment."""
        try:
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def hung(self) -> bool:
        """Whether it has been stopped or silent for so long that it should be killed."""
        now = time.monotonic()
        self._stopped_since = (self._stopped_since or now) if self.stopped else None
        return now - self.heard > SILENCE_SECONDS or (
            self._stopped_since is not None and now - self._stopped_since > STOPPED_SECONDS
        )


class Workers:
    """Keeps idle processes, hands runs to them, and reports the runs of those that died."""

    def __init__(self, command: Sequence[str] = COMMAND, *, surplus_seconds: float = SURPLUS_SECONDS) -> None:
        self._command = command
        self._surplus_seconds = surplus_seconds
        self._workers: list[Worker] = []
        self._lost: list[str] = [EVERY_RUN]
        """Runs to report as failed unless they have finished. A keeper that replaces a killed one looks at all of them first."""

    def outputs(self) -> list[IO[bytes]]:
        """Return what to wait on: a worker writes regularly, and its pipe closes when it ends."""
        return [worker.output for worker in self._workers]

    def hand_over(self, run_id: str) -> tuple[int, float]:
        """Give the run to an idle worker, or to a new one. Returns its pid and the time it was made."""
        self._reap()
        worker = self._idle() or self._spawn()
        made = psutil.Process(worker.process.pid).create_time()
        worker.give("run", run_id)
        log.info("run_handed_over", run_id=run_id, pid=worker.process.pid)
        return worker.process.pid, made

    def tend(self, spoke: Sequence[object] = ()) -> None:
        """Listen to the workers, replace those that ended or hang, make new ones when no run needs the machine, and end surplus ones."""
        for worker in self._workers:
            if worker.output in spoke:
                worker.listen()
            if worker.hung():
                log.warning("run_worker_killed", pid=worker.process.pid, reason="It has stopped answering.")
                worker.process.kill()
                worker.process.wait()
        self._reap()
        if self._lost:
            self._settle()
        while all(worker.task is None for worker in self._workers) and len(self._workers) < SPARES:
            self._spawn()
        idle = [worker for worker in self._workers if worker.task is None]
        for worker in idle[: max(0, len(idle) - SPARES)]:  # the oldest, which have done the most runs
            if time.monotonic() - worker.idle_since > self._surplus_seconds:
                worker.dismiss()

    def stop(self) -> None:
        """Close the idle ones and interrupt the runs, as Dagster's own termination does."""
        for worker in self._workers:
            if worker.task is None:
                _pipe(worker.process.stdin).close()
            elif not worker.ended:
                worker.process.send_signal(signal.SIGINT)
        for worker in self._workers:
            worker.process.wait()

    def _idle(self) -> Worker | None:
        return next((worker for worker in self._workers if worker.task is None and not worker.stopped), None)

    def _settle(self) -> None:
        worker = self._idle() or self._spawn()
        worker.give("settle", *self._lost)
        self._lost = []

    def _reap(self) -> None:
        for worker in [worker for worker in self._workers if worker.ended]:
            self._workers.remove(worker)
            status = worker.process.returncode
            if status != 0:
                log.warning("run_worker_ended", pid=worker.process.pid, status=status)
            if worker.task is not None:
                self._lost += worker.task[1:]

    def _spawn(self) -> Worker:
        worker = Worker(self._command)
        self._workers.append(worker)
        return worker


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("a worker is made with pipes")
    return pipe


def serve(settings: Settings) -> None:
    """Listen for runs until SIGTERM or SIGINT."""
    path = address(settings)
    path.unlink(missing_ok=True)
    workers = Workers()
    ending: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        ending.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        log.info("workers_started", socket=str(path))
        workers.tend()
        while not ending:
            ready, _, _ = select.select([server, *workers.outputs()], [], [], POLL_SECONDS)
            workers.tend(ready)
            if server in ready:
                _answer(server, workers)
    path.unlink(missing_ok=True)
    workers.stop()


def _answer(server: socket.socket, workers: Workers) -> None:
    connection, _ = server.accept()
    with connection:
        connection.settimeout(REPLY_SECONDS)
        try:
            request = json.loads(connection.makefile("rb").readline(MAX_REQUEST))
            if "run_id" not in request:
                connection.sendall(b"{}\n")
                return
            pid, made = workers.hand_over(str(request["run_id"]))
            connection.sendall(json.dumps({"pid": pid, "made": made}).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError, psutil.Error) as error:
            log.warning("workers_bad_request", reason=type(error).__name__)


def hand_over(settings: Settings, run_id: str) -> tuple[int, float] | None:
    """Ask the workers of an installation to do a run. Returns pid and time of making, None when they can't be reached."""
    try:
        reply = json.loads(_ask(settings, {"run_id": run_id}))
        return int(reply["pid"]), float(reply["made"])
    except (OSError, ValueError, KeyError):
        return None


def replies(settings: Settings) -> bool | None:
    """Return True if the keeper of the workers answers, None while it does not listen yet."""
    try:
        return bool(_ask(settings, {}))
    except FileNotFoundError:
        return None
    except OSError:
        return False


def _ask(settings: Settings, request: dict[str, str]) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_SECONDS)
        connection.connect(str(address(settings)))
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection.makefile("rb").readline(MAX_REQUEST)


def main() -> int:
    """Keep the workers."""
    settings = load()
    configure(settings.log_level, "workers")
    serve(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
