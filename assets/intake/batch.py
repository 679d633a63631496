"""Store one batch of a source: bytes, then lake rows, then registry rows, memory and cursor in one transaction.

This order makes a crash safe at any line: an interrupted batch is repeated, and the latest row wins.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from assets.intake.admission import admitted
from assets.intake.deletion_hold import DeletionHold
from assets.intake.fetching import fetch_all
from assets.intake.rows import append, fetched_row, item_of, refusal_row, rewritten_row
from assets.intake.shown import ShownDocuments, UnchangedDocuments
from assets.stages.diff import GONE, MAX_ATTEMPTS, has_content
from assets.stages.plan import BatchPlan, plan_batch, shown, vanished
from assets.stages.profiles import profile_names
from resources.core.domain import Batch, Item, Refusal, State
from resources.core.errors import DocumentError, RetryLaterError
from resources.core.ports import Source
from resources.people import PEOPLE
from resources.sources import capabilities
from resources.stores.clients import Stores
from resources.stores.uploads import follow_origins, narrow_read
from resources.stores.withholding import withhold_documents, withhold_narrowed
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.people import People
from sql.rows import Hidden, Known, Permitted, SavedCursor
from sql.sources import Events

UNSAVED = 50_000
"""Documents of pages without a cursor that can still be saved; of a listing that never has one, only hashes are kept."""
ASKED = 1_000
"""A source is asked whether documents that it no longer lists are gone, unless there are more: these are rather gone, or held."""
CLAIM_SECONDS = 20.0
"""Longest wait for a partition from or to which documents have moved."""


class PartitionSync:
    """Takes the batches of one partition, which was `saved` so before the source was asked. `unchanged`: documents that it leaves out."""

    def __init__(
        self,
        job: SyncJob,
        source: Source,
        partition: str,
        result: StageResult,
        saved: SavedCursor,
        unchanged: UnchangedDocuments | None,
    ) -> None:
        self._job = job
        self._source = source
        self._result = result
        self._partition = partition
        self._begun_at = saved.begun_at
        self._listing = Listing(job.stores, partition, begun=saved.cursor is not None, unchanged=unchanged)
        self._hold = DeletionHold(job.stores, partition, full=saved.reread)

    def take(self, batch: Batch) -> str:
        """Decide what a batch changes and make that durable. Return what its absences mean: see `Batch.listing`."""
        profiles = profile_names(self._job.stores.settings)
        batch = admitted(batch, profiles)
        closed = self._job.stores.documents.below(collections=batch.closed) if batch.closed else ()
        absent = self._listing.take(batch)
        if 0 < len(absent) <= ASKED and (there := self._there(batch.partition, absent)):
            self._listing.add([one.source_id for one in there])
            seen = [*batch.seen, *(one for one in there if isinstance(one, Item))]
            refused = [*batch.refused, *(one for one in there if isinstance(one, Refusal))]
            batch = admitted(msgspec.structs.replace(batch, seen=seen, refused=refused), profiles)
        known, others = self._read(batch, absent)
        if self._claim_others(batch, known):
            known, others = self._read(batch, absent)
        self._listing.note_registered(known.values())
        policy = self._hold.policy(vanished(batch, known, absent), closed)
        plan = plan_batch(batch, known, absent, policy, others)
        if plan.hold:
            held = self._hold.place(plan.hold, policy, batch.deleted_at)
            self._result.count(batch.partition, held=held)
        self._apply(batch, plan, known)
        return batch.listing

    def save_check(self) -> None:
        """Record that the permissions of all documents of the partition were current when the source was asked."""
        self._job.stores.partitions.save_check(partition=self._partition, checked_at=self._begun_at)

    def _there(self, partition: str, absent: Collection[str]) -> list[Item | Refusal]:
        """Return what `Source.missing` does. Raises `RetryLaterError` if one of the documents cannot be asked for: none is gone yet."""
        try:
            return self._source.missing(partition, absent)
        except DocumentError as error:
            raise RetryLaterError(f"Cannot tell whether documents of {partition} were deleted: {error}") from error

    def _read(self, batch: Batch, absent: Collection[str]) -> tuple[dict[str, Known], list[Item]]:
        """Return the registry's rows of every affected document, and the other documents that get the batch's permissions."""
        documents = self._job.stores.documents
        ids = {*shown(batch), *batch.deleted, *absent}
        if batch.emptied:
            ids.update(documents.below(collections=batch.emptied))
        rows = documents.known(source_ids=sorted(ids), attempts=MAX_ATTEMPTS)
        others: list[Permitted] = []
        if batch.permissions is not None:
            permissions = sorted(set(batch.permissions))
            others = documents.otherwise_permitted(
                partition=batch.partition, permissions=permissions, seen=shown(batch)
            )
        known = {row.source_id: row for row in [*rows, *others]}
        return known, [item_of(row, batch.permissions or ()) for row in others]

    def _claim_others(self, batch: Batch, known: Mapping[str, Known]) -> bool:
        """Claim the other partitions from or to which documents of a batch move; return True if there were any that this sync lacks.

        Raises `RetryLaterError` if another process keeps one of them: which of the two then has the later state is unknown.
        """
        job = self._job
        partitions = {row.partition for row in known.values()} | {item.partition for item in batch.seen}
        others = sorted(one for one in partitions if not job.stores.covers(one))
        if not job.claim(others, wait=CLAIM_SECONDS):
            raise RetryLaterError(
                f"Documents of {batch.partition} have moved from or to {', '.join(others)}, which another sync is working on. "
                "The next sync continues there."
            )
        return bool(others)

    def _apply(self, batch: Batch, plan: BatchPlan, known: dict[str, Known]) -> None:
        job, stores, result = self._job, self._job.stores, self._result
        partitions = stores.partitions
        fetched = list(fetch_all(job, self._source, plan.fetch))
        rows = [fetched_row(job, one, known.get(one.item.source_id)) for one in fetched]
        rows += [rewritten_row(stores, item, known[item.source_id]) for item in plan.rewrite]
        stored = [row for row in rows if row["content_hash"] is not None]
        unreadable = [row["source_id"] for row in rows if row["content_hash"] is None]
        emptied = [(key, known[key].partition) for key in unreadable if key in known and has_content(known[key])]
        rows += [refusal_row(job, refusal, known.get(refusal.source_id)) for refusal in plan.refuse]
        rows.sort(key=lambda row: str(row["doc_id"]))  # the order in which others lock them, too
        append(stores, stored, emptied + plan.drop + list(plan.delete.items()))
        events = Events(stores.connection) if capabilities(stores.source).events else None
        with job.writing, stores.connection.transaction():
            if events is not None:
                events.save_begins(partition=batch.partition)
            memory = dict(batch.memory)
            if self._source.renamed is not None:
                memory |= self._without_moved(rows, memory, self._source.renamed)
            if rows:
                if capabilities(stores.source).user_supplied:
                    rows = self._still_there(rows, batch, plan, known)
                withhold_narrowed(stores.connection, stores.withheld, stores.source.value, rows)
                stores.documents.save_documents(rows=rows)
            gone = tombstone(stores, list(plan.delete), batch.deleted_at)
            if ids := shown(batch):
                partitions.release(source_ids=ids)
            if self._source.costly:
                partitions.clear_fetched(source_ids=[*ids, *batch.deleted])
            if batch.keys:
                self._keep_keys(batch, plan, known)
            if memory:
                partitions.remember(partition=batch.partition, entries=memory)
            if events is not None:
                # some messages and members may have been read before an event that has arrived since
                events.take_over(partition=batch.partition, keys=list(memory))
                events.request(source=stores.source.value, partition=batch.partition)
                ids = [str(row["doc_id"]) for row in rows]
                again = {
                    *events.hide(partition=batch.partition),
                    *events.departed(partition=batch.partition, doc_ids=ids),
                }
                withhold_documents(stores.connection, stores.withheld, sorted(again))
            partitions.save_cursor(
                partition=batch.partition,
                cursor=batch.cursor,
                title=batch.title,
                whole=batch.listing != "page",
                by=plan.moves.pop(batch.partition, 0),
                count=self._listing.save(batch),
            )
            if batch.permissions is not None and batch.listing != "page":
                self.save_check()
            for partition, by in plan.moves.items():
                partitions.add_to_count(partition=partition, by=by)
            if rows or gone:
                stores.documents.raise_version()
                changed = [*(str(row["doc_id"]) for row in rows), *(one.doc_id for one in gone)]
                follow_origins(stores.connection, stores.withheld, changed)
                result.touched.update({batch.partition, *(row.partition for row in gone)})
        result.count(
            batch.partition,
            seen=len(batch.seen) + batch.unchanged,
            fetched=sum(one.content_hash is not None for one in fetched),
            failed=sum(one.content_hash is None for one in fetched),
            rewritten=len(plan.rewrite),
            refused=len(batch.refused),
        )
        count_deleted(job, result, gone)

    def _without_moved(self, rows: list[dict[str, Any]], memory: Mapping[str, Any], renamed: str) -> dict[str, Any]:
        """Take documents from addresses that have left their accounts since the sync began: their holders may have been others when
        the source was read. Return what the memory of the partition is to have, so that the next sync lists it again.
        """
        people = People(self._job.stores.connection, PEOPLE)
        moved = {one.email for one in people.moved() if one not in self._job.moved}
        theirs = [row for row in rows if not moved.isdisjoint(row["permissions"])]
        for row in theirs:
            row |= {"permissions": tuple(one for one in row["permissions"] if one not in moved), "payload_hash": ""}
        named = any(isinstance(value, str) and value in moved for value in memory.values())
        return {renamed: True} if moved and (theirs or named or renamed in memory) else {}

    def _keep_keys(self, batch: Batch, plan: BatchPlan, known: Mapping[str, Known]) -> None:
        """Keep the keys of documents that the batch leaves as they are, except those whose bytes are to be read again later."""
        changed = {one.source_id for one in (*plan.fetch, *plan.rewrite, *plan.refuse)}
        changed |= {one.source_id for one in known.values() if (one.state, one.stage) == (State.FAILED, "raw")}
        kept = {source_id: key for source_id, key in batch.keys.items() if source_id not in changed}
        self._job.stores.documents.keep_keys(partition=batch.partition, source_ids=list(kept), keys=list(kept.values()))

    def _still_there(
        self, rows: list[dict[str, Any]], batch: Batch, plan: BatchPlan, known: Mapping[str, Known]
    ) -> list[dict[str, Any]]:
        """Return the rows of uploads that have not been removed since they were read, without readers who have lost them since."""
        removed = narrow_read(self._job.stores.connection, rows, int(batch.cursor or 0))
        for row in rows:
            before = known.get(row["source_id"])
            if row["doc_id"] in removed and (before is None or before.state in GONE):
                plan.moves[row["partition"]] -= 1  # it was counted as a new document
        return [row for row in rows if row["doc_id"] not in removed]


class Listing:
    """Documents that a listing has shown so far, including those shown to an earlier process that was killed."""

    def __init__(
        self, stores: Stores, partition: str, *, begun: bool, unchanged: UnchangedDocuments | None = None
    ) -> None:
        self._stores = stores
        self._partition = partition
        self._unchanged = unchanged
        self._registered = ShownDocuments()
        """Documents shown that the registry has in this partition, for a listing with `unchanged` ones."""
        self._shown = ShownDocuments()
        """Documents of this listing that are not saved: its pages so far had no cursor."""
        self._unsaved: list[str] = []
        """The same, up to `UNSAVED`, to be saved with the first cursor."""
        self._page: list[str] = []
        """Documents of the last batch."""
        self._resumes = begun
        """The listing continues from a cursor, so that a page without one starts over."""
        if not begun:
            self.end()

    def take(self, batch: Batch) -> list[str]:
        """Record a batch and return the documents that are gone because a complete listing does not contain them."""
        if batch.listing == "delta":
            return []
        if batch.begins or (self._resumes and batch.listing == "page" and batch.cursor is None):
            self._start_over()
        self._resumes = batch.cursor is not None
        self._page = [item.source_id for item in batch.seen if item.partition == batch.partition]
        self._page += [refusal.source_id for refusal in batch.refused]
        if batch.listing == "page":
            self._show_page(saved=batch.cursor is not None)
            return []
        self._shown.add(self._page)
        return list(self._shown.lacking(self._perhaps_gone()))

    def add(self, source_ids: list[str]) -> None:
        """Count further documents as shown by the last page."""
        self._page += source_ids
        self._shown.add(source_ids)

    def note_registered(self, known: Iterable[Known]) -> None:
        """Note documents of a batch that the registry has."""
        if self._unchanged is not None:
            here = (row for row in known if row.partition == self._partition and row.state != State.DELETED)
            self._registered.add(row.source_id for row in here)

    def _perhaps_gone(self) -> Iterable[str]:
        """Yield documents of the registry, all that the listing has not shown among them."""
        documents, unchanged = self._stores.documents, self._unchanged
        if unchanged is None:
            return documents.unlisted(partition=self._partition)
        if len(unchanged) + len(self._registered) == unchanged.documents:
            return ()
        return documents.unlisted_besides(partition=self._partition, keys=unchanged.unlisted())

    def _show_page(self, *, saved: bool) -> None:
        """Keep a page in memory, or with all before it to be saved. Raises `ValueError` if these are too many to be saved at once."""
        if saved and len(self._shown) > len(self._unsaved):
            raise ValueError(f"A listing gives its first cursor within {UNSAVED:,} documents, or none.")
        self._shown.add(self._page)
        if len(self._unsaved) <= UNSAVED:
            self._unsaved += self._page

    def save(self, batch: Batch) -> int | None:
        """Save the documents of a page, in the transaction of its cursor; after the last page return the number of documents."""
        partitions = self._stores.partitions
        if batch.listing == "page" and batch.cursor is not None:
            partitions.list_documents(partition=self._partition, source_ids=self._unsaved)
            self._clear()
        if batch.listing != "complete":
            return None
        # Documents of saved pages that the last batch shows again count once.
        total = (
            len(self._unchanged or ())
            + len(self._shown)
            + partitions.listed_besides(partition=self._partition, source_ids=self._page)
        )
        self.end()
        self._clear()
        return total

    def _start_over(self) -> None:
        """Forget what was listed before, and its cursor: what is listed from now on cannot be continued from there."""
        with self._stores.connection.transaction():
            self._stores.partitions.begin_listing(partitions=[self._partition], reread=False)
            self.end()
        self._clear()

    def _clear(self) -> None:
        self._shown, self._unsaved = ShownDocuments(), []

    def end(self) -> None:
        self._stores.partitions.end_listing(partition=self._partition)


def tombstone(stores: Stores, deleted: list[str], times: Mapping[str, datetime]) -> list[Hidden]:
    """Tombstone documents and return the ones that were not deleted before. Call it in a transaction."""
    if not deleted:
        return []
    stores.partitions.release(source_ids=deleted)
    stores.partitions.clear_fetched(source_ids=deleted)
    known = {key: times[key] for key in deleted if key in times}
    gone = stores.documents.tombstone(source_ids=deleted, times=known)
    withhold_documents(stores.connection, stores.withheld, [one.doc_id for one in gone if one.indexed])
    return gone


def count_deleted(job: SyncJob, result: StageResult, gone: list[Hidden]) -> None:
    """Count deletions, in the job only those of documents never indexed: the others are counted when they leave the index."""
    job.count(deleted=sum(not row.indexed for row in gone))
    for row in gone:
        result.count(row.partition, deleted=1)
