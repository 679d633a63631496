"""The `raw` stage: store changed bytes in the blob store, change rows in the lake, and documents and cursor in the registry.

The order of writes makes a crash safe at any line: bytes, then lake rows, then registry rows, memory and cursor in one transaction.
An interrupted batch is repeated, and the latest row wins.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeGuard

import msgspec

from assets.intake.brake import Brake
from assets.intake.fetching import fetch_all, merged
from assets.intake.rows import append, fetched_row, item_of, raw_table, refusal_row, rewritten_row
from assets.stages.diff import GONE, Known, diff
from assets.stages.grant import effective_permissions
from resources.alerts import alert
from resources.core.domain import Batch, State
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

registry = queries("registry")
events = queries("events")
_json = msgspec.json.Encoder()


def collect(run: SyncRun, source: Source) -> dict[str, Any]:
    """Synchronise the lake and the registry with the source.

    Returns counts: seen, fetched, rewritten, refused, deleted, failed, held (deletions awaiting approval), calls by method.
    """
    totals: dict[str, Any] = dict.fromkeys(COUNTED, 0)
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


def _collect_all(run: SyncRun, source: Source, totals: dict[str, Any]) -> None:
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


def _call(question: Any) -> Any:
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


def _collect_partition(run: SyncRun, source: Source, partition: str, totals: dict[str, Any]) -> None:
    saved = registry.saved_cursor(run.connection, source=run.source.value, partition=partition)
    cursor = None if saved is None or run.full or run.relist else saved["cursor"]
    listing = _Listing(run, partition, begun=cursor is not None)
    brake = Brake(run, partition)
    last = "delta"
    for batch in source.changes(partition, cursor):
        gone = listing.take(batch)
        _store_batch(run, source, batch, brake, listing, gone, totals)
        if batch.notice is not None:
            run.fault(partition, "raw", batch.notice, skipped=True)
        run.progress("raw")
        last = batch.listing
    if last == "page":  # part of it could not be listed
        registry.uncount(run.connection, source=run.source.value, partition=partition)


class _Listing:
    """Documents that a listing has shown so far, including those shown to an earlier process that was killed."""

    def __init__(self, run: SyncRun, partition: str, *, begun: bool) -> None:
        self._run = run
        self._where = {"source": run.source.value, "partition": partition}
        self._shown: list[str] = []
        self._resumable = begun
        if not begun:
            self.end()

    def take(self, batch: Batch) -> list[str]:
        """Record a batch and return the documents that are gone because a complete listing does not contain them."""
        if batch.listing == "delta":
            return []
        if self._resumable and batch.cursor is None:
            self._shown = []  # the source starts over because it could not resume
            self.end()
        self._resumable = self._resumable or batch.cursor is not None
        self._shown += [item.source_id for item in batch.seen if item.partition == batch.partition]
        self._shown += [refusal.source_id for refusal in batch.refused]
        if batch.listing == "page":
            return []
        return [row["source_id"] for row in registry.unseen(self._run.connection, **self._where, seen=self._shown)]

    def save(self, batch: Batch) -> int | None:
        """Save the documents of a page, in the transaction of its cursor; after the last page return the number of documents."""
        connection = self._run.connection
        if batch.listing == "page" and batch.cursor is not None:
            registry.list_documents(connection, **self._where, source_ids=self._shown)
            self._shown = []
        if batch.listing != "complete":
            return None
        total = registry.listed_total(connection, **self._where, source_ids=self._shown)["documents"]
        self.end()
        self._shown = []
        return int(total)

    def end(self) -> None:
        registry.end_listing(self._run.connection, **self._where)


def _store_batch(
    run: SyncRun,
    source: Source,
    batch: Batch,
    brake: Brake,
    listing: _Listing,
    unseen: list[str],
    totals: dict[str, Any],
) -> None:
    """Make one batch durable: bytes, lake rows, then registry, memory and cursor together."""
    name = run.source.value
    ids = [item.source_id for item in batch.seen] + [refusal.source_id for refusal in batch.refused]
    known = _known(run, ids + batch.deleted)
    work = diff(batch.seen, known, full=run.full)
    fetched = list(fetch_all(run, source, work.fetch))
    rows = [fetched_row(run, result, known.get(result.item.source_id)) for result in fetched]
    rows += [rewritten_row(run, item, known[item.source_id]) for item in work.rewrite]
    rows += _regranted(run, batch, ids)
    refused = [refusal_row(run, refusal, known.get(refusal.source_id)) for refusal in batch.refused]
    changed_refusals = [row for row in refused if row is not None]
    stored = [row for row in rows if row["content_hash"] is not None]
    emptied = [
        (row["source_id"], row["partition"])
        for row in rows + changed_refusals
        if row["content_hash"] is None and _had_content(known.get(row["source_id"]))
    ]
    # an upload deleted by its owner is already deleted in the registry, but not yet in the lake
    emptied += [(before.source_id, before.partition) for before in map(known.get, batch.deleted) if _hidden(before)]
    # a killed sync may have written a document to the lake but not to the registry
    emptied += [(source_id, batch.partition) for source_id in batch.deleted if source_id not in known]
    vanished = _vanished(run, batch, ids, unseen)
    moves = _moves(batch, known, vanished)
    deleted = brake.split_allowed_and_held(list(vanished), batch.deleted_at)
    append(run, stored, emptied + [(source_id, vanished[source_id]) for source_id in deleted])
    with run.connection.transaction():
        if rows or changed_refusals:
            payload = _json.encode(rows + changed_refusals).decode()
            registry.save_documents(run.connection, source=name, rows=payload)
        gone = _tombstone(run, deleted, {key: at for key, at in batch.deleted_at.items() if key in vanished})
        if ids:
            registry.release(run.connection, source=name, source_ids=ids)
            if source.costly:
                registry.clear_fetched(run.connection, source=name, source_ids=ids)
        if batch.memory:
            registry.remember(
                run.connection, source=name, partition=batch.partition, entries=_json.encode(batch.memory).decode()
            )
        if capabilities(run.source).events:  # some messages may have been read before an event that has arrived since
            list(events.hide(run.connection, partition=batch.partition))
        count = listing.save(batch)
        registry.save_cursor(
            run.connection,
            source=name,
            partition=batch.partition,
            cursor=batch.cursor,
            title=batch.title,
            checked=batch.listing != "page",
            by=moves.pop(batch.partition, 0),
            count=count,
        )
        for partition, by in moves.items():
            registry.add_to_count(run.connection, source=name, partition=partition, by=by)
        if rows or changed_refusals or gone:
            registry.raise_version(run.connection)
            run.touched.add(batch.partition)
    run.counts.deleted += _never_indexed(gone)
    totals["seen"] += len(batch.seen)
    totals["fetched"] += sum(result.content_hash is not None for result in fetched)
    totals["failed"] += sum(result.content_hash is None for result in fetched)
    totals["rewritten"] += len(rows) - len(fetched)
    totals["refused"] += len(batch.refused)
    totals["deleted"] += len(gone)


def _regranted(run: SyncRun, batch: Batch, seen: list[str]) -> list[dict[str, Any]]:
    """Return rows for the partition's other documents if the batch sets permissions for the whole partition."""
    if batch.permissions is None:
        return []
    others = registry.otherwise_permitted(
        run.connection,
        source=run.source.value,
        partition=batch.partition,
        permissions=sorted(set(batch.permissions)),
        seen=seen,
    )
    rows: list[dict[str, Any]] = []
    for row in others:
        item, before = item_of(row, batch.permissions), Known(**{name: row[name] for name in Known.__struct_fields__})
        new = rewritten_row(run, item, before)
        if new["payload_hash"] != before.payload_hash or tuple(effective_permissions(item)) != batch.permissions:
            rows.append(new)
    return rows


