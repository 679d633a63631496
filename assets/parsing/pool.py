"""Parse files in a pool of worker processes with bounded time and memory.

A file that hangs, crashes or uses too much memory ends only its worker process: it gets a failed outcome that names the limit, and the
next worker processes the rest of its batch. Workers are confined (`assets.parsing.confinement`), have an environment without secrets, and
receive the bytes of each file, so that they need no access to the lake. The pool uses one thread and no callbacks: `run` is a generator
that moves bytes whenever the next outcome is requested, so a slow consumer slows the jobs down and memory stays bounded. Jobs of
different people are in separate queues, which take turns.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

import msgspec
import structlog

from assets.parsing.process import (
    BATCH_BYTES,
    BATCH_JOBS,
    COMMAND,
    READ_BYTES,
    AssignedJob,
    ParserProcess,
    Queue,
    job_bytes,
)
from assets.parsing.worker import START_SECONDS, WALL_FACTOR, ParseJob, ParseOutcome, WorkerReport
from resources.core.errors import AbortSyncError

__all__ = ["ParseJob", "ParseOutcome", "ParserPool"]

READY_BYTES = 64 * 2**20
"""Bytes of unread outcomes in memory above which workers must wait."""
MAX_STARTS = 3
"""Consecutive workers that end before they are ready, after which the sync is aborted."""
_NONSENSE = "The parser answered what it never should: this file may have been made to attack it. It will be retried."
TOOK_TOO_LONG = "Parsing took longer than"
"""The beginning of the reason for a file that exceeded its time limit."""
SILENCE_SECONDS = 30
"""Time beyond a worker's own limits after which the pool kills it: a compromised parser may have disabled its timer."""
EXIT_SECONDS = 10
"""Time for a worker whose output has closed to exit by itself, so that its exit status shows the cause."""

_log = structlog.get_logger(__name__)


