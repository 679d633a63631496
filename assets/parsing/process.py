"""A parser process from the pool's point of view: its command, its jobs and its input and output buffers.

A job is sent as a line, and its file follows in parts: the process opens no file of the lake, and the pool never has more than a part of
a file in memory.
"""

import fcntl
import hashlib
import io
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import structlog

from assets.parsing.worker import FilePart, ParseJob, WorkerReport
from resources.servers.lines import Lines, line
from resources.servers.managed import ManagedProcess
from resources.stores.blobs import unreadable

COMMAND = (sys.executable, "-m", "assets.parsing.worker")
"""Command of a worker; the limits are appended."""
BATCH_JOBS = 16
"""Jobs sent at once: a round trip costs as much as a small file."""
BATCH_BYTES = 1_000_000
"""A batch is closed once its files have this total size."""
BATCHES_AHEAD = 2
"""Batches queued at a worker, so that it stays busy while the consumer works."""
READ_BYTES = 2**18
_PIPE_BYTES = 2**20
_ROOT = Path(__file__).resolve().parents[2]

_log = structlog.get_logger(__name__)


class Queue:
    def __init__(self, jobs: Iterable[ParseJob]) -> None:
        self._jobs = iter(jobs)
        self.again: deque[ParseJob] = deque()
        """Jobs of workers that ended; they are repeated first."""
        self.more = True

    def next(self) -> ParseJob | None:
        job = self.again.popleft() if self.again else next(self._jobs, None) if self.more else None
        self.more = self.more and job is not None
        return job

    @property
    def done(self) -> bool:
        return not self.more and not self.again


class AssignedJob(NamedTuple):
    job: ParseJob
    size: int
    queue: Queue


class ParserProcess:
    """One process with its jobs in order and its input and output buffers."""

    def __init__(self, command: Sequence[str], seconds: float, memory_mb: int) -> None:
        self.process = ManagedProcess(
            [*command, str(seconds), str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env=environment(),
            stop_signal=signal.SIGKILL,  # it may be in the middle of a file, where it handles no signal
            start_new_session=True,  # the parent handles Ctrl-C and closes the pipe
        )
        self.writes, self.reads = self.process.stdin.fileno(), self.process.stdout.fileno()
        for descriptor in (self.writes, self.reads):
            os.set_blocking(descriptor, False)
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                _enlarge(descriptor)
        self.jobs: deque[AssignedJob] = deque()
        self.unsent: deque[AssignedJob] = deque()
        self.file: BinaryIO | None = None
        """The file that is being sent."""
        self.unread: dict[str, str] = {}
        """Why the bytes of a job could not be sent, by job key."""
        self._sending: ParseJob | None = None
        self._digest = hashlib.sha256()
        self.outgoing = bytearray()
        self.reports = Lines(WorkerReport, memory_mb * 2**20 // 2)  # it holds a text and the report of it at once
        self.ready = False
        self.waited = 0.0
        """Seconds that the pool has waited for events since its oldest job became that."""
        self.leaving = False

    def serves(self, queue: Queue) -> bool:
        """Return True if its jobs are from this queue. A worker never has jobs from two queues."""
        return bool(self.jobs) and self.jobs[0].queue is queue

    @property
    def has_room(self) -> bool:
        """Return True if another batch may be sent: one in progress, one queued, and never more than one of large files."""
        if not self.jobs:
            return True
        return len(self.jobs) <= BATCH_JOBS * (BATCHES_AHEAD - 1) and sum(held.size for held in self.jobs) < BATCH_BYTES

    def fill(self) -> bool:
        """Prepare the next bytes to write: a job, or a part of its file. Return False if everything is sent."""
        if self.outgoing:
            return True
        if self.file is not None:
            self._send_part(self.file)
        elif self.unsent:
            job = self.unsent.popleft().job
            self.outgoing += line(msgspec.structs.replace(job, path=None, data=None))
            self._sending, self._digest = job, hashlib.sha256()
            try:
                self.file = io.BytesIO(job.data) if job.data is not None else Path(job.path or "").open("rb")  # noqa: SIM115
            except OSError as error:
                self._give_up(_unreadable(job, error))
        return bool(self.outgoing)

    def _send_part(self, file: BinaryIO) -> None:
        job = self._sending
        try:
            part = file.read(READ_BYTES)
        except OSError as error:
            self._give_up(_unreadable(job, error))
            return
        self._digest.update(part)
        if not part and job is not None and job.content_hash not in (None, self._digest.hexdigest()):
            self._give_up("are not the bytes that were stored")
            return
        self.outgoing += line(FilePart(len(part)))
        self.outgoing += part
        if not part:
            self._close_file()

    def _give_up(self, reason: str) -> None:
        _log.warning("parser_file_unreadable", reason=reason)
        if self._sending is not None:
            self.unread[self._sending.key] = unreadable(self._sending.content_hash or self._sending.key, reason)
        self.outgoing += line(FilePart(None))
        self._close_file()

    def _close_file(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def end(self, *, grace: float = 0) -> int:
        """Reap the process, killing it if it has not ended within `grace` seconds; return its status (negative: the signal)."""
        self._close_file()
        return self.process.end(grace)


def _unreadable(job: ParseJob | None, error: OSError) -> str:
    """Return what is wrong with the bytes of a job, as a verb phrase."""
    if isinstance(error, FileNotFoundError):
        return "are missing"
    where = "" if job is None or job.path is None else f" at {job.path}"
    return f"cannot be read{where}: {error.strerror or error}"


def _enlarge(descriptor: int) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError as error:  # the user's quota of pipe memory is exhausted: smaller pipes only cause more waiting
        _log.debug("pipe_size_kept", error=str(error))


def environment() -> dict[str, str]:
    """Return the environment of a worker: what it needs to run, without secrets."""
    names = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "TZ", "PYTHONPYCACHEPREFIX")
    passed = {name: os.environ[name] for name in names if name in os.environ}
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
    return passed | threads | {"PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def job_bytes(job: ParseJob) -> int:
    if job.data is not None:
        return len(job.data)
    try:
        return Path(job.path or "").stat().st_size
    except OSError:  # reading the file fails in the same way and is reported with the job
        return 0