def _vanished(run: SyncRun, batch: Batch, shown: list[str], unseen: list[str]) -> dict[str, str]:
    """Return registered documents that are gone by tombstone, by folder or by absence, with the partition of each."""
    ids = set(batch.deleted) | set(unseen)
    if batch.emptied:
        below = registry.below(run.connection, source=run.source.value, collections=batch.emptied)
        ids.update(row["source_id"] for row in below)
    ids.difference_update(shown)
    if not ids:
        return {}
    there = registry.present(run.connection, source=run.source.value, source_ids=sorted(ids))
    return {row["source_id"]: row["partition"] for row in there}


def _moves(batch: Batch, known: dict[str, Known], vanished: dict[str, str]) -> Counter[str]:
    """Return the change in the number of documents of each partition, according to a delta."""
    moves: Counter[str] = Counter()
    if batch.listing != "delta":
        return moves
    moves.subtract(vanished.values())
    for shown in (*batch.seen, *batch.refused):
        before = known.get(shown.source_id)
        moves[shown.partition] += 1
        if before is not None and before.state not in GONE:
            moves[before.partition] -= 1
    return moves


def _tombstone(run: SyncRun, deleted: list[str], times: dict[str, Any]) -> list[dict[str, Any]]:
    if not deleted:
        return []
    source = run.source.value
    registry.release(run.connection, source=source, source_ids=deleted)
    return list(
        registry.tombstone(run.connection, source=source, source_ids=deleted, times=_json.encode(times).decode())
    )


