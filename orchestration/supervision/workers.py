"""A pool of warm run workers, which receives run ids on a Unix socket that only our account can access.

Starting Python with Dagster, Polars, Arrow and the model takes seconds, more than most syncs. Therefore an idle process is kept
ready. `python -m orchestration.supervision.workers` runs the pool; each worker is `orchestration/run_worker.py`.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Literal

import msgspec
import structlog

from resources.logging import configure
from resources.servers.lines import Lines, line
from resources.servers.managed import ManagedProcess, RestartDelay
from resources.servers.sockets import MOST_BYTES, ask, socket_path
from resources.settings import Settings, load

SOCKET = "workers.sock"
POLL_SECONDS = 1.0
REPLY_SECONDS = 5.0
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
END_SECONDS = 12.0
"""How long the runs of a pool that ends may take to be interrupted; the supervisor waits a little longer for the pool."""
EVERY_RUN = "*"
"""Used instead of a run id for every run whose process has died."""
CHECK_SECONDS = 60.0
"""How often all runs are checked. A code server that is killed with its runs leaves some that nothing else notices."""

log = structlog.get_logger("workers")


class Task(msgspec.Struct):
    """A line to a worker: `run` a run, or `settle` those that may have died. With `leave`, which is not sent, its input closes."""

    what: Literal["run", "settle", "leave"]
    runs: tuple[str, ...] = ()


class TaskReport(msgspec.Struct, omit_defaults=True):
    """A line from a worker: a heartbeat or, with `done`, the end of its task."""

    done: bool = False


class Launch(msgspec.Struct, omit_defaults=True):
    """A line to the pool: a run to hand over or, without one, the question whether the pool replies."""

    run_id: str | None = None


class Launched(msgspec.Struct, omit_defaults=True):
    """The line that the pool replies with: the worker's `ProcessIdentity`."""

    pid: int = 0
    started: float = 0.0


def address(settings: Settings) -> Path:
    return socket_path(settings, SOCKET)


