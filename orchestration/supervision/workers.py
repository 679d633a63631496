"""A pool of warm run workers, which receives run ids on a Unix socket that only our account can access.

Starting Python with Dagster, Polars, Arrow and the model takes seconds, more than most syncs. Therefore an idle process is kept
ready. `python -m orchestration.supervision.workers` runs the pool; each worker is `orchestration/run_worker.py`.
"""

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
SPARES = 1
"""Idle workers to keep, so that a run does not wait for Python to start."""
AT_START = 2
"""Workers to start with, because the first syncs begin together; those beyond the spares end as after any burst."""
SOON_SECONDS = 5.0
"""How long all workers may be busy until another spare is started; most syncs end before, and would be slowed by it."""
SURPLUS_SECONDS = 60.0
"""How long an idle worker beyond the spares is kept for another burst of runs; each uses about 300 MB."""
COMMAND = (sys.executable, "-m", "orchestration.run_worker")
SILENCE_SECONDS = 60.0
"""A worker sends a heartbeat every few seconds; without one for this long, it hangs and is killed."""
STOPPED_SECONDS = 10.0
"""The same for a worker that was stopped by a signal."""
EVERY_RUN = "*"
"""Used instead of a run id for every run whose process has died."""
CHECK_SECONDS = 60.0
"""How often all runs are checked. A code server that is killed with its runs leaves some that nothing else notices."""
BEAT, DONE = b".", b"D"
"""The bytes that a worker writes: a heartbeat, and the end of a task."""

log = structlog.get_logger("workers")


def address(settings: Settings) -> Path:
    return socket_path(settings, SOCKET)


class Worker:
    """A worker process, its current task and the time of its last heartbeat."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.output = _pipe(self.process.stdout)
        self.task: list[str] | None = None
        self.last_beat = time.monotonic()
        self.idle_since = self.busy_since = self.last_beat
        self._stopped_since: float | None = None

    def give(self, *task: str) -> None:
        """Send a task: `run RUN_ID`, or `settle RUN_ID…`. Raises `OSError` if the process has ended."""
        _pipe(self.process.stdin).write((" ".join(task) + "\n").encode())
        self.task = list(task)
        self.busy_since = time.monotonic()

    def listen(self) -> None:
        """Read its output: any byte is a heartbeat, `DONE` is the end of its task."""
        data = os.read(self.output.fileno(), MAX_REQUEST)
        if data:
            self.last_beat = time.monotonic()
        if DONE in data:
            self.task = None
            self.idle_since = self.last_beat

    def dismiss(self) -> None:
        """Close its input, so that it ends."""
        _pipe(self.process.stdin).close()
        self.task = ["leave"]

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def stopped(self) -> bool:
        """Return True if the process is stopped by a signal."""
        try:
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def hung(self) -> bool:
        """Return True if it has been stopped, or without a heartbeat, for so long that it should be killed."""
        now = time.monotonic()
        self._stopped_since = (self._stopped_since or now) if self.stopped else None
        return now - self.last_beat > SILENCE_SECONDS or (
            self._stopped_since is not None and now - self._stopped_since > STOPPED_SECONDS
        )


class WorkerPool:
    """Keeps idle workers, gives runs to them, and has the runs of dead workers marked as failed."""

    def __init__(self, command: Sequence[str] = COMMAND, *, surplus_seconds: float = SURPLUS_SECONDS) -> None:
        self._command = command
        self._surplus_seconds = surplus_seconds
        self._workers: list[Worker] = []
        self._first = True
        self._lost: list[str] = [EVERY_RUN]
        """Runs to mark as failed unless they have finished; a new pool first checks all runs."""
        self._checked = time.monotonic()

    def outputs(self) -> list[IO[bytes]]:
        return [worker.output for worker in self._workers]

    def hand_over(self, run_id: str) -> tuple[int, float]:
        """Give the run to an idle worker, or to a new one. Returns its pid and creation time."""
        self._reap()
        worker = self._idle() or self._spawn()
        made = psutil.Process(worker.process.pid).create_time()
        worker.give("run", run_id)
        log.info("run_handed_over", run_id=run_id, pid=worker.process.pid)
        return worker.process.pid, made

    def tend(self, readable: Sequence[object] = ()) -> None:
        """Read the workers' output, replace those that ended or hang, start spares, and end surplus workers."""
        for worker in self._workers:
            if worker.output in readable:
                worker.listen()
            if worker.hung():
                log.warning("run_worker_killed", pid=worker.process.pid, reason="It stopped responding.")
                worker.process.kill()
                worker.process.wait()
        self._reap()
        while self._first and len(self._workers) < AT_START:
            self._spawn()
        self._first = False
        if time.monotonic() - self._checked >= CHECK_SECONDS and self._idle() is not None and not self._settling():
            self._checked = time.monotonic()
            self._lost.append(EVERY_RUN)
        if self._lost:
            self._settle()
        if self._idle() is None and self._calm():
            self._spawn()
        idle = [worker for worker in self._workers if worker.task is None]
        for worker in idle[: max(0, len(idle) - SPARES)]:  # the oldest, which have executed the most runs
            if time.monotonic() - worker.idle_since > self._surplus_seconds:
                worker.dismiss()

    def stop(self) -> None:
        """Close idle workers and interrupt active ones, as Dagster's own termination does."""
        for worker in self._workers:
            if worker.task is None:
                _pipe(worker.process.stdin).close()
            elif not worker.ended:
                worker.process.send_signal(signal.SIGINT)
        for worker in self._workers:
            worker.process.wait()

    def _calm(self) -> bool:
        """Return True if every active run is an old one."""
        now = time.monotonic()
        return all(worker.task is None or now - worker.busy_since > SOON_SECONDS for worker in self._workers)

    def _idle(self) -> Worker | None:
        return next((worker for worker in self._workers if worker.task is None and not worker.stopped), None)

    def _settling(self) -> bool:
        """Return True if a worker is still checking runs, or has not started yet: on a busy machine, each check would need another one."""
        return any(worker.task is not None and worker.task[0] == "settle" for worker in self._workers)

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
        raise RuntimeError("a worker was started without pipes")
    return pipe


def serve(settings: Settings) -> None:
    """Run the pool until SIGTERM or SIGINT."""
    path = address(settings)
    path.unlink(missing_ok=True)
    workers = WorkerPool()
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


def _answer(server: socket.socket, workers: WorkerPool) -> None:
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
    """Give a run to the worker pool. Returns the worker's pid and creation time; None if the pool cannot be reached."""
    try:
        reply = json.loads(_ask(settings, {"run_id": run_id}))
        return int(reply["pid"]), float(reply["made"])
    except (OSError, ValueError, KeyError):
        return None


def replies(settings: Settings) -> bool | None:
    """Return True if the pool responds; None while it does not listen yet."""
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
    settings = load()
    configure(settings.log_level, "workers")
    serve(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
