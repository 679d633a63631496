"""raw: what the source says has changed enters; bytes in the blob store, change rows in the lake, the ledger and cursor leave.

Order of writes makes every line safe to die at: bytes, then lake rows, then registry rows and cursor in one transaction. A batch
that was cut short is done again, and latest wins.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl

from assets.stages.diff import MAX_ATTEMPTS, Known, diff
from assets.stages.grant import effective_permissions
from assets.stages.identify import content_key, payload_hash
from resources.domain import Batch, Item, Refusal, SourceName, State, document_id
from resources.errors import AbortSyncError, DocumentError, RetryLaterError, SkipDocumentError
from resources.ports import Source
from resources.syncing import SyncRun
from resources.tables import table
from sql import queries

FETCHERS = 4
COUNTED: tuple[str, ...] = ("seen", "fetched", "rewritten", "refused", "deleted", "failed")
RETRY_SECONDS = (1.0, 5.0, 30.0)
"""Waits before trying a passing fault again, unless the service names one (requirement of every source)."""

registry = queries("registry")
_json = msgspec.json.Encoder()


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """One document's bytes in the blob store, or why not."""

    item: Item
    content_hash: str | None = None
    size: int | None = None
    error: str | None = None
    skipped: bool = False


def raw_table(source: SourceName) -> str:
    """Return the lake table that holds a source's change rows."""
    return f"raw_{source.value}"


def collect(run: SyncRun, source: Source) -> dict[str, int]:
    """Bring the lake and the ledger up to the source. Returns counts: seen, fetched, rewritten, refused, deleted, failed."""
    totals: dict[str, int] = dict.fromkeys(COUNTED, 0)
    known_partitions = [row["partition"] for row in registry.partition_names(run.connection, source=run.source.value)]
    available = source.partitions()
    faults = _unknown_partitions(run, available, known_partitions)
    chosen = [partition for partition in available if run.partitions is None or partition in run.partitions]
    for partition in chosen:
        try:
            _collect_partition(run, source, partition, totals)
        except AbortSyncError as error:
            faults.append(str(error))
            run.fault(partition, "raw", str(error), skipped=False)
    if faults and len(faults) >= len(set(run.partitions or available)):
        raise AbortSyncError(" ".join(faults))
    run.error = " ".join(faults) or None  # the other partitions go on; the job still ends as failed
    for partition in source.retired(known_partitions):
        if run.partitions is None or partition in run.partitions:
            _retire(run, partition, totals)
    return totals


def _unknown_partitions(run: SyncRun, available: list[str], known: list[str]) -> list[str]:
    """Return what to say of each partition that was asked for and that the source does not have: doing nothing is no answer."""
    faults: list[str] = []
    for partition in sorted(set(run.partitions or ()).difference(available, known)):
        there = ", ".join(available[:20]) or "none"
        faults.append(f"The source {run.source.value} has no partition {partition!r}. It has: {there}.")
        run.fault(partition, "raw", faults[-1], skipped=False)
    return faults


def _collect_partition(run: SyncRun, source: Source, partition: str, totals: dict[str, int]) -> None:
    saved = registry.saved_cursor(run.connection, source=run.source.value, partition=partition)
    cursor = None if saved is None or run.full or run.relist else saved["cursor"]
    shown: list[str] = []
    for batch in source.changes(partition, cursor):
        shown += [item.source_id for item in batch.seen]
        shown += [refusal.source_id for refusal in batch.refused]
        deleted = list(batch.deleted)
        if batch.listing == "complete":
            gone = registry.unseen(run.connection, source=run.source.value, partition=partition, seen=shown)
            deleted += [row["source_id"] for row in gone]
            shown = []
        _take_in(run, source, batch, deleted, totals)
        run.progress("raw")


