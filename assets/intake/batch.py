"""Store one batch of a source: bytes, then lake rows, then registry rows, memory and cursor in one transaction.

This order makes a crash safe at any line: an interrupted batch is repeated, and the latest row wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from assets.intake.brake import Brake
from assets.intake.fetching import fetch_all
from assets.intake.rows import append, fetched_row, item_of, refusal_row, rewritten_row
from assets.stages.diff import Known
from assets.stages.plan import BatchPlan, plan_batch, shown, vanished
from resources.core.domain import Batch, Item
from resources.core.ports import Source
from resources.sources import capabilities
from resources.syncing import SyncRun
from sql import queries

registry = queries("registry")
events = queries("events")
_json = msgspec.json.Encoder()


class PartitionSync:
    """The batches of one partition in one sync."""

    def __init__(self, run: SyncRun, source: Source, partition: str, totals: Counter[str], *, begun: bool) -> None:
        self._run = run
        self._source = source
        self._totals = totals
        self._listing = Listing(run, partition, begun=begun)
        self._brake = Brake(run, partition)

    def take(self, batch: Batch) -> None:
        """Decide what a batch changes and make that durable."""
        absent = self._listing.take(batch)
        known, others = self._read(batch, absent)
        policy = self._brake.policy(vanished(batch, known, absent))
        plan = plan_batch(batch, known, absent, policy, others)
        if plan.hold:
            self._brake.hold(plan.hold, policy.waiting, batch.deleted_at)
        self._apply(batch, plan, known)

    def _read(self, batch: Batch, absent: Collection[str]) -> tuple[dict[str, Known], list[Item]]:
        """Return the registry's rows of every affected document, and the other documents that get the batch's permissions."""
        run, name = self._run, self._run.source.value
        ids = {*shown(batch), *batch.deleted, *absent}
        if batch.emptied:
            below = registry.below(run.connection, source=name, collections=batch.emptied)
            ids.update(row["source_id"] for row in below)
        rows = list(registry.known(run.connection, source=name, source_ids=sorted(ids)))
        others: list[dict[str, Any]] = []
        if batch.permissions is not None:
            permissions = sorted(set(batch.permissions))
            others = list(
                registry.otherwise_permitted(
                    run.connection, source=name, partition=batch.partition, permissions=permissions, seen=shown(batch)
                )
            )
        known = {row["source_id"]: msgspec.convert(row, Known) for row in rows + others}
        return known, [item_of(row, batch.permissions or ()) for row in others]

    def _apply(self, batch: Batch, plan: BatchPlan, known: dict[str, Known]) -> None:
        run, name, totals = self._run, self._run.source.value, self._totals
        fetched = list(fetch_all(run, self._source, plan.fetch))
        rows = [fetched_row(run, result, known.get(result.item.source_id)) for result in fetched]
        rows += [rewritten_row(run, item, known[item.source_id]) for item in plan.rewrite]
        stored = [row for row in rows if row["content_hash"] is not None]
        unreadable = [row["source_id"] for row in rows if row["content_hash"] is None]
        emptied = [(key, known[key].partition) for key in unreadable if key in known and known[key].has_content]
        rows += [refusal_row(run, refusal, known.get(refusal.source_id)) for refusal in plan.refuse]
        append(run, stored, emptied + plan.drop + list(plan.delete.items()))
        with run.connection.transaction():
            if rows:
                registry.save_documents(run.connection, source=name, rows=_json.encode(rows).decode())
            gone = tombstone(run, list(plan.delete), batch.deleted_at)
            if ids := shown(batch):
                registry.release(run.connection, source=name, source_ids=ids)
                if self._source.costly:
                    registry.clear_fetched(run.connection, source=name, source_ids=ids)
            if batch.memory:
                memory = _json.encode(batch.memory).decode()
                registry.remember(run.connection, source=name, partition=batch.partition, entries=memory)
            if capabilities(run.source).events:
                # some messages may have been read before an event that has arrived since
                list(events.hide(run.connection, partition=batch.partition))
            registry.save_cursor(
                run.connection,
                source=name,
                partition=batch.partition,
                cursor=batch.cursor,
                title=batch.title,
                checked=batch.listing != "page",
                by=plan.moves.pop(batch.partition, 0),
                count=self._listing.save(batch),
            )
            for partition, by in plan.moves.items():
                registry.add_to_count(run.connection, source=name, partition=partition, by=by)
            if rows or gone:
                registry.raise_version(run.connection)
                run.touched.add(batch.partition)
        totals["seen"] += len(batch.seen)
        totals["fetched"] += sum(result.content_hash is not None for result in fetched)
        totals["failed"] += sum(result.content_hash is None for result in fetched)
        totals["rewritten"] += len(plan.rewrite)
        totals["refused"] += len(batch.refused)
        totals["deleted"] += count_deleted(run, gone)


class Listing:
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
        """Forget the listing."""
        registry.end_listing(self._run.connection, **self._where)


def tombstone(run: SyncRun, deleted: list[str], times: dict[str, datetime]) -> list[dict[str, Any]]:
    """Tombstone documents and return the ones that were not deleted before. Call it in a transaction."""
    if not deleted:
        return []
    source = run.source.value
    registry.release(run.connection, source=source, source_ids=deleted)
    known = _json.encode({key: times[key] for key in deleted if key in times}).decode()
    return list(registry.tombstone(run.connection, source=source, source_ids=deleted, times=known))


def count_deleted(run: SyncRun, gone: list[dict[str, Any]]) -> int:
    """Count deletions, in the job only those of documents never indexed: the others are counted when they leave the index."""
    run.counts.deleted += sum(not row["indexed"] for row in gone)
    return len(gone)
