"""The `raw` stage: store changed bytes in the blob store, change rows in the lake, and documents and cursor in the registry.

Partitions are collected one after another; `assets.intake.batch` stores their batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from assets.chunked import batches
from assets.intake.admission import is_principal
from assets.intake.batch import PartitionSync, count_deleted, tombstone
from assets.intake.deletion_hold import hold_retired
from assets.intake.fetching import merged
from assets.intake.rows import append, item_of, raw_table
from assets.intake.shown import UnchangedDocuments
from assets.planning import share_out
from assets.stages.diff import MAX_ATTEMPTS
from assets.stages.plan import shown
from resources.alerts import alert
from resources.core.domain import Batch, Item
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    BusyError,
    ConfigurationError,
    DocumentError,
    LostPartitionError,
    RetryLaterError,
)
from resources.core.ports import Source
from resources.people import PEOPLE, to_sync
from resources.people.sync import sync_people
from resources.schema import declare
from resources.sources import capabilities, label, spec_of
from resources.stores.clients import Stores
from resources.stores.uploads import follow_origins
from resources.stores.withholding import withhold_partition
from resources.syncs.claiming import roots_of
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob, reason_of
from sql.people import People, PeopleStates
from sql.rows import Permitted
from sql.sources import Events

__all__ = ["collect", "raw_table"]

REMOVED_AT_ONCE = 5000
"""Documents of a removed root, or of deletions that were approved, that are tombstoned in a transaction."""
LOOKED_AT = 100
"""Documents whose bytes could not be read that are looked at again before their bytes are asked for."""
COUNTED = ("seen", "fetched", "rewritten", "refused", "deleted", "failed", "held")

GROUPS_UNREAD = (
    "People and groups could not be read, so no one finds what is shared with a group until they are: `concordance sync directory`"
    " says why."
)

T = TypeVar("T")


def collect(
    job: SyncJob, source: Source, *, relist: bool = False, stored: Callable[[StageResult], None] | None = None
) -> StageResult:
    """Synchronise the lake and the registry with the source.

    With `relist`, partitions are listed from the beginning; content with an unchanged version is still not fetched, except by a full
    sync. An interrupted listing is continued by the next sync. `stored` is called after each batch with the result so far.

    Returns counts: seen, fetched, rewritten, refused, deleted, failed, held (deletions awaiting approval), calls by method.
    """
    stores = job.stores
    result = StageResult(dict.fromkeys(COUNTED, 0))
    try:
        _prepare(job, source)
        _collect_all(job, source, result, stored, relist=relist or job.full)
    except AuthorizationError as error:
        _pause(stores, str(error))
        raise
    finally:
        if not capabilities(stores.source).user_supplied and not stores.connection.broken:
            follow_origins(stores.connection, stores.withheld)
        if not any(tally is source.tally for tally in job.tallies):
            job.tallies.append(source.tally)
        costs = merged([job.tally, *job.tallies])
        if not stores.connection.broken:
            stores.jobs.save_calls(job_id=job.job_id, **costs)
    result.counts["calls"] = costs["calls"]
    return result


def _prepare(job: SyncJob, source: Source) -> None:
    """Record the attempt and save the source's directory of people first, so that revocations take effect first."""
    stores = job.stores
    job.moved = frozenset(People(stores.connection, PEOPLE).moved())
    declare(stores.connection, spec_of(stores.source))
    if stores.lease is not None and capabilities(stores.source).events:
        Events(stores.connection).drop_unread(source=stores.source.value, owner=stores.lease.owner)
    stores.partitions.save_attempt(credentials=spec_of(stores.source).fingerprint(stores.settings))
    _read_groups(job)
    people = _call(source.directory)
    if people is not None:
        people = [(email, one) for email, one in people if is_principal(email) and is_principal(one)]
        stores.partitions.save_directory(rows=people, keep_groups=source.groups_unread)


def _read_groups(job: SyncJob) -> None:
    """Read people and groups before the first documents of a source, which may be shared with groups that no one has read yet."""
    stores = job.stores
    wanted = set(to_sync(stores.settings))
    if not wanted or stores.partitions.partition_names():
        return
    if wanted <= {one.source for one in PeopleStates(stores.connection).states() if one.directory_at is not None}:
        return
    try:
        reports = sync_people(stores.settings)
    except BusyError:  # another process is reading them
        return
    if any(one.error for one in reports.values()):
        job.warn(GROUPS_UNREAD)


