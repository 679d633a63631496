"""Documents that a listing has shown, as hashes: 8 bytes each, so that a root with two million files takes 16 MB.

A document that is gone is missed if its hash equals that of another, which has a chance of 1 in 10 ** 13 at two million. Python chooses
other hashes in each process, so the next sync finds it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

PAGE = 10_000
"""Documents that are looked up at a time."""


class ShownDocuments:
    """A set of source ids of this process."""

    def __init__(self) -> None:
        self._hashes = array("q")

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return len(self._hashes) * self._hashes.itemsize

    def __len__(self) -> int:
        return len(np.unique(self._array()))

    def add(self, source_ids: Iterable[str]) -> None:
        self._hashes.extend(map(hash, source_ids))

    def lacking(self, source_ids: Iterable[str]) -> Iterator[str]:
        """Yield those of these ids that are not in the set."""
        there = np.sort(self._array())
        remaining = iter(source_ids)
        while page := list(islice(remaining, PAGE)):
            wanted = np.fromiter(map(hash, page), dtype=np.int64, count=len(page))
            places = np.searchsorted(there, wanted)
            found = np.zeros(len(page), dtype=np.bool_)
            within = places < len(there)
            found[within] = there[places[within]] == wanted[within]
            yield from (source_id for source_id, known in zip(page, found.tolist(), strict=True) if not known)

    def _array(self) -> NDArray[np.int64]:
        return np.array(self._hashes, dtype=np.int64)