def _take_in(run: SyncRun, source: Source, batch: Batch, deleted: list[str], totals: dict[str, int]) -> None:
    """Make one batch durable: bytes, lake rows, then ledger and cursor together."""
    ids = [item.source_id for item in batch.seen] + [refusal.source_id for refusal in batch.refused]
    known = _known(run, ids)
    work = diff(batch.seen, known, full=run.full)
    fetched = list(_fetch_all(run, source, work.fetch))
    rows = [_row_of_fetched(run, result, known.get(result.item.source_id)) for result in fetched]
    rows += [_row_of_rewritten(run, item, known[item.source_id]) for item in work.rewrite]
    refused = [_row_of_refusal(run, refusal, known.get(refusal.source_id)) for refusal in batch.refused]
    changed_refusals = [row for row in refused if row is not None]
    stored = [row for row in rows if row["content_hash"] is not None]
    emptied = [
        (row["source_id"], row["partition"])
        for row in rows + changed_refusals
        if row["content_hash"] is None and _had_content(known.get(row["source_id"]))
    ]
    _append(run, stored, emptied + [(source_id, batch.partition) for source_id in deleted])
    with run.connection.transaction():
        if rows or changed_refusals:
            payload = _json.encode(rows + changed_refusals).decode()
            registry.save_documents(run.connection, source=run.source.value, rows=payload)
        gone = []
        if deleted:
            gone = list(registry.tombstone(run.connection, source=run.source.value, source_ids=deleted))
        registry.save_cursor(
            run.connection,
            source=run.source.value,
            partition=batch.partition,
            cursor=batch.cursor,
            checked=batch.listing != "page",
        )
        if rows or changed_refusals or gone:
            registry.raise_version(run.connection)
            run.touched.add(batch.partition)
    run.counts.deleted += _never_indexed(gone)
    totals["seen"] += len(batch.seen)
    totals["fetched"] += sum(result.content_hash is not None for result in fetched)
    totals["failed"] += sum(result.content_hash is None for result in fetched)
    totals["rewritten"] += len(work.rewrite)
    totals["refused"] += len(batch.refused)
    totals["deleted"] += len(gone)


def _never_indexed(gone: list[dict[str, Any]]) -> int:
    """Count deletions that end here; the others are counted when they have left the index."""
    return sum(not row["indexed"] for row in gone)


def _had_content(before: Known | None) -> bool:
    return before is not None and before.content_hash is not None and before.state != State.DELETED


def _retire(run: SyncRun, partition: str, totals: dict[str, int]) -> None:
    """Tombstone what a partition holds that is no longer configured: what may not be read any more is not shown."""
    gone = [
        row["source_id"]
        for row in registry.unseen(run.connection, source=run.source.value, partition=partition, seen=[])
    ]
    if gone:
        _append(run, [], [(source_id, partition) for source_id in gone])
        with run.connection.transaction():
            deleted = list(registry.tombstone(run.connection, source=run.source.value, source_ids=gone))
            registry.raise_version(run.connection)
        run.touched.add(partition)
        run.counts.deleted += _never_indexed(deleted)
        totals["deleted"] += len(deleted)


def _known(run: SyncRun, source_ids: list[str]) -> dict[str, Known]:
    rows = registry.known(run.connection, source=run.source.value, source_ids=source_ids)
    fields = Known.__struct_fields__
    return {row["source_id"]: Known(**{name: row[name] for name in fields}) for row in rows}


def _fetch_all(run: SyncRun, source: Source, items: list[Item]) -> Iterator[Fetched]:
    """Fetch several at a time; results in order. One document's fault is its own."""
    if len(items) < FETCHERS:
        for item in items:
            yield _fetch(run, source, item)
        return
    with ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetch") as pool:
        for result in pool.map(lambda item: _fetch(run, source, item), items):
            run.progress("raw")
            yield result


def _fetch(run: SyncRun, source: Source, item: Item) -> Fetched:
    for wait in (*RETRY_SECONDS, None):
        try:
            blob = run.blobs.put(source.fetch(item))
        except SkipDocumentError as error:
            return Fetched(item=item, error=str(error), skipped=True)
        except DocumentError as error:
            return Fetched(item=item, error=str(error))
        except RetryLaterError as error:
            if wait is None:
                return Fetched(item=item, error=str(error))
            time.sleep(error.retry_after if error.retry_after is not None else wait)
        else:
            return Fetched(item=item, content_hash=blob.content_hash, size=blob.size)
    raise AssertionError  # unreachable: the last round returns


