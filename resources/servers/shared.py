"""Memory that the processes of one server share: counts and limits that hold for all of them.

It is an anonymous file that the supervisor creates and the processes inherit. Each part (`Region`) has a lock, held for microseconds,
which the kernel releases if its holder dies. What belongs to one process is kept in a column of its own, so that another process
can clear it when that process ends. A server of one process uses plain memory without locks, through the same classes.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import mmap
import os
import secrets
import tempfile
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal, NamedTuple

import msgspec

from resources.core.errors import ServiceUnavailableError
from resources.servers.lines import line

DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)
LOOK_SECONDS = 0.02
"""Between two looks at what another process is doing."""
BEATS, ACCEPTING, PID = 0, 1, 2
"""What `Shared.processes` has of each process: a count that rises with every tick of its event loop, 1 while it accepts connections,
and its pid."""
_LAYOUT = 1 << 40
"""Byte, far beyond the end, whose lock is held to add a part."""


class Inherited(NamedTuple):
    """What a process receives from the supervisor: its number, the number of processes, and the descriptors of socket and memory."""

    worker: int
    workers: int
    listener: int
    memory: int
    """-1 if it is the only process."""

    def argument(self) -> str:
        """Return it as an argument of the command line."""
        return line(self).decode().strip()

    @classmethod
    def parse(cls, argument: str) -> Inherited:
        return msgspec.json.decode(argument, type=cls)


class Region:
    """A part of the memory. As a context manager it holds the region's lock, which is not reentrant."""

    def __init__(self, size: int, fd: int, at: int) -> None:
        self._fd, self._at = fd, at
        self.memory = mmap.mmap(-1, size) if fd < 0 else mmap.mmap(fd, size, offset=at)

    def __enter__(self) -> None:
        if self._fd >= 0:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, self._at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._at)

    def view(self, start: int, size: int, kind: Literal["I", "Q"]) -> memoryview:
        """Return a part of the region as numbers of this format."""
        return memoryview(self.memory)[start : start + size].cast(kind)


class Shared:
    """The memory as one process sees it: `worker` is its number. Use it from one thread, the event loop's."""

    def __init__(self, worker: int, workers: int, key: bytes, fd: int = -1) -> None:
        """`key` makes digests that reveal nothing about what they were made from; every process has the same."""
        self.worker, self.workers, self.fd = worker, workers, fd
        self._key = key
        self._end = 0
        self._on_clear: list[Callable[[int], None]] = []
        self.processes = Numbers(self, "processes", 3)

    @classmethod
    def alone(cls) -> Shared:
        """Return the memory of a server of one process."""
        return cls(0, 1, secrets.token_bytes(32))

    @classmethod
    def create(cls, workers: int, secret: str) -> Shared:
        """Create the memory for this number of processes."""
        if workers == 1:
            return cls.alone()
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("concordance", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        return cls(0, workers, _key(secret), fd)

    @classmethod
    def attach(cls, worker: int, workers: int, secret: str, fd: int) -> Shared:
        """Open the memory in a process that has inherited it."""
        os.set_inheritable(fd, False)
        return cls(worker, workers, _key(secret), fd)

    def digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES, key=self._key).digest()

    def region(self, name: str, size: int) -> Region:
        """Return the next part of the memory, zeroed at first. All processes ask for the same parts in the same order.

        Raises `ServiceUnavailableError` if another process has another part there, because its settings or version differ.
        """
        size = -(-(size + DIGEST_BYTES) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        at, self._end = self._end, self._end + size
        signature = hashlib.blake2b(f"{name} {size}".encode(), digest_size=DIGEST_BYTES).digest()
        if self.fd < 0:
            return Region(size, -1, at)
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, _LAYOUT)
        try:
            if os.fstat(self.fd).st_size < self._end:
                os.ftruncate(self.fd, self._end)
            region = Region(size, self.fd, at)
            if region.memory[-DIGEST_BYTES:] == NO_DIGEST:
                region.memory[-DIGEST_BYTES:] = signature
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, _LAYOUT)
        if region.memory[-DIGEST_BYTES:] == signature:
            return region
        raise ServiceUnavailableError(
            "The processes of this service have different settings or versions. Restart it: concordance restart."
        )

    def on_clear(self, action: Callable[[int], None]) -> None:
        """Call `action` with the number of a process that has ended."""
        self._on_clear.append(action)

    def clear(self, worker: int) -> None:
        """Remove what a process that has ended left behind."""
        for action in self._on_clear:
            action(worker)

    def begin(self) -> None:
        """Remove what our predecessor left behind. Call it once every part is there."""
        self.clear(self.worker)
        self.processes[PID] = os.getpid()

    def clear_ended(self) -> None:
        """Remove what others that have ended left behind, unless another process does."""
        for worker in range(self.workers):
            pid = self.processes.of(worker, PID)
            if pid and not _runs(pid) and self.processes.take(worker, PID, pid):
                self.clear(worker)

    def close(self) -> None:
        """Close the file; its parts that are in use remain."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Numbers:
    """A few unsigned numbers for each process, which only that process writes."""

    def __init__(self, shared: Shared, name: str, count: int) -> None:
        self._mine = shared.worker
        self._region = region = shared.region(name, shared.workers * count * 8)
        self._columns = [region.view(worker * count * 8, count * 8, "Q") for worker in range(shared.workers)]
        shared.on_clear(self._clear)

    def __getitem__(self, index: int) -> int:
        return self._columns[self._mine][index]

    def __setitem__(self, index: int, value: int) -> None:
        self._columns[self._mine][index] = value

    def of(self, worker: int, index: int) -> int:
        return self._columns[worker][index]

    def take(self, worker: int, index: int, number: int) -> bool:
        """Set the number of a process that has ended to 0 if it still is this one. Of several that do this, one gets True."""
        with self._region:
            taken = self._columns[worker][index] == number
            if taken:
                self._columns[worker][index] = 0
        return taken

    def all(self, index: int) -> list[int]:
        """Return the number of each process."""
        return [column[index] for column in self._columns]

    def _clear(self, worker: int) -> None:
        column = self._columns[worker]
        for index in range(len(column)):
            column[index] = 0


class Progress:
    """Work that each process has queued and done, so that one can wait for the work of another."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._numbers = Numbers(shared, name, 2)
        self._alone = shared.workers == 1

    def queued(self, count: int = 1) -> None:
        self._numbers[0] += count

    def done(self, count: int = 1) -> None:
        self._numbers[1] += count

    async def others(self) -> None:
        """Wait until every process has done what it has queued so far."""
        if self._alone:
            return
        wanted = self._numbers.all(0)
        while not self._reached(wanted):  # noqa: ASYNC110 (the event is in another process)
            await asyncio.sleep(LOOK_SECONDS)

    def _reached(self, wanted: Sequence[int]) -> bool:
        queued, done = self._numbers.all(0), self._numbers.all(1)
        # a process that has nothing left to do may have been replaced, and counts from zero
        return all(d >= w or d == q for w, q, d in zip(wanted, queued, done, strict=True))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _key(secret: str) -> bytes:
    return hashlib.sha256(b"shared memory " + secret.encode()).digest()