class Worker:
    """A worker process and its current task."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.process = ManagedProcess(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.output = self.process.stdout
        self.task: Task | None = None
        self.idle_since = self.busy_since = self.process.since
        self._reports = Lines(TaskReport, MOST_BYTES)

    def give(self, task: Task) -> None:
        """Send a task. Raises `OSError` if the process has ended."""
        self.process.stdin.write(line(task))
        self.task = task
        self.busy_since = time.monotonic()

    def listen(self) -> bool:
        """Read its output, in which each report is a heartbeat. Return False if it contains anything else."""
        try:
            for report, _ in self._reports.feed(os.read(self.output.fileno(), MOST_BYTES)):
                self.process.heard()
                if report.done:
                    # checks are no use: the oldest worker gets them all and would never end
                    if self.task is not None and self.task.what == "run":
                        self.idle_since = time.monotonic()
                    self.task = None
        except msgspec.MsgspecError:
            return False
        return True

    def dismiss(self) -> None:
        """Close its input, so that it ends."""
        self.process.stdin.close()
        self.task = Task("leave")


class WorkerPool:
    """Keeps idle workers, gives runs to them, and has the runs of dead workers marked as failed."""

    def __init__(self, command: Sequence[str] = COMMAND, *, surplus_seconds: float = SURPLUS_SECONDS) -> None:
        self._command = command
        self._surplus_seconds = surplus_seconds
        self._workers: list[Worker] = []
        self._first = True
        self._lost: list[str] = [EVERY_RUN]
        """Runs to mark as failed unless they have finished; a new pool first checks all runs."""
        self._backoff = RestartDelay()
        self._checked = time.monotonic()

    def outputs(self) -> list[IO[bytes]]:
        return [worker.output for worker in self._workers]

    def hand_over(self, run_id: str) -> tuple[int, float]:
        """Give the run to an idle worker, or to a new one. Returns its pid and start, as in its `ProcessIdentity`."""
        self._reap()
        worker = self._idle() or self._spawn()
        worker.give(Task("run", (run_id,)))
        log.info("run_handed_over", run_id=run_id, pid=worker.process.pid)
        return worker.process.pid, worker.process.identity.started

    def tend(self, readable: Sequence[object] = ()) -> None:
        """Read the workers' output, replace those that ended or hang, start spares, and end surplus workers."""
        for worker in self._workers:
            garbled = worker.output in readable and not worker.listen()
            if garbled or worker.process.hangs(SILENCE_SECONDS):
                reason = "Its output is not a report." if garbled else "It stopped responding."
                log.warning("run_worker_killed", pid=worker.process.pid, reason=reason)
                worker.process.end()
        self._reap()
        while self._first and len(self._workers) < AT_START:
            self._spawn()
        self._first = False
        if time.monotonic() - self._checked >= CHECK_SECONDS and self._idle() is not None and not self._settling():
            self._checked = time.monotonic()
            self._lost.append(EVERY_RUN)
        if self._lost:
            self._settle()
        if self._idle() is None and self._calm() and self._backoff.over:
            self._spawn()
        idle = [worker for worker in self._workers if worker.task is None]
        for worker in idle[: max(0, len(idle) - SPARES)]:  # the oldest, which have executed the most runs
            if time.monotonic() - worker.idle_since > self._surplus_seconds:
                worker.dismiss()

    def stop(self) -> None:
        """Close idle workers and interrupt active ones, as Dagster's own termination does."""
        for worker in self._workers:
            if worker.task is None:
                worker.dismiss()
            else:
                worker.process.ask_to_stop(signal.SIGINT)
        deadline = time.monotonic() + END_SECONDS
        for worker in self._workers:
            worker.process.end(max(0.0, deadline - time.monotonic()))

    def _calm(self) -> bool:
        """Return True if every active run is an old one."""
        now = time.monotonic()
        return all(worker.task is None or now - worker.busy_since > SOON_SECONDS for worker in self._workers)

    def _idle(self) -> Worker | None:
        return next((worker for worker in self._workers if worker.task is None and not worker.process.stopped), None)

    def _settling(self) -> bool:
        """Return True if a worker is still checking runs, or has not started yet: on a busy machine, each check would need another one."""
        return any(worker.task is not None and worker.task.what == "settle" for worker in self._workers)

    def _settle(self) -> None:
        worker = self._idle() or (self._spawn() if self._backoff.over else None)
        if worker is not None:
            with suppress(BrokenPipeError):  # it has ended: another one gets the task
                worker.give(Task("settle", tuple(self._lost)))
                self._lost = []

    def _reap(self) -> None:
        for worker in [worker for worker in self._workers if worker.process.status is not None]:
            self._workers.remove(worker)
            if (status := worker.process.end()) != 0:
                delay = self._backoff.postpone(worker.process.since)
                log.warning("run_worker_ended", pid=worker.process.pid, status=status, spare_in_seconds=delay)
            if worker.task is not None:
                self._lost += worker.task.runs

    def _spawn(self) -> Worker:
        worker = Worker(self._command)
        self._workers.append(worker)
        return worker


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
            request = msgspec.json.decode(connection.makefile("rb").readline(MOST_BYTES), type=Launch)
            if select.select([connection], [], [], 0)[0]:
                # a client sends one line, so this is its end: it has launched the run another way, which must not start twice
                log.warning("workers_late", run_id=request.run_id)
                return
            launched = Launched() if request.run_id is None else Launched(*workers.hand_over(request.run_id))
            connection.sendall(line(launched))
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("workers_bad_request", reason=type(error).__name__)


def hand_over(settings: Settings, run_id: str) -> tuple[int, float] | None:
    """Give a run to the worker pool. Returns the worker's pid and start; None if the pool cannot be reached."""
    try:
        launched = ask(address(settings), Launched, REPLY_SECONDS, Launch(run_id))
    except (OSError, msgspec.MsgspecError):
        return None
    return launched.pid, launched.started


def replies(settings: Settings) -> bool | None:
    """Return True if the pool responds; None while it does not listen yet."""
    try:
        ask(address(settings), Launched, REPLY_SECONDS, Launch())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        return False
    return True


def main() -> int:
    settings = load()
    configure(settings.log_level, "workers")
    serve(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