def _never_indexed(gone: list[dict[str, Any]]) -> int:
    """Count deletions of documents that were never indexed; the others are counted when they leave the index."""
    return sum(not row["indexed"] for row in gone)


def _had_content(before: Known | None) -> bool:
    return before is not None and before.content_hash is not None and before.state not in GONE


def _hidden(before: Known | None) -> TypeGuard[Known]:
    return before is not None and before.state == State.DELETED and before.content_hash is not None


def _prune_approved(run: SyncRun, totals: dict[str, Any]) -> None:
    """Carry out held deletions that have been approved."""
    rows = list(registry.approved(run.connection, source=run.source.value))
    times = {row["source_id"]: row["source_time"] for row in rows if row["source_time"] is not None}
    _remove(run, {row["source_id"]: row["partition"] for row in rows}, times, totals)


def _remove_partition(run: SyncRun, partition: str, totals: dict[str, Any]) -> None:
    """Tombstone the documents of a partition that is no longer configured, since we may no longer read them."""
    rows = registry.unseen(run.connection, source=run.source.value, partition=partition, seen=[])
    _remove(run, {row["source_id"]: partition for row in rows}, {}, totals)
    registry.lose_partition(run.connection, source=run.source.value, partition=partition)
    registry.forget(run.connection, source=run.source.value, partition=partition)


def _remove(run: SyncRun, gone: dict[str, str], times: dict[str, Any], totals: dict[str, Any]) -> None:
    if not gone:
        return
    append(run, [], list(gone.items()))
    with run.connection.transaction():
        deleted = _tombstone(run, list(gone), times)
        registry.raise_version(run.connection)
    run.touched.update(gone.values())
    run.counts.deleted += _never_indexed(deleted)
    totals["deleted"] += len(deleted)


def _hide_partition(run: SyncRun, partition: str, totals: dict[str, Any]) -> None:
    """Hide the documents of a partition that can no longer be read; it is listed from the beginning once it can."""
    source = run.source.value
    with run.connection.transaction():
        registry.lose_partition(run.connection, source=source, partition=partition)
        registry.forget(run.connection, source=source, partition=partition)
        registry.end_listing(run.connection, source=source, partition=partition)
        hidden = list(registry.lose(run.connection, source=source, partition=partition))
        if hidden:
            registry.raise_version(run.connection)
            run.touched.add(partition)
    run.counts.deleted += _never_indexed(hidden)
    totals["deleted"] += len(hidden)


def _known(run: SyncRun, source_ids: list[str]) -> dict[str, Known]:
    rows = registry.known(run.connection, source=run.source.value, source_ids=source_ids)
    fields = Known.__struct_fields__
    return {row["source_id"]: Known(**{name: row[name] for name in fields}) for row in rows}