def _row(source: SourceName, item: Item, **desired: Any) -> dict[str, Any]:
    permissions = effective_permissions(item)
    return {
        **{name: getattr(item, name) for name in Item.__struct_fields__},
        "doc_id": document_id(source, item.source_id),
        "permissions": permissions,
        "payload_hash": payload_hash(item, permissions),
        "reason": None,
        "stage": None,
        "attempts": 0,
        **desired,
    }


def _row_of_fetched(run: SyncRun, result: Fetched, before: Known | None) -> dict[str, Any]:
    item = result.item
    if result.content_hash is not None:
        key = content_key(item, result.content_hash)
        size = result.size if item.size is None else item.size
        return _row(run.source, item, content_hash=result.content_hash, content_key=key, state=State.LIVE, size=size)
    run.fault(item.source_id, "raw", result.error or "unknown", skipped=result.skipped)
    attempts = (
        1
        if before is None or (before.version != item.version and before.attempts >= MAX_ATTEMPTS)
        else before.attempts + 1
    )
    fault = {"reason": result.error, "stage": "raw", "attempts": attempts}
    if result.skipped:
        return _row(run.source, item, content_hash=None, content_key=None, state=State.SKIPPED, **fault)
    if before is not None and before.state == State.LIVE and attempts < MAX_ATTEMPTS:
        # What was indexed before stays findable, under today's permissions, while the new bytes are tried again.
        kept = {"content_hash": before.content_hash, "content_key": before.content_key, "version": before.version}
        return _row(run.source, item, state=State.LIVE, **kept, **fault)
    return _row(run.source, item, content_hash=None, content_key=None, state=State.FAILED, **fault)


def _row_of_rewritten(run: SyncRun, item: Item, before: Known) -> dict[str, Any]:
    """Metadata or permissions changed, bytes did not; what parsing said of them still holds unless it depends on the words."""
    key = content_key(item, before.content_hash) if before.content_hash else None
    same = key == before.content_key
    return _row(
        run.source,
        item,
        content_hash=before.content_hash,
        content_key=key,
        state=before.state if same else State.LIVE,
        reason=before.reason if same else None,
        stage=before.stage if same else None,
        attempts=before.attempts if same else 0,
    )


def _row_of_refusal(run: SyncRun, refusal: Refusal, before: Known | None) -> dict[str, Any] | None:
    """A document that the source will not hand over; None when the ledger says so already."""
    if before is not None and before.state == State.SKIPPED and before.reason == refusal.reason:
        return None
    run.fault(refusal.source_id, "raw", refusal.reason, skipped=True)
    item = Item(
        source_id=refusal.source_id,
        partition=refusal.partition,
        title=refusal.title,
        path=refusal.path,
        mime_type="",
        version=refusal.version,
        permissions=(),
        owner=refusal.owner,
    )
    return _row(
        run.source,
        item,
        content_hash=None,
        content_key=None,
        state=State.SKIPPED,
        reason=refusal.reason,
        stage="raw",
        attempts=1,
    )


def _append(run: SyncRun, stored: Iterable[dict[str, Any]], gone: Iterable[tuple[str, str]]) -> None:
    """Append change rows to the lake: documents as they are now, and tombstones."""
    now = datetime.now(UTC)
    rows = [
        {
            "op": "upsert",
            "doc_id": row["doc_id"],
            **{name: row[name] for name in _LAKE_FIELDS},
            "permissions": list(row["permissions"]),
            "meta": _json.encode({name: row[name] for name in _META_FIELDS}).decode(),
        }
        for row in stored
    ]
    for source_id, partition in gone:
        tombstone = {"op": "delete", "doc_id": document_id(run.source, source_id), "source_id": source_id}
        rows.append(dict.fromkeys((*_LAKE_FIELDS, "permissions", "meta")) | tombstone | {"partition": partition})
    if not rows:
        return
    first = run.next_sequence(len(rows))
    for number, row in enumerate(rows):
        row |= {"seq": first + number, "at": now}
    run.lake.append(raw_table(run.source), pl.DataFrame(rows, schema=table(raw_table(run.source)).schema))


_LAKE_FIELDS = (
    "source_id",
    "partition",
    "version",
    "content_hash",
    "mime_type",
    "profile",
    "title",
    "description",
    "owner",
    "created_at",
    "modified_at",
)
_META_FIELDS = ("path", "url", "author", "size", "collection_ids", "tags", "content_key", "locator")
