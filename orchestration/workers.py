"""Warm run workers: a run's id enters on a loopback socket; a process that has everything imported does the run.

Starting Python with Dagster, Polars, Arrow and the model takes seconds, and most syncs take less. So two processes wait, warm,
and do run after run. `python -m orchestration.workers` keeps them; `python -m orchestration.workers spare` is one.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

import psutil
import structlog

from resources.logging import configure
from resources.settings import load

ADDRESS_FILE = "workers.json"
POLL_SECONDS = 1.0
REPLY_SECONDS = 5.0
MAX_REQUEST = 4096
SPARES = 2
"""Idle workers to keep: a run that is asked for while another ends should not wait for Python to start."""
RUNS_A_WORKER = 50
"""Runs that one process does before it makes room for a fresh one."""

log = structlog.get_logger("workers")


def address_file(home: Path) -> Path:
    """Return the file that tells launchers where the workers listen and the word that opens them; for the owner alone."""
    return home / "run" / ADDRESS_FILE


class Workers:
    """Keeps idle processes and hands runs to them."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: list[subprocess.Popen[str]] = []

    def outputs(self) -> list[IO[str]]:
        """Return what to wait on: a busy worker writes a line when it has done a run, and closes when it ends."""
        return [_pipe(worker.stdout) for worker in self._busy]

    def hand_over(self, run_id: str) -> tuple[int, float]:
        """Give the run to an idle worker, or to a new one. Returns its pid and the time it was made."""
        self._reap()
        worker = self._idle.pop() if self._idle else self._spawn()
        made = psutil.Process(worker.pid).create_time()
        stdin = _pipe(worker.stdin)
        stdin.write(run_id + "\n")
        stdin.flush()
        self._busy.append(worker)
        log.info("run.handed_over", run_id=run_id, pid=worker.pid)
        return worker.pid, made

    def tend(self, spoke: Sequence[object] = ()) -> None:
        """Take back workers that have done their run, reap those that ended, make new ones when no run needs the machine."""
        for worker in [worker for worker in self._busy if worker.stdout in spoke]:
            if _pipe(worker.stdout).readline():
                self._busy.remove(worker)
                self._idle.append(worker)
        self._reap()
        while not self._busy and len(self._idle) < SPARES:
            self._idle.append(self._spawn())

    def stop(self) -> None:
        """Close the idle ones and interrupt the runs, as Dagster's own termination does."""
        for worker in self._idle:
            _pipe(worker.stdin).close()
        for worker in self._busy:
            if worker.poll() is None:
                worker.send_signal(signal.SIGINT)
        for worker in [*self._busy, *self._idle]:
            worker.wait()

    def _reap(self) -> None:
        for workers in (self._idle, self._busy):
            for worker in [worker for worker in workers if worker.poll() is not None]:
                workers.remove(worker)
                if worker.returncode != 0:
                    log.warning("run.worker_ended", pid=worker.pid, status=worker.returncode)

    def _spawn(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "orchestration.workers", "spare"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("a worker is made with pipes")
    return pipe


def serve(home: Path) -> None:
    """Listen for runs until SIGTERM or SIGINT."""
    word = secrets.token_hex(32)
    workers = Workers()
    ending: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        ending.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with socket.create_server(("127.0.0.1", 0)) as server:
        _write_address(address_file(home), server.getsockname()[1], word)
        log.info("workers.started", port=server.getsockname()[1])
        workers.tend()
        while not ending:
            ready, _, _ = select.select([server, *workers.outputs()], [], [], POLL_SECONDS)
            workers.tend(ready)
            if server in ready:
                _answer(server, word, workers)
    address_file(home).unlink(missing_ok=True)
    workers.stop()


def _write_address(path: Path, port: int, word: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"port": port, "word": word}, file)
    draft.replace(path)


def _answer(server: socket.socket, word: str, workers: Workers) -> None:
    connection, _ = server.accept()
    with connection:
        connection.settimeout(REPLY_SECONDS)
        try:
            request = json.loads(connection.makefile("rb").readline(MAX_REQUEST))
            if not hmac.compare_digest(str(request["word"]), word):
                log.warning("workers.refused")
                return
            pid, made = workers.hand_over(str(request["run_id"]))
            connection.sendall(json.dumps({"pid": pid, "made": made}).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError, psutil.Error) as error:
            log.warning("workers.bad_request", reason=type(error).__name__)


def hand_over(home: Path, run_id: str) -> tuple[int, float] | None:
    """Ask the workers of an installation to do a run. Returns pid and time of making, None when they can't be reached."""
    try:
        address = json.loads(address_file(home).read_text(encoding="utf-8"))
        with socket.create_connection(("127.0.0.1", address["port"]), timeout=REPLY_SECONDS) as connection:
            connection.sendall(json.dumps({"word": address["word"], "run_id": run_id}).encode() + b"\n")
            reply = json.loads(connection.makefile("rb").readline(MAX_REQUEST))
            return int(reply["pid"]), float(reply["made"])
    except (OSError, ValueError, KeyError):
        return None


def be_spare() -> int:
    """Import what runs need, then do runs as their ids come. Ends when the keeper has gone, after a run that failed, or after many."""
    from dagster import DagsterInstance
    from dagster._cli.api import _execute_run_command_body  # pyright: ignore[reportPrivateUsage] # what `dagster api` runs

    import orchestration.definitions
    from assets import pipeline
    from resources.embedding import embedder, tokenizer

    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = load()
    orchestration.definitions.defs.get_repository_def()
    if pipeline.STAGES and settings.embedding_provider == "local":
        embedder(settings)
        tokenizer(settings)
    # Runs may print; only the word that a run is done goes to the keeper.
    keeper = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with DagsterInstance.get() as instance:
        for _ in range(RUNS_A_WORKER):
            run_id = sys.stdin.readline().strip()
            if not run_id:
                return 0
            if _execute_run_command_body(run_id, instance, write_stream_fn=_discard, set_exit_code_on_failure=True):
                return 0  # a run that failed or was interrupted may have left anything behind; Dagster knows of it
            keeper.write("done\n")
            keeper.flush()
    return 0


def _discard(_event: object) -> None:
    """Drop an event: it is in Dagster's event log already."""


def main() -> int:
    """Keep the spare, or be it."""
    settings = load()
    configure(settings.log_level, "workers")
    if sys.argv[1:] == ["spare"]:
        return be_spare()
    serve(settings.home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
