"""Storage of rows in Delta tables: columns, vectors as bytes, files, and retries when another process committed first."""

from __future__ import annotations

import random
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote

import numpy as np
import polars as pl

from resources.core.errors import AbortSyncError, ServiceUnavailableError
from resources.core.tables import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable, WriterProperties

FILE_BYTES = 100 * 1024 * 1024
"""Files are merged up to this size and then left alone, so compaction never rewrites a large table."""
ROW_GROUP = 8192
"""Rows of a row group: at 384 numbers a row some 12 MB, which bounds what a filtered read holds at a time."""
_ATTEMPTS = 8
_CAUSE = re.compile(r"\n\s*(?:\x1b\[\d+m)?↳(?:\x1b\[0m)?\s*")
_ROUNDED = timedelta(milliseconds=1)
"""The log states times to the millisecond."""


def stats_columns(spec: Table) -> str:
    """Return the columns whose least and greatest values the log keeps: keys and times, never words of a document."""
    return ",".join(dict.fromkeys((*spec.key, *spec.order)))


def check(spec: Table, frame: pl.DataFrame) -> None:
    """Raise `ValueError` when columns or types are not the table's."""
    wrong = [
        f"{column} is {frame.schema.get(column, 'missing')}, not {kind}"
        for column, kind in spec.schema.items()
        if frame.schema.get(column) != kind
    ]
    wrong += [f"{column} is not a column" for column in frame.columns if column not in spec.schema]
    if wrong:
        raise ValueError(f"These rows are not for the table {spec.name}: {'; '.join(wrong)}")


def packed(frame: pl.DataFrame, spec: Table) -> Any:
    """Return an Arrow table with vectors as bytes, sharing the numbers' memory."""
    import pyarrow

    pa: Any = pyarrow  # has no types
    if spec.dimensions is None:
        return cast("Any", frame).to_arrow()
    numbers = np.ascontiguousarray(frame["vector"].to_numpy().reshape(len(frame), spec.dimensions), dtype="<f4")
    width = spec.dimensions * 4
    offsets = np.arange(0, (len(frame) + 1) * width, width, dtype=np.int64)
    vectors = pa.Array.from_buffers(pa.large_binary(), len(frame), [None, pa.py_buffer(offsets), pa.py_buffer(numbers)])
    arrow = cast("Any", frame.drop("vector")).to_arrow()
    return arrow.append_column("vector", vectors).select(spec.schema.names())


def unpacked(rows: pl.LazyFrame, spec: Table) -> pl.LazyFrame:
    if spec.dimensions is None:
        return rows
    vector = pl.col("vector").bin.reinterpret(dtype=spec.schema["vector"], endianness="little")
    return rows.with_columns(vector)


def files_of(delta: DeltaTable) -> pl.DataFrame:
    """Return path (below the table's folder) and size_bytes of each file of this version."""
    return pl.DataFrame(delta.get_add_actions(flatten=True)).select("path", "size_bytes")


class WrittenFile(NamedTuple):
    """A file of a table with rows that may have been written at some wanted times, and the first and last of these."""

    path: str
    first: datetime
    last: datetime


def written_at(delta: DeltaTable, times: Sequence[datetime]) -> list[WrittenFile]:
    """Return the files that may hold rows written at these times (ascending), by the statistics of the log."""
    if not times:
        return []
    found: list[WrittenFile] = []
    for path, least, greatest in _spans(delta).iter_rows():
        begin = 0 if least is None else bisect_left(times, least - _ROUNDED)
        end = len(times) if greatest is None else bisect_right(times, greatest + _ROUNDED)
        if begin < end:
            found.append(WrittenFile(unquote(path).rpartition("/")[2], times[begin], times[end - 1]))
    return found


def written_between(delta: DeltaTable, start: datetime, end: datetime) -> list[str]:
    """Return the files that may hold rows written from `start` to before `end`."""
    return [
        unquote(path).rpartition("/")[2]
        for path, least, greatest in _spans(delta).iter_rows()
        if (least is None or least - _ROUNDED < end) and (greatest is None or greatest + _ROUNDED >= start)
    ]


def beginnings(delta: DeltaTable) -> list[datetime]:
    """Return the distinct times of the oldest row of each file, ascending."""
    return [least - _ROUNDED for least in _spans(delta)["least"].drop_nulls().unique().sort()]


def _spans(delta: DeltaTable) -> pl.DataFrame:
    """Return path, and the times of the oldest and the newest row (null: unknown) of each file."""
    files = pl.DataFrame(delta.get_add_actions(flatten=True))
    time = pl.Datetime("us", "UTC")
    known = {"min.at", "max.at"} <= set(files.columns)
    least, greatest = (pl.col("min.at"), pl.col("max.at")) if known else (pl.lit(None), pl.lit(None))
    return files.select("path", least.cast(time).alias("least"), greatest.cast(time).alias("greatest"))


def last_file(delta: DeltaTable) -> str | None:
    """Return the path of the file that was added last."""
    files = pl.DataFrame(delta.get_add_actions(flatten=True)).sort("modification_time")
    return str(files["path"][-1]) if files.height else None


def small_files(delta: DeltaTable) -> pl.Series:
    """Return the sizes of the files that a compaction merges."""
    sizes = files_of(delta)["size_bytes"]
    return sizes.filter(sizes < FILE_BYTES // 2)


def writer_properties(spec: Table) -> WriterProperties:
    from deltalake import ColumnProperties, WriterProperties

    plain = {"vector": ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")}
    columns = plain if spec.dimensions is not None else None
    return WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP, column_properties=columns)


def retried(name: str, action: Callable[[], None]) -> None:
    """Run `action` again when another process committed first or tidied the log; it starts from the newest version each time."""
    from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except SchemaMismatchError as error:
            raise AbortSyncError(
                f"The table {name} in the lake has other columns than this version writes. Move its folder away: "
                "the next full sync rebuilds it."
            ) from error
        except CommitFailedError as error:
            if attempt == _ATTEMPTS - 1:
                raise unavailable(name, error) from error
            time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - spreads writers, no secret
        except (DeltaError, OSError) as error:
            if not is_gone(error) or attempt == _ATTEMPTS - 1:
                raise unavailable(name, error) from error
    return None


def is_gone(error: BaseException) -> bool:
    """Return True if a file of the log, or of a version that it had, was not there any more when it was read."""
    said = str(error).lower()
    return isinstance(error, FileNotFoundError) or "not found" in said or "invalid table version" in said


def is_unanswered(error: BaseException) -> bool:
    """Return True if an object store refused a request or did not answer it, which says nothing about what it holds."""
    return "error performing" in str(error).lower() and not is_gone(error)


def unavailable(name: str, error: BaseException) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"The table {name} of the lake (CONCORDANCE_LAKE_URL) can't be used now: {one_line(error)}"
    )


def one_line(error: BaseException) -> str:
    """Return what an error of Delta Lake or Polars says, with its causes, which Delta Lake writes below each other."""
    return _CAUSE.sub(": ", str(error)).splitlines()[0]
