"""Jobs enter, parsed documents leave, through processes of our own whose time and memory are bounded.

A file that hangs, crashes or swells takes its worker process with it and nothing else: it gets a failed outcome that names
the limit, the rest of its batch is done by the next worker. Workers see a minimal environment without secrets. One thread,
no callbacks: `run` is a generator that moves bytes whenever it is asked for the next outcome, so a slow consumer holds the
jobs back and memory stays bounded. Jobs of several people come in queues of their own, which take turns.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec
import structlog

from assets.parsing_worker import FRAME, WALL_FACTOR, ParseJob, ParseOutcome, Report
from resources.errors import AbortSyncError

__all__ = ["ParseJob", "ParseOutcome", "ParserPool"]

BATCH_JOBS = 16
"""Jobs handed over at once: a round trip costs as much as a small file."""
BATCH_BYTES = 1_000_000
"""A batch closes once its files have this size together."""
BATCHES_AHEAD = 2
"""Batches a worker holds, so that it stays busy while the consumer works."""
READY_BYTES = 64 * 2**20
"""Unread outcomes in memory beyond which workers have to wait."""
MAX_STARTS = 3
"""Workers that end before they are ready, in a row, until the sync is aborted."""
TOOK_TOO_LONG = "Parsing took longer than"
"""How the reason begins that is given for a file that used up its time."""
EXIT_SECONDS = 10
"""Time for a worker whose output has closed to end by itself, so that its own exit status tells why it did."""
_PIPE_BYTES = 2**20
_READ_BYTES = 2**18
_ROOT = Path(__file__).resolve().parent.parent

_log = structlog.get_logger(__name__)


class _Queue:
    """The jobs of one person, in order."""

    def __init__(self, jobs: Iterable[ParseJob]) -> None:
        self._jobs = iter(jobs)
        self.again: deque[ParseJob] = deque()
        """Jobs of workers that ended; they go first."""
        self.more = True

    def next(self) -> ParseJob | None:
        """Return the next job, None at the end."""
        job = self.again.popleft() if self.again else next(self._jobs, None) if self.more else None
        self.more = self.more and job is not None
        return job

    @property
    def done(self) -> bool:
        """Return True if there is no job left to hand over."""
        return not self.more and not self.again


class _Held(NamedTuple):
    job: ParseJob
    size: int
    queue: _Queue


class _Worker:
    """One process, the jobs it holds in order, and the bytes on their way to and from it."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assets.parsing_worker", str(seconds), str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is the parent's business: it closes the pipe
        )
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker was started without pipes")
        self.writes, self.reads = stdin.fileno(), stdout.fileno()
        for descriptor in (self.writes, self.reads):
            os.set_blocking(descriptor, False)
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                _enlarge(descriptor)
        self.jobs: deque[_Held] = deque()
        self.outgoing = bytearray()
        self.incoming = bytearray()
        self.ready = False
        self.leaving = False

    def serves(self, queue: _Queue) -> bool:
        """Return True if the jobs that it holds are of this queue. A worker never holds jobs of two."""
        return bool(self.jobs) and self.jobs[0].queue is queue

    @property
    def has_room(self) -> bool:
        """Whether another batch may be sent: one under way, one waiting, and never more than one of large files."""
        if not self.jobs:
            return True
        return len(self.jobs) <= BATCH_JOBS * (BATCHES_AHEAD - 1) and sum(held.size for held in self.jobs) < BATCH_BYTES

    def end(self, *, grace: float = 0) -> int:
        """Reap the process, killed if it has not ended within `grace` seconds; returns its status (negative: the signal)."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            return self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def _enlarge(descriptor: int) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError as error:  # the user's quota of pipe memory is used up: smaller pipes only mean more waiting
        _log.debug("pipe_size_kept", error=str(error))


def _environment() -> dict[str, str]:
    """Return what a worker needs to run, and nothing that it could give away."""
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "TZ") if name in os.environ}
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
    return environment | threads | {"PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


class ParserPool:
    """Parses files in `workers` processes, each file within `seconds` and `memory_mb`. A context manager, used by one thread."""

    def __init__(self, workers: int, seconds: float, memory_mb: int) -> None:
        self._size = workers
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Report)
        self._ready: deque[ParseOutcome] = deque()
        self._ready_bytes: deque[int] = deque()
        self._queues: deque[_Queue] = deque()

    def __enter__(self) -> ParserPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; jobs under way are dropped. Safe to call twice."""
        for worker in self._workers:
            self._forget(worker)
            worker.end()
        self._workers.clear()
        self._clear()

    def _clear(self) -> None:
        self._ready.clear()
        self._ready_bytes.clear()
        self._queues.clear()

    def run(self, *queues: Iterable[ParseJob]) -> Iterator[ParseOutcome]:
        """Yield one outcome a job as they come, not in the order of the jobs.

        With several queues (one a person) each gets its turn, jobs are handed over one by one, and no queue occupies every
        worker while another has jobs. Queues are read only as fast as outcomes are taken. Raises `AbortSyncError` when
        workers do not start. Leaving the generator early drops what is under way; the pool can be used again.
        """
        self._queues.extend(map(_Queue, queues))
        finished = False
        try:
            while True:
                self._feed()
                if (
                    not self._ready
                    and all(queue.done for queue in self._queues)
                    and not any(worker.jobs for worker in self._workers)
                ):
                    finished = True
                    return
                self._move(timeout=0 if self._ready else None)
                if self._ready:
                    self._ready_bytes.popleft()
                    yield self._ready.popleft()
        finally:
            if not finished:
                self.close()

    def _feed(self) -> None:
        """Hand batches to workers that have room, the queues in turn, until no queue has jobs or no worker has room."""
        refused = 0
        while refused < len(self._queues):
            queue = self._queues[0]
            shared = sum(not other.done for other in self._queues) > 1
            self._queues.rotate(-1)
            if queue.done or not self._may_send(queue, shared=shared):
                refused += 1
                continue
            batch = self._batch(queue, 1 if shared else BATCH_JOBS)
            if batch:
                self._send(self._worker_for(queue), batch)
            refused = 0

    def _may_send(self, queue: _Queue, *, shared: bool) -> bool:
        held = [worker for worker in self._workers if worker.serves(queue)]
        free = len(self._workers) < self._size or any(not worker.jobs for worker in self._workers)
        if shared:
            return free and len(held) < max(1, self._size - 1)
        return free or any(worker.has_room for worker in held)

    def _worker_for(self, queue: _Queue) -> _Worker:
        """Return an idle worker, else a new one, else the one of this queue that holds the fewest jobs."""
        for worker in self._workers:
            if not worker.jobs:
                return worker
        if len(self._workers) < self._size:
            return self._start()
        return min((worker for worker in self._workers if worker.serves(queue)), key=lambda worker: len(worker.jobs))

    def _batch(self, queue: _Queue, most: int) -> list[_Held]:
        batch: list[_Held] = []
        size = 0
        while len(batch) < most and size < BATCH_BYTES:
            job = queue.next()
            if job is None:
                break
            batch.append(_Held(job, _job_bytes(job), queue))
            size += batch[-1].size
        return batch

    def _start(self) -> _Worker:
        worker = _Worker(self._seconds, self._memory_mb)
        self._workers.append(worker)
        self._selector.register(worker.reads, selectors.EVENT_READ, worker)
        return worker

    def _send(self, worker: _Worker, batch: list[_Held]) -> None:
        body = self._encoder.encode([held.job for held in batch])
        if not worker.outgoing:
            self._selector.register(worker.writes, selectors.EVENT_WRITE, worker)
        worker.outgoing += FRAME.pack(len(body)) + body
        worker.jobs.extend(batch)

    def _move(self, timeout: float | None) -> None:
        """Move what bytes can be moved, waiting for the first up to `timeout` seconds (None: as long as it takes)."""
        for key, mask in self._selector.select(timeout):
            worker: _Worker = key.data
            if worker not in self._workers:
                continue
            if mask & selectors.EVENT_WRITE:
                self._write(worker)
            elif sum(self._ready_bytes) < READY_BYTES:
                self._read(worker)

    def _write(self, worker: _Worker) -> None:
        try:
            del worker.outgoing[: os.write(worker.writes, memoryview(worker.outgoing)[:_READ_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            worker.outgoing.clear()  # it has ended; reading will tell how
        if not worker.outgoing:
            self._selector.unregister(worker.writes)

    def _read(self, worker: _Worker) -> None:
        try:
            data = os.read(worker.reads, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._replace(worker)
            return
        buffer = worker.incoming
        buffer += data
        position = 0
        while len(buffer) - position >= FRAME.size:
            (length,) = FRAME.unpack_from(buffer, position)
            if len(buffer) - position - FRAME.size < length:
                break
            position += FRAME.size
            self._take(worker, self._decoder.decode(memoryview(buffer)[position : position + length]), length)
            position += length
        del buffer[:position]

    def _take(self, worker: _Worker, report: Report, size: int) -> None:
        worker.ready, worker.leaving = True, report.leaving
        self._failed_starts = 0
        if report.outcome is not None:
            worker.jobs.popleft()
            outcome = report.outcome
            if outcome.error == "memory":
                outcome = msgspec.structs.replace(outcome, error=self._memory_reason())
            self._ready.append(outcome)
            self._ready_bytes.append(size)

    def _replace(self, worker: _Worker) -> None:
        """A worker has ended: blame the job it was at, if any, and leave the rest to others."""
        self._forget(worker)
        self._workers.remove(worker)
        status = worker.end(grace=EXIT_SECONDS)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_STARTS:
                raise AbortSyncError(
                    f"The process that parses files does not start (exit status {status}). Its error output says why; "
                    "raise CONCORDANCE_PARSE_MEMORY_MB if it is short of memory."
                )
        elif worker.jobs and not worker.leaving:
            job = worker.jobs.popleft().job
            reason = self._reason(status)
            _log.warning("parser_ended", key=job.key, status=status, reason=reason)
            too_long = status == -signal.SIGPROF
            seconds = self._seconds if too_long or status == -signal.SIGALRM else 0.0
            self._ready.append(ParseOutcome(key=job.key, error=reason, skipped=too_long, seconds=seconds))
            self._ready_bytes.append(0)
        for held in reversed(worker.jobs):
            held.queue.again.appendleft(held.job)

    def _reason(self, status: int) -> str:
        if status == -signal.SIGPROF:
            return f"{TOOK_TOO_LONG} {self._seconds:g} s (CONCORDANCE_PARSE_SECONDS)."
        if status == -signal.SIGALRM:
            return f"Parsing was not done after {WALL_FACTOR * self._seconds:g} s on a busy machine. It is tried again."
        if status == -signal.SIGABRT:
            return self._memory_reason()
        if status == -signal.SIGKILL:
            return "The parser was killed from outside, most likely because the machine ran out of memory. It is tried again."
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"The parser crashed on this file ({name}), or needed more than {self._memory_mb} MB."

    def _memory_reason(self) -> str:
        return f"Parsing needed more than {self._memory_mb} MB of memory (CONCORDANCE_PARSE_MEMORY_MB)."

    def _forget(self, worker: _Worker) -> None:
        for descriptor in (worker.reads, worker.writes):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)


def _job_bytes(job: ParseJob) -> int:
    if job.data is not None:
        return len(job.data)
    try:
        return Path(job.path or "").stat().st_size
    except OSError:  # the worker meets the same error and reports it with the job
        return 0
