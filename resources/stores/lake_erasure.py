"""Erase rows of lake tables permanently: first the rows, then the files and log entries that contained them.

A Delta table never changes in place: deleting rows writes new files and keeps the old ones, and the log keeps the least and greatest
value of columns of every file it ever had. While they wait to be removed, the table keeps no log, by which the next erasure knows that
one was interrupted. The caller makes sure that the tables are not read or written meanwhile: `confirm` is called
before each change and raises if that no longer holds.
"""

from collections.abc import Callable, Sequence

import polars as pl

from resources.core.tables import table
from resources.stores.delta import retried, stats_columns, writer_properties
from resources.stores.lake import LOG_RETENTION_DAYS, Lake

_LOG_KEPT = "delta.logRetentionDuration"
_NO_LOG = {_LOG_KEPT: "interval 0 days"}


def drop_rows(
    lake: Lake, name: str, column: str, values: Sequence[str] | Sequence[int], confirm: Callable[[], None]
) -> int:
    """Delete the rows of a table whose `column` has one of these values; return how many. Follow it with `scrub`."""
    if not values or lake.open(name) is None:
        return 0
    found = lake.scan(name).filter(_among(column, values)).select(pl.len()).collect().item()
    if found:
        _delete(lake, name, pl.DataFrame({column: list(dict.fromkeys(values))}), confirm)
    return int(found)


def drop_matching(lake: Lake, name: str, rows: pl.DataFrame, confirm: Callable[[], None]) -> int:
    """Delete the rows of a table that have the values of one of these rows in all of their columns; likewise."""
    if rows.is_empty() or lake.open(name) is None:
        return 0
    matching = lake.scan(name).join(rows.lazy(), on=rows.columns, how="semi")
    found = matching.select(pl.len()).collect(engine="streaming").item()
    if found:
        _delete(lake, name, rows.unique(), confirm)
    return int(found)


def _delete(lake: Lake, name: str, chosen: pl.DataFrame, confirm: Callable[[], None]) -> None:
    spec = table(name)

    def begin() -> None:
        fresh = lake.open(name)
        confirm()
        if fresh is not None:
            fresh.alter.set_table_properties(_NO_LOG)

    def write() -> None:
        fresh = lake.open(name)
        confirm()
        if fresh is None:
            return
        fresh.merge(
            chosen,
            " AND ".join(f"t.{column} = s.{column}" for column in chosen.columns),
            source_alias="s",
            target_alias="t",
            writer_properties=writer_properties(spec),
        ).when_matched_delete().execute()

    retried(name, begin)
    retried(name, write)


def scrub(lake: Lake, name: str, confirm: Callable[[], None]) -> None:
    """Remove every file that the table's present version does not need, and the log before it.

    A process that was paused after it had written a file, and before its commit, must not commit without the file: so the change of
    properties comes first, with which the commit conflicts.
    """
    spec = table(name)

    def sweep() -> None:
        delta = lake.open(name)
        if delta is None:
            return
        confirm()
        delta.alter.set_table_properties(_NO_LOG | {"delta.dataSkippingStatsColumns": stats_columns(spec)})
        delta = lake.open(name)
        confirm()
        if delta is None:
            return
        delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        delta.create_checkpoint()
        delta.cleanup_metadata()
        delta.alter.set_table_properties({_LOG_KEPT: f"interval {LOG_RETENTION_DAYS} days"})

    retried(name, sweep)


def is_scrubbed(lake: Lake, name: str) -> bool:
    """Return False if an erasure deleted rows and did not get to the end of `scrub`."""
    delta = lake.open(name)
    return delta is None or delta.metadata().configuration.get(_LOG_KEPT) != _NO_LOG[_LOG_KEPT]


def left(lake: Lake, name: str, column: str, values: Sequence[str]) -> int:
    """Return how many rows still have one of these values."""
    if not values or lake.open(name) is None:
        return 0
    return int(lake.scan(name).filter(_among(column, values)).select(pl.len()).collect().item())


def _among(column: str, values: Sequence[str] | Sequence[int]) -> pl.Expr:
    return pl.col(column).is_in(pl.Series(list(values)).implode())
