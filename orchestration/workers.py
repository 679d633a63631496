"""Warm run workers: a run's id enters on a loopback socket; a process that has everything imported does the run.

Starting Python with Dagster, Polars, Arrow and the model takes seconds, and most syncs take less. So one spare process waits, warm;
it does one run and ends, and the next spare is made when there is nothing better to do. `python -m orchestration.workers` keeps the
spare; `python -m orchestration.workers spare` is one.
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

log = structlog.get_logger("workers")


def address_file(home: Path) -> Path:
    """Return the file that tells launchers where the workers listen and the word that opens them; for the owner alone."""
    return home / "run" / ADDRESS_FILE


class Workers:
    """Keeps one spare process and hands runs to it."""

    def __init__(self) -> None:
        self._spare: subprocess.Popen[str] | None = None
        self._running: list[subprocess.Popen[str]] = []

    def hand_over(self, run_id: str) -> tuple[int, float]:
        """Give the run to the spare, or to a new process when there is none. Returns its pid and the time it was made."""
        worker = self._spare if self._spare is not None and self._spare.poll() is None else self._spawn()
        self._spare = None
        made = psutil.Process(worker.pid).create_time()
        stdin = _stdin(worker)
        stdin.write(run_id + "\n")
        stdin.flush()
        self._running.append(worker)
        log.info("run.handed_over", run_id=run_id, pid=worker.pid)
        return worker.pid, made

    def tend(self) -> None:
        """Reap what has ended; make a spare when no run needs the machine."""
        for worker in [worker for worker in self._running if worker.poll() is not None]:
            self._running.remove(worker)
            if worker.returncode != 0:
                log.warning("run.worker_ended", pid=worker.pid, status=worker.returncode)
        if not self._running and (self._spare is None or self._spare.poll() is not None):
            self._spare = self._spawn()

    def stop(self) -> None:
        """Close the spare and interrupt the runs, as Dagster's own termination does."""
        if self._spare is not None:
            _stdin(self._spare).close()
        for worker in self._running:
            if worker.poll() is None:
                worker.send_signal(signal.SIGINT)
        for worker in [*self._running, *([self._spare] if self._spare else [])]:
            worker.wait()

    def _spawn(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "orchestration.workers", "spare"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def _stdin(worker: subprocess.Popen[str]) -> IO[str]:
    if worker.stdin is None:
        raise RuntimeError("a worker is made with a pipe")
    return worker.stdin


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
        while not ending:
            workers.tend()
            ready, _, _ = select.select([server], [], [], POLL_SECONDS)
            if ready:
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
        except (OSError, ValueError, KeyError, TypeError) as error:
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
    """Import what runs need, wait for a run's id, do the run, end. No id (the keeper has gone): end."""
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
    with DagsterInstance.get() as instance:
        run_id = sys.stdin.readline().strip()
        if not run_id:
            return 0
        return _execute_run_command_body(run_id, instance, write_stream_fn=_discard, set_exit_code_on_failure=True)


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
