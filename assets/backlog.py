"""The documents that a sync has yet to process, handed to its threads in waves, the most urgent first."""

from __future__ import annotations

import threading
from collections.abc import Container, Sequence

from resources.core.domain import State
from sql.rows import Pending

FIRST_WAVE = 64
LAST_WAVE = 1000
"""Documents of a wave. It doubles from the first on, for early results, and shrinks towards the end, when the threads after the first
one would otherwise work alone.
"""
WAVE_BYTES = 4 * 2**20
EXPRESS_DOCUMENTS = 50
EXPRESS_BYTES = 256 * 2**10
SMALL_BYTES = 64 * 2**10
"""Documents that need not wait for a wave: so many, of so many bytes in total, each of at most this size."""
LENT_DOCUMENTS = 250
LEAST_SHARED = 16
"""Documents of a wave that is lent to another run, of `WAVE_BYTES` in total: so many that their hand-over costs little, so few that the
last one is not waited for long. The sync's own waves have as many at least.
"""
SAMPLE_DOCUMENTS = 100
SAMPLE_BYTES = 16 * 2**20
"""A sample: so many documents, of so many bytes in total."""


class Backlog:
    """Pending documents: those that wait, those in the hands of a thread, which no other thread may write or remove, and those lent to
    other runs, which write nothing that belongs to a document. Thread-safe.
    """

    def __init__(self) -> None:
        self.busy: set[str] = set()
        """Ids of the documents in hand."""
        self.runs = 1
        """Runs that share the documents. The more there are, the fewer of those that wait belong to one wave."""
        self._changed = threading.Condition()
        self._waiting: list[Pending] = []
        """The next one last."""
        self._beyond = 0
        """How many others there are, which are not in memory."""
        self._lent: set[str] = set()
        """Ids of the documents that are lent, or given back and not in hand again."""
        self._returned: list[list[Pending]] = []
        """Waves that were given back, which are the next ones."""
        self._taken: set[int] = set()
        self._wave = FIRST_WAVE
        self._taken_bytes = self._waiting_bytes = 0
        self._ended = False

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def left(self) -> int:
        """Number of documents that no thread and no other run has taken."""
        return len(self._waiting) + self._beyond

    @property
    def drained(self) -> bool:
        """True if there is no next wave, so that threads wait for documents that are lent."""
        return not self._waiting and not self._returned

    @property
    def idle(self) -> bool:
        """True if no document waits, is in hand or is lent."""
        return not self._waiting and not self.busy and not self._lent

    @property
    def _total(self) -> int:
        return len(self._taken) + len(self._waiting) + self._beyond

    @property
    def progress(self) -> tuple[int, int]:
        """Number of documents that are done, and of all so far."""
        with self._changed:
            return len(self._taken) - len(self.busy) - len(self._lent), self._total

    @property
    def size(self) -> int:
        """Bytes of all documents so far; those beyond the ones it was given are as large as these on average."""
        with self._changed:
            known = self._total - self._beyond
            return (self._taken_bytes + self._waiting_bytes) * self._total // known if known else 0

    def untaken(self, pending: Sequence[Pending]) -> list[Pending]:
        """Return those of `pending` that are not in hand or lent and have not been taken before with the same content."""
        with self._changed:
            held = self.busy | self._lent
            return [one for one in pending if one.doc_id not in held and _version(one) not in self._taken]

    def refill(self, pending: Sequence[Pending], beyond: int = 0) -> None:
        """Replace the waiting documents by those of `pending` that are not taken, the most urgent first; about `beyond` others follow."""
        with self._changed:
            self._waiting = self.untaken(pending)[::-1]
            self._waiting_bytes = sum(one.size for one in self._waiting)
            self._beyond = beyond
            self._changed.notify_all()

    def admit(self, pending: Sequence[Pending], beyond: int = 0) -> list[Pending]:
        """Refill and take the express documents, before a thread that waits for a wave can."""
        with self._changed:
            self.refill(pending, beyond)
            return self.express()

    def express(self) -> list[Pending]:
        """Take small documents, as many as are processed within seconds."""
        with self._changed:
            return self._take(EXPRESS_DOCUMENTS, EXPRESS_BYTES, SMALL_BYTES)

    def wave(self) -> list[Pending] | None:
        """Take the next wave; waits until there is one. Returns None after `end`."""
        with self._changed:
            while self.drained and not self._ended:
                self._changed.wait()
            if self._ended:
                return None
            if self._returned:
                wave = self._returned.pop()
                self._lent.difference_update(one.doc_id for one in wave)
                self.busy.update(one.doc_id for one in wave)
                return wave
            most = max(LEAST_SHARED, FIRST_WAVE // self.runs, min(self._wave, self.left // (4 * self.runs)))
            self._wave = min(LAST_WAVE, self._wave * 2)
            return self._take(most, WAVE_BYTES)

    def lend(self) -> list[Pending]:
        """Take the least urgent documents for another run, and leave enough of those that wait for the next wave and the other runs.

        Those that parsing rejected before are not lent: this sync reports what becomes of them.
        """
        with self._changed:
            if len(self._waiting) < LEAST_SHARED * self.runs:
                return []
            most = max(LEAST_SHARED, min(LENT_DOCUMENTS, len(self._waiting) // (4 * self.runs)))
            lent: list[Pending] = []
            passed: list[Pending] = []
            for one in self._waiting:
                if len(lent) == most or (lent and sum(other.size for other in lent) + one.size > WAVE_BYTES):
                    break
                (lent if one.state == State.LIVE else passed).append(one)
            self._waiting[: len(lent) + len(passed)] = passed
            self._moved(lent)
            self._lent.update(one.doc_id for one in lent)
            return lent

    def give_back(self, documents: Sequence[Pending], *, unchanged: Container[str]) -> None:
        """Make lent documents the next wave; those that are not `unchanged` (ids) are released instead."""
        with self._changed:
            self._lent.difference_update(one.doc_id for one in documents if one.doc_id not in unchanged)
            wave = [one for one in documents if one.doc_id in unchanged]
            if wave:
                self._returned.append(wave)
            self._changed.notify_all()

    def done(self, documents: Sequence[Pending]) -> None:
        """Release documents."""
        with self._changed:
            self.busy.difference_update(one.doc_id for one in documents)
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until documents are released, for at most so long."""
        with self._changed:
            if not self.idle and not self._ended:
                self._changed.wait(seconds)

    def end(self) -> None:
        """Hand out no more waves."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, most: int, size: int, largest: int | None = None) -> list[Pending]:
        """Take up to `most` documents of `size` bytes in total; without `largest`, at least one."""
        taken: list[Pending] = []
        total = 0
        while self._waiting and len(taken) < most:
            total += self._waiting[-1].size
            if total > size and (taken or largest is not None):
                break
            if largest is not None and self._waiting[-1].size > largest:
                break
            taken.append(self._waiting.pop())
        self._moved(taken)
        self.busy.update(one.doc_id for one in taken)
        return taken

    def _moved(self, taken: Sequence[Pending]) -> None:
        size = sum(one.size for one in taken)
        self._taken_bytes += size
        self._waiting_bytes -= size
        self._taken.update(map(_version, taken))


def _version(document: Pending) -> int:
    """Return a hash of the document and its content. If two were the same, a document would wait for the next sync, whose hashes differ."""
    return hash((document.doc_id, document.content_key))


def evenly(documents: Sequence[Pending]) -> list[Pending]:
    """Return a sample of documents, evenly spaced by size."""
    ordered = sorted(documents, key=lambda one: (one.size, one.doc_id))
    found: list[Pending] = []
    total = 0
    for one in ordered[:: max(1, -(-len(ordered) // SAMPLE_DOCUMENTS))]:
        total += one.size
        if found and total > SAMPLE_BYTES:
            break
        found.append(one)
    return found