class ParserPool:
    """Parses files in `workers` processes, each file limited to `seconds` and `memory_mb`. A context manager; not thread-safe."""

    def __init__(self, workers: int, seconds: float, memory_mb: int, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._size = workers
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._workers: list[ParserProcess] = []
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0
        self._ready: deque[ParseOutcome] = deque()
        self._ready_bytes: deque[int] = deque()
        self._queues: deque[Queue] = deque()
        """Queues that may have jobs to send; one whose jobs were all sent returns if a worker gives some back."""

    def __enter__(self) -> ParserPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers and drop unfinished jobs. Safe to call twice."""
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
        """Yield one outcome per job as they complete, not in the order of the jobs.

        With several queues (one per person) the queues take turns, jobs are sent one by one, and no queue occupies every
        worker while another has jobs. Queues are read only as fast as outcomes are consumed. Raises `AbortSyncError` if
        workers do not start. Closing the generator early drops unfinished jobs; the pool can be used again.
        """
        self._queues.extend(map(Queue, queues))
        finished = False
        try:
            while True:
                self._feed()
                if not self._ready and not self._queues and not any(worker.jobs for worker in self._workers):
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
        """Send batches to workers that have room, taking the queues in turn, until no queue has jobs or no worker has room."""
        refused = 0
        while refused < len(self._queues):
            queue, shared = self._queues[0], len(self._queues) > 1
            if shared and not self._has_idle:
                return
            if not self._may_send(queue, shared=shared):
                self._queues.rotate(-1)
                refused += 1
                continue
            batch = self._batch(queue, 1 if shared else BATCH_JOBS)
            if batch:
                self._send(self._worker_for(queue), batch)
            if queue.done:
                self._queues.popleft()
            else:
                self._queues.rotate(-1)
            refused = 0

    @property
    def _has_idle(self) -> bool:
        """Whether a worker has no jobs, or another may be started."""
        return len(self._workers) < self._size or any(not worker.jobs for worker in self._workers)

    def _may_send(self, queue: Queue, *, shared: bool) -> bool:
        held = [worker for worker in self._workers if worker.serves(queue)]
        if shared:
            return self._has_idle and len(held) < max(1, self._size - 1)
        return self._has_idle or any(worker.has_room for worker in held)

    def _worker_for(self, queue: Queue) -> ParserProcess:
        """Return an idle worker, else a new one, else the worker of this queue with the fewest jobs."""
        for worker in self._workers:
            if not worker.jobs:
                return worker
        if len(self._workers) < self._size:
            return self._start()
        return min((worker for worker in self._workers if worker.serves(queue)), key=lambda worker: len(worker.jobs))

    def _batch(self, queue: Queue, most: int) -> list[AssignedJob]:
        batch: list[AssignedJob] = []
        size = 0
        while len(batch) < most and size < BATCH_BYTES:
            job = queue.next()
            if job is None:
                break
            batch.append(AssignedJob(job, job_bytes(job), queue))
            size += batch[-1].size
        return batch

    def _start(self) -> ParserProcess:
        worker = ParserProcess(self._command, self._seconds, self._memory_mb)
        self._workers.append(worker)
        self._selector.register(worker.reads, selectors.EVENT_READ, worker)
        return worker

    def _send(self, worker: ParserProcess, batch: list[AssignedJob]) -> None:
        if not worker.unsent and worker.file is None and not worker.outgoing:
            self._selector.register(worker.writes, selectors.EVENT_WRITE, worker)
        if not worker.jobs:
            worker.process.heard()  # it has had nothing to say
            worker.waited = 0.0
        worker.unsent.extend(batch)
        worker.jobs.extend(batch)

    def _move(self, timeout: float | None) -> None:
        """Read and write without blocking, waiting up to `timeout` seconds for the first event (None: `SILENCE_SECONDS`)."""
        before = time.monotonic()
        events = self._selector.select(SILENCE_SECONDS if timeout is None else timeout)
        for worker in self._workers:
            worker.waited += time.monotonic() - before
        for key, mask in events:
            worker: ParserProcess = key.data
            if worker not in self._workers:
                continue
            worker.process.heard()
            if mask & selectors.EVENT_WRITE:
                self._write(worker)
            elif sum(self._ready_bytes) < READY_BYTES:
                self._read(worker)
        longest = max(WALL_FACTOR * self._seconds, START_SECONDS) + SILENCE_SECONDS
        for worker in [worker for worker in self._workers if worker.jobs]:
            if worker.waited > longest or worker.process.hangs(longest):
                self._replace(worker, grace=0)

    def _write(self, worker: ParserProcess) -> None:
        try:
            if worker.fill():
                del worker.outgoing[: os.write(worker.writes, memoryview(worker.outgoing)[:READ_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has ended; reading shows how
            self._selector.unregister(worker.writes)
            return
        if not worker.fill():
            self._selector.unregister(worker.writes)

    def _read(self, worker: ParserProcess) -> None:
        try:
            data = os.read(worker.reads, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._replace(worker)
            return
        try:
            for report, size in worker.reports.feed(data):
                self._take(worker, report, size)
        except msgspec.MsgspecError:
            self._replace(worker, grace=0, reason=_NONSENSE)

    def _take(self, worker: ParserProcess, report: WorkerReport, size: int) -> None:
        """Take what a worker reports. Raises `msgspec.ValidationError` unless it is ready, once, or about the oldest of its jobs."""
        outcome = report.outcome
        if outcome is None:
            if worker.ready:
                raise msgspec.ValidationError(_NONSENSE)
            worker.ready = True
            self._failed_starts = 0
        else:
            if not worker.jobs or outcome.key != worker.jobs[0].job.key:
                raise msgspec.ValidationError(_NONSENSE)
            worker.jobs.popleft()
            worker.leaving = report.leaving
            if outcome.error == "memory":
                outcome = msgspec.structs.replace(outcome, error=self._memory_reason())
            elif outcome.unread:
                outcome = msgspec.structs.replace(outcome, error=worker.unread.pop(outcome.key, outcome.error))
            self._ready.append(outcome)
            self._ready_bytes.append(size)
        worker.waited = 0.0

    def _replace(self, worker: ParserProcess, grace: float = EXIT_SECONDS, reason: str | None = None) -> None:
        """Remove a worker that has ended or hangs: fail its current job, if any, and put the others back in their queues.

        `reason`: why the job fails, if not for how the process ended.
        """
        self._forget(worker)
        self._workers.remove(worker)
        status = worker.end(grace=grace)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_STARTS:
                raise AbortSyncError(
                    f"The process that parses files does not start (exit status {status}). See its error output for the reason; "
                    "raise CONCORDANCE_LIMITS__PARSE_MEMORY_MB if it runs out of memory."
                )
        elif worker.jobs and not worker.leaving:
            job = worker.jobs.popleft().job
            reason = reason or self._reason(status)
            _log.warning("parser_ended", key=job.key, status=status, reason=reason)
            too_long = status == -signal.SIGPROF
            seconds = self._seconds if too_long or status == -signal.SIGALRM else 0.0
            self._ready.append(ParseOutcome(key=job.key, error=reason, skipped=too_long, seconds=seconds))
            self._ready_bytes.append(0)
        for held in reversed(worker.jobs):
            held.queue.again.appendleft(held.job)
            if held.queue not in self._queues:
                self._queues.append(held.queue)

    def _reason(self, status: int) -> str:
        if status == -signal.SIGPROF:
            return f"{TOOK_TOO_LONG} {self._seconds:g} s (CONCORDANCE_LIMITS__PARSE_SECONDS)."
        if status == -signal.SIGALRM:
            return (
                f"Parsing was not done after {WALL_FACTOR * self._seconds:g} s on a busy machine. It will be retried."
            )
        if status == -signal.SIGABRT:
            return self._memory_reason()
        if status == -signal.SIGKILL:
            return "The parser was killed from outside, most likely because the machine ran out of memory. It will be retried."
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"The parser crashed on this file ({name}), or needed more than {self._memory_mb} MB."

    def _memory_reason(self) -> str:
        return f"Parsing needed more than {self._memory_mb} MB of memory (CONCORDANCE_LIMITS__PARSE_MEMORY_MB)."

    def _forget(self, worker: ParserProcess) -> None:
        for descriptor in (worker.reads, worker.writes):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
