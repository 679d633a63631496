"""The `raw` stage: store changed bytes in the blob store, change rows in the lake, and documents and cursor in the registry.

Partitions are collected one after another; `assets.intake.batch` stores their batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from assets.intake.batch import PartitionSync, count_deleted, tombstone
from assets.intake.fetching import merged
from assets.intake.rows import append, raw_table
from resources.alerts import alert
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    LostPartitionError,
    RetryLaterError,
)
from resources.core.ports import Source
from resources.sources import capabilities, label, spec_of
from resources.sources.uploads import follow_origins
from resources.syncing import SyncRun
from sql import queries

__all__ = ["collect", "raw_table"]

COUNTED: tuple[str, ...] = ("seen", "fetched", "rewritten", "refused", "deleted", "failed")

T = TypeVar("T")

registry = queries("registry")
_json = msgspec.json.Encoder()


def collect(run: SyncRun, source: Source) -> dict[str, Any]:
    """Synchronise the lake and the registry with the source.

    Returns counts: seen, fetched, rewritten, refused, deleted, failed, held (deletions awaiting approval), calls by method.
    """
    totals = Counter(dict.fromkeys(COUNTED, 0))
    try:
        _prepare(run, source)
        _collect_all(run, source, totals)
    except AuthorizationError as error:
        _pause(run, str(error))
        raise
    finally:
        if not capabilities(run.source).user_supplied and not run.connection.broken:
            follow_origins(run.connection)
        costs = merged([run.tally, source.tally])
        calls = _json.encode(costs["calls"]).decode()
        if not run.connection.broken:
            registry.save_calls(run.connection, **{**costs, "calls": calls, "job_id": run.job_id})
    return {**totals, "held": run.held, "calls": costs["calls"]}


def _prepare(run: SyncRun, source: Source) -> None:
    """Record the attempt and save the source's directory of people first, so that revocations take effect first."""
    name = run.source.value
    registry.save_attempt(run.connection, source=name, credentials=spec_of(run.source).fingerprint(run.settings))
    people = _call(source.directory)
    if people is not None:
        registry.save_directory(run.connection, source=name, rows=_json.encode(people).decode())


def _collect_all(run: SyncRun, source: Source, totals: Counter[str]) -> None:
    name = run.source.value
    known = [row["partition"] for row in registry.partition_names(run.connection, source=name)]
    available = _call(source.partitions)
    _call(source.subscribe)
    _prune_approved(run, totals)
    lost = source.lost(known)
    for partition in lost:
        _hide_partition(run, partition, totals)
    faults = _unknown_partitions(run, available, known)
    for partition in available:
        if run.partitions is not None and partition not in run.partitions:
            continue
        try:
            _collect_partition(run, source, partition, totals)
        except LostPartitionError as error:
            run.fault(partition, "raw", str(error), skipped=True)
            _hide_partition(run, partition, totals)
        except AuthorizationError:
            raise
        except (AbortSyncError, RetryLaterError) as error:
            faults.append(str(error))
            run.fault(partition, "raw", str(error), skipped=False)
    registry.pause(run.connection, source=name, reason=None)
    if faults and len(faults) >= len(set(run.partitions or available)):
        raise AbortSyncError(" ".join(faults))
    run.error = " ".join(faults) or None  # the other partitions continue; the job still ends as failed
    for partition in source.retired(known):
        if run.partitions is None or partition in run.partitions:
            _remove_partition(run, partition, totals)


def _call(question: Callable[[], T]) -> T:
    """Return the source's answer to a call that everything depends on; a transient error ends the sync."""
    try:
        return question()
    except RetryLaterError as error:
        raise AbortSyncError(str(error)) from error


def _pause(run: SyncRun, reason: str) -> None:
    """Stop the schedule of a source that refuses our credentials, and send one alert."""
    if registry.pause(run.connection, source=run.source.value, reason=reason):
        alert(
            run.settings,
            f"{label(run.source)} is paused: {reason} Nothing is lost; it continues where it stopped.",
        )


def _unknown_partitions(run: SyncRun, available: list[str], known: list[str]) -> list[str]:
    """Return an error for each requested partition that the source does not have, so that it is not silently ignored."""
    faults: list[str] = []
    for partition in sorted(set(run.partitions or ()).difference(available, known)):
        there = ", ".join(available[:20]) or "none"
        faults.append(f"The source {run.source.value} has no partition {partition!r}. It has: {there}.")
        run.fault(partition, "raw", faults[-1], skipped=False)
    return faults


def _collect_partition(run: SyncRun, source: Source, partition: str, totals: Counter[str]) -> None:
    saved = registry.saved_cursor(run.connection, source=run.source.value, partition=partition)
    cursor = None if saved is None or run.full or run.relist else saved["cursor"]
    batches = PartitionSync(run, source, partition, totals, begun=cursor is not None)
    last = "delta"
    for batch in source.changes(partition, cursor):
        batches.take(batch)
        if batch.notice is not None:
            run.fault(partition, "raw", batch.notice, skipped=True)
        run.progress("raw")
        last = batch.listing
    if last == "page":  # part of it could not be listed
        registry.uncount(run.connection, source=run.source.value, partition=partition)


def _prune_approved(run: SyncRun, totals: Counter[str]) -> None:
    """Carry out held deletions that have been approved."""
    rows = list(registry.approved(run.connection, source=run.source.value))
    times = {row["source_id"]: row["source_time"] for row in rows if row["source_time"] is not None}
    _remove(run, {row["source_id"]: row["partition"] for row in rows}, times, totals)


def _remove_partition(run: SyncRun, partition: str, totals: Counter[str]) -> None:
    """Tombstone the documents of a partition that is no longer configured, since we may no longer read them."""
    rows = registry.unseen(run.connection, source=run.source.value, partition=partition, seen=[])
    _remove(run, {row["source_id"]: partition for row in rows}, {}, totals)
    registry.reset_partition(run.connection, source=run.source.value, partition=partition)
    registry.forget(run.connection, source=run.source.value, partition=partition)


def _remove(run: SyncRun, gone: dict[str, str], times: dict[str, Any], totals: Counter[str]) -> None:
    if not gone:
        return
    append(run, [], list(gone.items()))
    with run.connection.transaction():
        deleted = tombstone(run, list(gone), times)
        registry.raise_version(run.connection)
    run.touched.update(gone.values())
    totals["deleted"] += count_deleted(run, deleted)


def _hide_partition(run: SyncRun, partition: str, totals: Counter[str]) -> None:
    """Hide the documents of a partition that can no longer be read; it is listed from the beginning once it can."""
    source = run.source.value
    with run.connection.transaction():
        registry.reset_partition(run.connection, source=source, partition=partition)
        registry.forget(run.connection, source=source, partition=partition)
        registry.end_listing(run.connection, source=source, partition=partition)
        hidden = list(registry.hide_partition(run.connection, source=source, partition=partition))
        if hidden:
            registry.raise_version(run.connection)
            run.touched.add(partition)
    totals["deleted"] += count_deleted(run, hidden)