def _collect_all(
    job: SyncJob, source: Source, result: StageResult, stored: Callable[[StageResult], None] | None, *, relist: bool
) -> None:
    stores = job.stores
    known = sorted({*stores.partitions.partition_names(), *stores.partitions.current_names()})
    available = _call(source.partitions)
    _subscribe(job, source)
    told = len(source.warnings)
    _prune_approved(job, result)
    for partition in source.lost(stores.partitions.shown_names()):
        if job.claim([partition]):  # otherwise the process that has it finds the same
            _hide_partition(job, partition, result)
    if job.partitions is not None:
        job.partitions = roots_of(stores.connection, stores.source, job.partitions)
    if relist:  # at once for all of them, so that the next sync continues if this one does not get that far
        stores.partitions.begin_listing(partitions=job.partitions, reread=job.full)
    share_out(job, available, known)
    faults = _unknown_partitions(job, available, known)
    for partition in available:
        if job.partitions is not None and partition not in job.partitions:
            continue
        try:
            _collect_partition(job, source, partition, result, stored, relist=relist)
        except LostPartitionError as error:
            job.partition_fault(partition, str(error), skipped=True)
            _hide_partition(job, partition, result)
        except AuthorizationError:
            raise
        except (AbortSyncError, RetryLaterError, ConfigurationError) as error:
            faults.append(reason_of(error))
            job.partition_fault(partition, faults[-1], skipped=False)
    job.warn(*source.warnings[told:])
    stores.partitions.pause(reason=None)
    if faults and len(faults) >= len(set(job.partitions or available)):
        raise AbortSyncError(" ".join(faults))
    job.error = " ".join(faults) or None  # the other partitions continue; the job still ends as failed
    for partition in source.retired(known):
        if job.partitions is None or partition in job.partitions:
            _retire(job, partition, result)


def _call(question: Callable[[], T]) -> T:
    """Return the source's answer to a call that everything depends on; a transient error ends the sync."""
    try:
        return question()
    except RetryLaterError as error:
        raise AbortSyncError(reason_of(error)) from error


def _subscribe(job: SyncJob, source: Source) -> None:
    """Have the source announce changes, and record what the sync does without. What it needs is read by other calls."""
    warnings: list[str] = []
    try:
        source.subscribe()
    except (AbortSyncError, RetryLaterError) as error:
        warnings.append(f"Changes are not announced, so they are found by scheduled syncs only. {reason_of(error)}")
    job.warn(*source.warnings, *warnings)


def _pause(stores: Stores, reason: str) -> None:
    """Stop the schedule of a source that refuses our credentials, and send one alert."""
    if stores.partitions.pause(reason=reason):
        alert(
            stores.settings,
            f"{label(stores.source)} is paused: {reason} Nothing is lost; it continues where it stopped.",
        )


def _unknown_partitions(job: SyncJob, available: list[str], known: list[str]) -> list[str]:
    """Return an error for each requested partition that the source does not have, so that it is not silently ignored."""
    faults: list[str] = []
    for partition in sorted(set(job.partitions or ()).difference(available, known)):
        there = ", ".join(available[:20]) or "none"
        faults.append(f"The source {job.stores.source.value} has no partition {partition!r}. It has: {there}.")
        job.partition_fault(partition, faults[-1], skipped=False)
    return faults


def _collect_partition(
    job: SyncJob,
    source: Source,
    partition: str,
    result: StageResult,
    stored: Callable[[StageResult], None] | None,
    *,
    relist: bool,
) -> None:
    job.stores.partitions.reconsider(partition=partition)
    saved = job.stores.partitions.saved_cursor(partition=partition)
    cursor, reread = saved.cursor, saved.reread
    unchanged = None if relist or reread else _unchanged(job.stores, partition)
    unread = {} if relist or cursor is None else _unread(job.stores, partition)
    source.known_keys = unchanged
    taken = PartitionSync(job, source, partition, result, saved, unchanged)
    last = ""
    try:
        for batch in source.changes(partition, cursor):
            last = taken.take(batch)
            for source_id in (*shown(batch), *batch.deleted):
                unread.pop(source_id, None)
            if batch.notice is not None:
                job.partition_fault(partition, batch.notice, skipped=True)
            job.progress("raw")
            if stored is not None:
                stored(result)
            cursor = batch.cursor
    finally:
        source.known_keys = None
    if last == "page":  # part of it could not be listed
        job.stores.partitions.uncount(partition=partition)
    elif last:  # not before: until a feed has been read to its end, documents on its later pages may have lost readers
        taken.save_check()
    if reread:
        job.stores.partitions.end_reread(partition=partition)
    for seen in _looked_at_again(source, list(unread.values())):
        taken.take(Batch(partition=partition, seen=seen, cursor=cursor))


