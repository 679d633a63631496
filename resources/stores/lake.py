"""The lake: append-only Delta tables in a folder or an object store.

Nothing is ever changed in place: a change is a new row, and the newest row of a key is its state (`latest`). A file
that was written by a process that died before its commit belongs to no version and is never read. On disk a vector is
the bytes of its little-endian float32 numbers: Delta has no arrays of fixed length, and lists take twice the time
(see `tables.py` for columns). Credentials of object stores come from the environment (AWS_*, AZURE_*, GOOGLE_*).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import numpy as np
import polars as pl
import structlog
from numpy.typing import NDArray

from resources.core.errors import AbortSyncError
from resources.core.ports import Vectors
from resources.core.tables import Table, is_table, table
from resources.stores.blobs import stored_folders
from resources.stores.conditional import check_conditional_writes
from resources.stores.delta import (
    FILE_BYTES,
    ROW_GROUP,
    beginnings,
    check,
    files_of,
    is_gone,
    is_unanswered,
    last_file,
    one_line,
    packed,
    retried,
    small_files,
    stats_columns,
    unavailable,
    unpacked,
    writer_properties,
    written_at,
    written_between,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMPACT_PAST = 40
"""Files of a table before `compact` rewrites it: reading keys over 40 appended files takes 0.03 s for 200k rows."""
RETENTION_HOURS = 24
"""Files that compaction replaced are kept this long, for readers that began before; no sync runs for a day."""
LOG_RETENTION_DAYS = 7
CHECKPOINT_COMMITS = 20
"""Commits between two checkpoints: opening a table reads the log from the last one on, a request each in an object
store.
"""
PAGE_ROWS = 2 * ROW_GROUP
"""Rows of a frame of `pages`; of a compacted table, row groups that no other page reads."""
log = structlog.get_logger("lake")
_OPENINGS = 3
"""Attempts to open a table whose log changes meanwhile; between two checkpoints are `CHECKPOINT_COMMITS` commits."""


class Lake:
    """All tables below one URL. Safe with several threads and processes."""

    def __init__(self, url: str, confirm: Callable[[], None] = lambda: None) -> None:
        """`confirm` is called before each attempt to write rows, and raises if this process may no longer write."""
        parts = urlsplit(url)
        self._confirm = confirm
        self._folder = Path(unquote(parts.path)) / "tables" if parts.scheme == "file" else None
        self._url = url.rstrip("/")
        self._checked = False
        """The object store is known to honour conditional writes."""
        self._kept: dict[str, DeltaTable] = {}
        """Tables that no thread uses at the moment; see `_current`."""
        self.appended: set[str] = set()
        """Tables to which this object has added rows."""

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """Add rows, all or none. Raises `ValueError` when columns or types are not the table's; an empty frame does
        nothing.
        """
        spec = table(name)
        check(spec, frame)
        if frame.is_empty():
            return
        if self._folder is None and not self._checked:
            check_conditional_writes(self._url)
            self._checked = True
        from deltalake import write_deltalake

        data = packed(frame.select(spec.schema.names()), spec)
        properties = writer_properties(spec)

        def write() -> None:
            self._confirm()
            with self._current(spec) as found:
                delta = self._create(spec) if found is None else found
                write_deltalake(delta, data, mode="append", writer_properties=properties)

        retried(name, write)
        self.appended.add(name)

    def append_vectors(
        self, name: str, model: str, hashes: Sequence[str], vectors: Vectors, tokens: Sequence[int], at: datetime
    ) -> None:
        """Add one row a vector, straight from the matrix. `at` is aware."""
        count = len(hashes)
        frame = pl.DataFrame(
            {
                "model": pl.repeat(model, count, dtype=pl.String, eager=True),
                "text_hash": pl.Series(hashes, dtype=pl.String),
                "vector": pl.Series(
                    np.ascontiguousarray(vectors, dtype=np.float32), dtype=table(name).schema["vector"]
                ),
                "tokens": pl.Series(tokens, dtype=pl.Int32),
                "at": pl.repeat(at, count, dtype=pl.Datetime("us", "UTC"), eager=True),
            }
        )
        self.append(name, frame)

    def scan(self, name: str, times: Sequence[datetime] | None = None) -> pl.LazyFrame:
        """Return all rows of all versions, lazily; a table that was never written is empty, with its columns.

        With `times` (ascending), return those written at any of them, and possibly others: only the files and row groups that may hold
        such rows are read.
        """
        spec = table(name)
        if self._folder is None:  # scan_delta keeps the table
            stored = self.open(spec.name)
            if stored is None or not files_of(stored).height or times == []:
                return pl.LazyFrame(schema=spec.schema)
            rows = unpacked(pl.scan_delta(stored), spec)
            return rows if times is None else rows.filter(_written(times[0], times[-1]))
        with self._current(spec) as delta:
            if delta is None:
                return pl.LazyFrame(schema=spec.schema)
            if times is not None:
                parts = [
                    self._read(spec, [part.path]).filter(_written(part.first, part.last))
                    for part in written_at(delta, times)
                ]
                return pl.concat(parts) if parts else pl.LazyFrame(schema=spec.schema)
            files = [uri.rpartition("/")[2] for uri in delta.file_uris()]
        return self._read(spec, files) if files else pl.LazyFrame(schema=spec.schema)

    def _read(self, spec: Table, files: Sequence[str]) -> pl.LazyFrame:
        """Return the rows of local files. scan_delta (polars 2.1) does not find them below a folder whose name holds a space."""
        assert self._folder is not None  # noqa: S101 - for the type checker
        return unpacked(pl.scan_parquet([self._folder / spec.name / file for file in files], glob=False), spec)

    def pages(self, name: str, *columns: str | pl.Expr) -> Iterator[pl.DataFrame]:
        """Yield these columns of all rows of all versions in frames of at most `PAGE_ROWS` rows.

        Each is read when it is asked for, so that memory does not grow with the table: `collect_batches` reads ahead.
        """
        rows = self.scan(name).select(*columns)
        start = 0
        while not (page := rows.slice(start, PAGE_ROWS).collect(engine="streaming")).is_empty():
            yield page
            start += page.height

    def period(self, name: str, start: datetime, end: datetime) -> pl.LazyFrame:
        """Return the rows written from `start` to before `end`, lazily."""
        spec = table(name)
        within = _written(start, end, closed="left")
        if self._folder is None:
            return self.scan(name).filter(within)
        with self._current(spec) as delta:
            files = [] if delta is None else written_between(delta, start, end)
        return self._read(spec, files).filter(within) if files else pl.LazyFrame(schema=spec.schema)

    def beginnings(self, name: str) -> list[datetime]:
        """Return the distinct times of the oldest rows of the table's files, ascending; a file without statistics has none."""
        delta = self.open(name)
        return [] if delta is None else beginnings(delta)

    def latest(self, name: str) -> pl.LazyFrame:
        """Return the newest row of each key, in no order."""
        spec = table(name)
        return self.scan(name).sort(spec.order).unique(subset=spec.key, keep="last")

    def present(self, name: str, keys: pl.Series, times: Sequence[datetime] | None = None) -> pl.Series:
        """Return those of these values of the table's first key column that it has, without reading other columns. `times`: see `scan`."""
        column = table(name).key[0]
        among = pl.col(column).is_in(keys.unique().implode())
        rows = self.scan(name, times).filter(among).select(column).unique()
        return rows.collect(engine="streaming")[column]

    def newest(self, name: str, most: int) -> pl.DataFrame:
        """Return up to `most` rows of the file that was added last; in an object store, of any file."""
        spec = table(name)
        if self._folder is None:
            return self.scan(name).head(most).collect()
        with self._current(spec) as delta:
            added = None if delta is None else last_file(delta)
        if added is None:
            return pl.DataFrame(schema=spec.schema)
        file = unquote(added).rpartition("/")[2]
        return unpacked(pl.scan_parquet(self._folder / spec.name / file, glob=False), spec).head(most).collect()

    def vectors(
        self, name: str, hashes: Sequence[str], times: Sequence[datetime] | None = None
    ) -> tuple[NDArray[np.bool_], Vectors]:
        """Return which hashes have a vector (n,) and a matrix (n, dimensions), rows of missing ones zero, both in
        order. `times`: see `scan`.
        """
        spec = table(name)
        if spec.dimensions is None:
            raise ValueError(f"{name} holds no vectors")
        found = np.zeros(len(hashes), dtype=np.bool_)
        matrix = np.zeros((len(hashes), spec.dimensions), dtype=np.float32)
        wanted = pl.DataFrame({"text_hash": pl.Series(list(hashes), dtype=pl.String)}).with_row_index("row")
        among = pl.col("text_hash").is_in(wanted["text_hash"].unique().implode())
        # one model embeds one text one way: which of several rows is taken makes no difference
        found_rows = self.scan(name, times).filter(among).select("text_hash", "vector").unique("text_hash")
        rows = found_rows.collect(engine="streaming")
        held = wanted.join(rows, on="text_hash", how="inner")
        index = held["row"].to_numpy()
        found[index] = True
        matrix[index] = held["vector"].to_numpy()
        return found, matrix

    def fragmented(self, name: str, past: int = COMPACT_PAST) -> bool:
        """Return True if the table has more than `past` small files, and the disk has room for merging them.

        The merged files stay for `RETENTION_HOURS`, and others need what is free, such as Postgres.
        """
        with self._current(table(name)) as delta:
            sizes = pl.Series(dtype=pl.Int64) if delta is None else small_files(delta)
        if len(sizes) <= past or self._folder is None:
            return len(sizes) > past
        needed, free = 2 * int(sizes.sum()), shutil.disk_usage(self._folder).free
        if free < needed:
            log.warning("compaction_without_room", table=name, needed_bytes=needed, free_bytes=free)
        return free >= needed

    def compact(self, name: str, past: int = COMPACT_PAST, confirm: Callable[[], None] = lambda: None) -> bool:
        """Merge small files if there are more than `past`; return whether it did. Jobs call it by `resources.stores.compaction`.

        Appends may continue meanwhile, and readers keep the files that they began with for `RETENTION_HOURS`. `confirm` raises if another
        process may be compacting: Delta does not notice when two rewrite the same files, and has their rows twice then. What it notices is
        a change of a table's properties. So each compaction begins with one, and another that was paused meanwhile fails. No other thread
        runs during that call: deltalake keeps the interpreter.
        Order is kept: sorting by key was measured and made look-ups of 3, 1,000 or 50,000 of 200,000 vectors no faster.
        """
        spec = table(name)
        done = False

        def rewrite() -> None:
            nonlocal done
            self._confirm()
            confirm()
            found = self.open(spec.name)
            if found is None or len(small_files(found)) <= past:
                return
            found.alter.set_table_properties({"delta.dataSkippingStatsColumns": stats_columns(spec)})
            fresh = self.open(spec.name)
            confirm()
            if fresh is not None:
                fresh.optimize.compact(target_size=FILE_BYTES, writer_properties=writer_properties(spec))
                fresh.create_checkpoint()
                # full: also what processes left that died before their commit
                fresh.vacuum(retention_hours=RETENTION_HOURS, dry_run=False, full=True)
                done = True

        retried(name, rewrite)
        return done

    def clear(self, name: str) -> None:
        """Remove every row of a table and its files immediately, for data that is no longer read."""
        spec = table(name)

        def empty() -> None:
            delta = self.open(spec.name)
            self._confirm()
            if delta is not None:
                delta.delete()
                delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)

        retried(name, empty)

    def names(self) -> list[str]:
        """Return the names of all tables that there are, sorted."""
        if self._folder is not None:
            found = [entry.name for entry in self._folder.iterdir()] if self._folder.is_dir() else []
        else:
            found = stored_folders(self._url, "tables")
        return sorted(name for name in found if is_table(name))

    def lacking(self, name: str) -> list[str] | None:
        """Return the columns that the stored table lacks, None when nothing was ever written to it."""
        delta = self.open(name)
        if delta is None:
            return None
        there = {field.name for field in delta.schema().fields}
        return [column for column in table(name).schema if column not in there]

    def files(self, name: str) -> int:
        """Return how many files a reader of the table opens."""
        delta = self.open(name)
        return 0 if delta is None else files_of(delta).height

    def _location(self, spec: Table) -> str:
        return str(self._folder / spec.name) if self._folder is not None else f"{self._url}/tables/{spec.name}"

    def open(self, name: str) -> DeltaTable | None:
        """Return the table as it is now, None when nothing was ever written to it. Raises `ServiceUnavailableError`."""
        spec = table(name)
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        for attempt in range(_OPENINGS):
            try:
                return DeltaTable(self._location(spec))
            except TableNotFoundError:
                return None
            except OSError as error:
                raise unavailable(spec.name, error) from error
            except DeltaError as error:
                # After a checkpoint, its writer removes old log entries, which this process may have listed just before.
                if is_gone(error) and attempt < _OPENINGS - 1:
                    continue
                if is_unanswered(error):
                    raise unavailable(spec.name, error) from error
                raise AbortSyncError(
                    f"The table {spec.name} of the lake is damaged ({one_line(error)}). Restore it from a backup; "
                    "`concordance doctor` names every damaged table."
                ) from error
        return None

    @contextmanager
    def _current(self, spec: Table) -> Generator[DeltaTable | None]:
        """Yield what `open` returns, for the block alone; in it, no other thread has this table.

        Tables are kept between blocks, since reading what was added to a log takes a tenth of the time of reading all of it.
        """
        from deltalake.exceptions import DeltaError

        delta = self._kept.pop(spec.name, None)
        if delta is not None:
            try:
                delta.update_incremental()
            except (DeltaError, OSError):
                delta = None  # `open` says what is wrong
        if delta is None:
            delta = self.open(spec.name)
        yield delta
        if delta is not None:
            self._kept[spec.name] = delta

    def _create(self, spec: Table) -> DeltaTable:
        from deltalake import DeltaTable, Schema

        location = self._location(spec)
        if self._folder is not None:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(location).mkdir(parents=True, exist_ok=True)
        empty = packed(pl.DataFrame(schema=spec.schema), spec)
        return DeltaTable.create(
            location,
            Schema.from_arrow(empty.schema),
            mode="ignore",
            configuration={
                "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
                "delta.deletedFileRetentionDuration": f"interval {RETENTION_HOURS} hours",
                "delta.logRetentionDuration": f"interval {LOG_RETENTION_DAYS} days",
                "delta.dataSkippingStatsColumns": stats_columns(spec),
            },
        )


def _written(first: datetime, last: datetime, *, closed: Literal["both", "left"] = "both") -> pl.Expr:
    """Return whether a row was written in a span. Times from Postgres have its time zone, with which polars does not compare."""
    return pl.col("at").is_between(first.astimezone(UTC), last.astimezone(UTC), closed=closed)
