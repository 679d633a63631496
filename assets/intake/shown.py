"""Documents that a listing has shown, as hashes of 8 bytes, 16 MB for two million files, or that are unchanged, by the keys of their pages.

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
        return len(_distinct(self._array()))

    def add(self, source_ids: Iterable[str]) -> None:
        self._hashes.extend(map(hash, source_ids))

    def lacking(self, source_ids: Iterable[str]) -> Iterator[str]:
        """Yield those of these ids that are not in the set."""
        there = np.sort(self._array())
        remaining = iter(source_ids)
        while page := list(islice(remaining, PAGE)):
            wanted = np.fromiter(map(hash, page), dtype=np.int64, count=len(page))
            _, found = _places(there, wanted)
            yield from (source_id for source_id, known in zip(page, found.tolist(), strict=True) if not known)

    def _array(self) -> NDArray[np.int64]:
        return np.array(self._hashes, dtype=np.int64)


class UnchangedDocuments:
    """`resources.core.ports.KnownKeys` of one partition and one listing."""

    def __init__(self, keys: bytes, counts: bytes, documents: int) -> None:
        """Make what a listing is compared with.

        `keys`: eight bytes each, the highest first, in ascending order. `counts`: how many documents have each, four bytes.
        `documents`: those of the partition that the registry has, with a key or without.
        """
        self._keys = np.frombuffer(keys, dtype=">i8").astype(np.int64)
        self._counts = np.frombuffer(counts, dtype=">i4").astype(np.int32)
        self._listed = np.zeros(len(self._keys), dtype=np.bool_)
        self.documents = documents

    def __len__(self) -> int:
        """Return the number of documents that have been listed."""
        return int(self._counts.sum(where=self._listed))

    def listed(self, key: int, documents: int) -> bool:
        place = self._keys.searchsorted(key)
        if place == len(self._keys) or self._keys[place] != key or self._counts[place] != documents:
            return False
        self._listed[place] = True
        return True

    def unlisted(self) -> list[int]:
        """Return the keys of documents that have not been listed: they have changed, or are gone."""
        return self._keys[~self._listed].tolist()


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort values and drop the repeated ones, in place of `numpy.unique`, which hashes integers and takes 55 bytes for each."""
    values.sort()
    repeated = values[1:] == values[:-1]
    return np.delete(values, np.flatnonzero(repeated)) if repeated.any() else values


def _places(there: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return where each wanted value is in a sorted array, and whether it is there."""
    places = np.searchsorted(there, wanted)
    found = np.zeros(len(wanted), dtype=np.bool_)
    within = places < len(there)
    found[within] = there[places[within]] == wanted[within]
    return places, found