def _unread(stores: Stores, partition: str) -> dict[str, Permitted]:
    rows = stores.documents.unread(partition=partition, attempts=MAX_ATTEMPTS)
    return {row.source_id: row for row in rows}


def _looked_at_again(source: Source, unread: Sequence[Permitted]) -> Iterator[list[Item]]:
    """Yield documents as they are now, in parts, whose bytes are to be read again though a feed of changes does not show them."""
    for part in batches(unread, LOOKED_AT):
        found: list[Item | None] = []
        for row in part:
            with suppress(DocumentError, RetryLaterError):  # the next sync looks again
                found.append(source.look_again(item_of(row, tuple(row.permissions))))
        if seen := [item for item in found if item is not None]:
            yield seen


def _unchanged(stores: Stores, partition: str) -> UnchangedDocuments | None:
    if not capabilities(stores.source).keyed_listing:
        return None
    row = stores.documents.listing_keys(partition=partition)
    return UnchangedDocuments(row.keys, row.counts, row.documents)


def _prune_approved(job: SyncJob, result: StageResult) -> None:
    """Carry out held deletions that have been approved."""
    rows = [row for row in job.stores.partitions.approved() if job.stores.covers(row.partition)]
    times = {row.source_id: row.source_time for row in rows if row.source_time is not None}
    _remove(job, {row.source_id: row.partition for row in rows}, times, result)


def _retire(job: SyncJob, partition: str, result: StageResult) -> None:
    """Hold the documents of a partition that is no longer configured; it is listed from the beginning if it returns."""
    stores = job.stores
    if stores.settings.prune_share >= 1:
        remove_partition(job, partition, result)
    stores.partitions.reset_partition(partition=partition)
    stores.partitions.forget(partition=partition)
    stores.partitions.end_listing(partition=partition)
    if not stores.partitions.has_unheld(partition=partition):
        stores.partitions.drop_empty(partition=partition)
        return
    left = list(stores.documents.unlisted(partition=partition))
    notice = hold_retired(stores, partition, left)
    if notice is not None:
        result.counts["held"] += len(left)
        job.partition_fault(partition, notice, skipped=True)


def remove_partition(job: SyncJob, partition: str, result: StageResult) -> None:
    """Tombstone all documents of a partition."""
    _remove(job, dict.fromkeys(job.stores.documents.unlisted(partition=partition), partition), {}, result)


def _remove(job: SyncJob, gone: dict[str, str], times: Mapping[str, datetime], result: StageResult) -> None:
    """Tombstone documents in parts; one that is killed in between is continued by the next sync, or by the same command."""
    stores = job.stores
    for part in batches(list(gone.items()), REMOVED_AT_ONCE):
        append(stores, [], part)
        with job.writing, stores.connection.transaction():
            deleted = tombstone(stores, [source_id for source_id, _ in part], times)
            stores.documents.raise_version()
            follow_origins(stores.connection, stores.withheld, [one.doc_id for one in deleted])
        result.touched.update(partition for _, partition in part)
        count_deleted(job, result, deleted)


def _hide_partition(job: SyncJob, partition: str, result: StageResult) -> None:
    """Hide the documents of a partition that can no longer be read; it is listed from the beginning once it can."""
    stores = job.stores
    with job.writing, stores.connection.transaction():
        if capabilities(stores.source).events:
            Events(stores.connection).save_begins(partition=partition)
        stores.partitions.reset_partition(partition=partition)
        stores.partitions.forget(partition=partition)
        stores.partitions.end_listing(partition=partition)
        hidden = stores.documents.hide_partition(partition=partition)
        if hidden:
            withhold_partition(stores.connection, stores.withheld, stores.source.value, partition)
            stores.documents.raise_version()
            follow_origins(stores.connection, stores.withheld, [one.doc_id for one in hidden])
            result.touched.add(partition)
    count_deleted(job, result, hidden)
