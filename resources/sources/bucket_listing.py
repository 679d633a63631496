"""The objects of a bucket in order of their keys, on disk: stores list in different orders, and two million objects take 1 GB."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from resources.core.scratch import scratch_database, told_when_full
from resources.sources.sidecars import SUFFIX
from resources.sources.tree import folded, forms, is_sidecar

CACHE_KB = 16 * 1024
PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BucketObject(NamedTuple):
    path: str
    size: int
    version: str
    modified_at: datetime


class BucketListing:
    """Made by `open_listing`. For one thread at a time."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        # Keys as bytes: SQLite ends a text at a NUL.
        database.execute(
            "CREATE TABLE objects (path BLOB PRIMARY KEY, size INTEGER, version TEXT, at INTEGER) WITHOUT ROWID"
        )
        database.execute("CREATE TABLE sidecars (folded BLOB, path BLOB, PRIMARY KEY (folded, path)) WITHOUT ROWID")
        self._empty = True

    @property
    def empty(self) -> bool:
        return self._empty

    def add(self, objects: Iterable[BucketObject]) -> None:
        """Add a page of the store's listing. Stores' clients list `a/`, an empty object that stands for a folder, as `a`, too."""
        objects = list(objects)
        rows = [(one.path.encode(), one.size, one.version, _microseconds(one.modified_at)) for one in objects]
        self._empty = self._empty and not rows
        sidecars = [(folded(one.path).encode(), one.path.encode()) for one in objects if is_sidecar(one.path)]
        with told_when_full():
            self._database.executemany("INSERT OR IGNORE INTO sidecars VALUES (?, ?)", sidecars)
            self._database.executemany(
                "INSERT INTO objects VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET size = excluded.size, "
                "version = excluded.version, at = excluded.at WHERE objects.size = 0",
                rows,
            )

    def pages(self) -> Iterator[list[BucketObject]]:
        """Yield all objects, ordered by key."""
        rows = self._database.execute("SELECT path, size, version, at FROM objects ORDER BY path")
        while page := rows.fetchmany(PAGE):
            yield [
                BucketObject(path.decode(), size, version, _EPOCH + timedelta(microseconds=at))
                for path, size, version, at in page
            ]

    def versions(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the versions of those of these keys, at most a page, that the bucket has."""
        marks = ", ".join("?" * len(paths))
        query = f"SELECT path, version FROM objects WHERE path IN ({marks})"  # noqa: S608 - question marks
        found = self._database.execute(query, [path.encode() for path in paths])
        return {path.decode(): version for path, version in found}

    def miscased(self, sidecars: Sequence[str]) -> set[str]:
        """Return those of these sidecars, at most a page, that the bucket has in another case, and not as that of another object."""
        folds = {one: folded(one).encode() for one in sidecars}
        marks = ", ".join("?" * len(folds))
        query = f"SELECT folded, path FROM sidecars WHERE folded IN ({marks})"  # noqa: S608 - question marks
        found = [(fold, path.decode()) for fold, path in self._database.execute(query, [*folds.values()])]
        owners = {path: forms(path[: -len(SUFFIX)]) for _, path in found if path.endswith(SUFFIX)}
        there = self.versions([one for names in owners.values() for one in names])
        loose = {fold for fold, path in found if there.keys().isdisjoint(owners.get(path, ()))}
        return {one for one, fold in folds.items() if fold in loose}


@contextmanager
def open_listing() -> Generator[BucketListing]:
    """Open an empty listing; its file is gone after the block."""
    with scratch_database() as database:
        yield BucketListing(database)


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
