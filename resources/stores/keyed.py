"""Tables of the lake by key: Postgres lists which keys a table holds and when their rows were written (`lake_keys`).

Keys are hashes, so the rows of any few lie in any file, and no order or partition of the files narrows a look-up; times do, because the
files of a table follow each other. A look-up of keys that the table does not have reads no file, and one of keys written recently reads
the last files. A key is listed before its row is written, so a process that dies between leaves one too many and never one too few.

A table that was written by an earlier version is scanned as a whole until `complete` has listed its keys, which the next sync begins with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from resources.core.ports import Vectors
from resources.core.tables import table
from resources.stores.lake import Lake
from sql.sync import LakeKeys

if TYPE_CHECKING:
    from resources.stores.postgres import Connection
    from sql.rows import LakeTable

BATCH_KEYS = 10_000
"""Keys of one statement."""


class KeyedTables:
    """The tables of a lake whose rows are read by key: all but the change rows. One instance serves one thread."""

    def __init__(self, connection: Connection, lake: Lake) -> None:
        self._statements = LakeKeys(connection)
        self._lake = lake
        self._complete: dict[str, LakeTable] = {}

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """List the keys of rows, then add the rows."""
        spec = table(name)
        if frame.is_empty():
            return
        self._add(self._table(name), frame.select(spec.key[0], "at").unique())
        self._lake.append(name, frame)

    def append_vectors(
        self, name: str, model: str, hashes: Sequence[str], vectors: Vectors, tokens: Sequence[int], at: datetime
    ) -> None:
        """The same of vectors, one row each."""
        if not hashes:
            return
        self._add(self._table(name), pl.DataFrame({"text_hash": hashes}).unique().with_columns(pl.lit(at).alias("at")))
        self._lake.append_vectors(name, model, hashes, vectors, tokens, at)

    def rows(self, name: str, keys: Iterable[str]) -> pl.LazyFrame:
        """Return all rows with these values of the table's first key column, lazily."""
        wanted = list(set(keys))
        among = pl.col(table(name).key[0]).is_in(pl.Series(wanted, dtype=pl.String).implode())
        return self._lake.scan(name, self._times(name, wanted)).filter(among)

    def present(self, name: str, keys: pl.Series) -> pl.Series:
        """Return those of these values of the table's first key column that it has."""
        return self._lake.present(name, keys, self._times(name, keys.unique().to_list()))

    def vectors(self, name: str, hashes: Sequence[str]) -> tuple[NDArray[np.bool_], Vectors]:
        """Return which hashes have a vector and their matrix; see `Lake.vectors`."""
        return self._lake.vectors(name, hashes, self._times(name, list(set(hashes))))

    def complete(self, name: str, progress: Callable[[], None] = lambda: None) -> None:
        """List the keys of a table that an earlier version wrote; continues where an earlier call was interrupted.

        Goes through the rows by time, in the spans between the files' oldest rows.
        """
        found = self._table(name)
        if found.complete:
            return
        key = table(name).key[0]
        begin = datetime.min.replace(tzinfo=UTC) if found.after is None else found.after
        marks = [one for one in self._lake.beginnings(name) if one > begin]
        for start, end in pairwise((begin, *marks, datetime.max.replace(tzinfo=UTC))):
            rows = self._lake.period(name, start, end)
            self._add(found, rows.select(key, "at").unique().collect(engine="streaming"))
            self._statements.listed(number=found.number, after=end)
            progress()
        self._statements.listed(number=found.number, after=None)

    def forget(self, name: str, keys: Sequence[str]) -> None:
        """Remove keys from the list, before their rows are removed from the lake."""
        found = self._table(name)
        for start in range(0, len(keys), BATCH_KEYS):
            part = keys[start : start + BATCH_KEYS]
            self._statements.forget(number=found.number, keys=list(map(_digest, part)))

    def forget_times(self, name: str, rows: pl.DataFrame) -> None:
        """Remove keys with one time each (two columns), of rows that share it with no other row of their key."""
        found = self._table(name)
        for part in rows.iter_slices(BATCH_KEYS):
            keys, times = part.get_columns()
            self._statements.forget_times(number=found.number, keys=list(map(_digest, keys)), times=times.to_list())

    def clear(self, name: str) -> None:
        """Remove every row of a table; see `Lake.clear`."""
        self._statements.forget_all(number=self._table(name).number)
        self._lake.clear(name)

    def _times(self, name: str, keys: Sequence[str]) -> list[datetime] | None:
        """Return when rows of these keys may have been written, ascending; None if that is not known."""
        found = self._table(name)
        if not found.complete:
            return None
        times: set[datetime] = set()
        for start in range(0, len(keys), BATCH_KEYS):
            part = list(map(_digest, keys[start : start + BATCH_KEYS]))
            times.update(self._statements.times(number=found.number, keys=part))
        return sorted(times)

    def _add(self, found: LakeTable, rows: pl.DataFrame) -> None:
        for part in rows.iter_slices(BATCH_KEYS):
            keys, times = part.get_columns()
            self._statements.add(number=found.number, keys=list(map(_digest, keys)), times=times.to_list())

    def _table(self, name: str) -> LakeTable:
        if name in self._complete:
            return self._complete[name]
        found = self._statements.table_of(name=name)
        if found is None:
            self._statements.add_table(name=name, complete=not self._lake.files(name))
            found = self._statements.table_of(name=name)
        assert found is not None  # noqa: S101 - for the type checker: it was added
        if found.complete:
            self._complete[name] = found
        return found


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
