"""Counts of what is in progress, such as connections and requests, by key and over all processes of a server.

Each process counts in a column of its own, which is cleared when it ends. The keys are stored as digests.
"""

from __future__ import annotations

from typing import NamedTuple

from resources.servers.shared import DIGEST_BYTES, NO_DIGEST, Shared

WAYS = 16
"""Slots in which a key may be."""
ROOM = 4
"""Slots for each key that is expected, so that a key's slots are practically never all taken; if they are, it is refused."""
COUNT_BYTES = 4


class Entry(NamedTuple):
    """Result of counting: the slots of the keys, to be handed to `leave`, or the position of the key whose limit is reached."""

    slots: tuple[int, ...]
    reached: int | None = None


class SharedTally:
    """Counts by key. `most` is the largest number of keys that are counted at a time."""

    def __init__(self, shared: Shared, name: str, most: int) -> None:
        self._digest = shared.digest
        self._sets = -(-most * ROOM // WAYS)
        slots = self._sets * WAYS
        keys, column = slots * DIGEST_BYTES, slots * COUNT_BYTES
        self._region = shared.region(name, keys + shared.workers * column)
        self._columns = [self._region.view(keys + column * worker, column, "I") for worker in range(shared.workers)]
        self._mine = self._columns[shared.worker]
        shared.on_clear(self._clear)

    def enter(self, *wanted: tuple[str, int]) -> Entry:
        """Count one more for each key, unless one of them has reached its limit: then for none."""
        slots: list[int] = []
        with self._region:
            for position, (key, limit) in enumerate(wanted):
                slot = self._slot(self._digest(key))
                if slot is None or self._total(slot) >= limit:
                    for one in slots:
                        self._drop(one)
                    return Entry((), position)
                self._mine[slot] += 1
                slots.append(slot)
        return Entry(tuple(slots))

    def leave(self, slots: tuple[int, ...]) -> None:
        """Count one less for each key that was entered together."""
        with self._region:
            for slot in slots:
                self._drop(slot)

    def by_worker(self, key: str) -> list[int]:
        """Return the count of a key in each process."""
        with self._region:
            slot = self._find(self._digest(key))
            return [0 if slot is None else column[slot] for column in self._columns]

    def _find(self, digest: bytes) -> int | None:
        start = self._start(digest)
        at = self._region.memory.find(digest, start, start + WAYS * DIGEST_BYTES)
        return at // DIGEST_BYTES if at >= 0 and at % DIGEST_BYTES == 0 else None

    def _slot(self, digest: bytes) -> int | None:
        """Return the key's slot, a free one if it has none; None if all are taken."""
        slot = self._find(digest)
        if slot is not None:
            return slot
        start = self._start(digest)
        memory = self._region.memory
        for at in range(start, start + WAYS * DIGEST_BYTES, DIGEST_BYTES):
            if memory[at : at + DIGEST_BYTES] == NO_DIGEST:
                memory[at : at + DIGEST_BYTES] = digest
                return at // DIGEST_BYTES
        return None

    def _start(self, digest: bytes) -> int:
        return int.from_bytes(digest[:8], "little") % self._sets * WAYS * DIGEST_BYTES

    def _total(self, slot: int) -> int:
        return sum(column[slot] for column in self._columns)

    def _drop(self, slot: int) -> None:
        if self._mine[slot]:
            self._mine[slot] -= 1
        self._free(slot)

    def _free(self, slot: int) -> None:
        if not self._total(slot):
            self._region.memory[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] = NO_DIGEST

    def _clear(self, worker: int) -> None:
        column = self._columns[worker]
        with self._region:
            for slot in range(len(column)):  # all of them: it may have ended between taking a slot and counting
                column[slot] = 0
                self._free(slot)
