"""The completeness ledger: state and totals of each source and, for operators and auditors, of each partition. Pure.

Names of private channels and drives, reasons that name a file, and the amount of work of a sync are confidential. Other users therefore
only see, for each source, how many documents they may read. Administrators have every role.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from resources.core.domain import SourceName, State
from resources.core.kinds import OTHER
from resources.core.reasons import kind_of
from resources.sources import label
from sql.fields import Moment
from sql.source_rows import Noted, PartitionTotals, Skips, SourceRow, SourceTotals, SyncJobRow

MAX_REASONS = 20
OTHER_REASONS = "other reasons"
"""Sums up reasons beyond `MAX_REASONS`, so that the counts still add up."""


class SkippedReason(msgspec.Struct, frozen=True):
    """A reason for which documents were skipped or failed, and their number. Reasons may quote names, so auditors see kinds only."""

    kind: str
    """The kind of the reason: `permissions`, `unsupported`, `encrypted`, `too_large`, `too_slow`, `empty`, `damaged`, `no_access`,
    `elsewhere`, `changed`, `unavailable`, `waiting` or `other`."""
    reason: str | None
    """Why documents were skipped or failed; null unless you are an operator."""
    count: int
    """Number of documents."""


class NotedKind(msgspec.Struct, frozen=True):
    """A kind of the parser's notes, and how many documents have some. The notes are shown with their document."""

    kind: str
    """The kind of the notes: `hidden`, `not_read`, `no_text`, `decoding`, `removed`, `formulas`, `structure` or `other`."""
    count: int
    """Number of documents."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Documents by state; the deletion of `held_deletions` of them waits for approval."""

    live: int
    """Documents that can be found."""
    skipped: int
    """Documents that cannot be indexed."""
    failed: int
    """Documents whose indexing failed."""
    lost_access: int
    """Documents that the source no longer grants access to."""
    held_deletions: int
    """Documents whose deletion waits for approval."""


class Partition(Totals, frozen=True, kw_only=True):
    """A root, channel or upload day. `complete`: the source's count equals the live, skipped and failed documents, less held deletions.

    `source_count` and `complete` are null until the source reports a count, and `complete` while it cannot be read (`lost_at`).
    """

    partition: str
    """ID of the root, channel or upload day."""
    title: str | None
    """Its title; null if it has none."""
    source_count: int | None
    """Number of documents that the source counts; null if it has not counted."""
    counted_at: Moment | None
    """When the source counted; null if it has not."""
    skipped_reasons: list[SkippedReason]
    """Why documents were skipped, the most frequent first: a reason each for operators, a kind each for auditors."""
    failed_reasons: list[SkippedReason]
    """Why documents failed, likewise."""
    notes: list[NotedKind]
    """What the texts of documents leave out, by kind, the most frequent first."""
    lost_at: Moment | None
    """When the partition could no longer be read; null if it can be read."""
    last_sync_at: Moment | None
    """End of the latest successful sync; null if there was none."""
    acl_checked_at: Moment | None
    """When permissions were last read from the source; null if never."""
    complete: bool | None
    """True if every document that the source counts is accounted for; null if unknown."""


class Paused(msgspec.Struct, frozen=True):
    """Syncs are paused until the source is repaired; the reason is for operators and auditors."""

    since: Moment
    """When syncs were paused."""
    reason: str | None
    """Why; null unless you are an operator or auditor."""


class LastJob(msgspec.Struct, frozen=True, kw_only=True):
    """The latest sync. Counts and `error_message` are for operators and auditors; others see times rounded down to the minute."""

    job_id: str
    """ID of the sync."""
    status: Annotated[
        Literal["running", "success", "failed"], Meta(title="SyncState", description="The state of a sync.")
    ]
    """The state of the sync."""
    stage: str | None
    """The stage that it is in; null before the first."""
    started_at: Moment
    """When it started."""
    completed_at: Moment | None
    """When it ended; null while it runs."""
    documents_synced: int | None
    """Documents added or changed; null unless you are an operator or auditor."""
    documents_skipped: int | None
    """Documents that cannot be indexed; null unless you are an operator or auditor."""
    documents_deleted: int | None
    """Documents deleted; null unless you are an operator or auditor."""
    documents_failed: int | None
    """Documents whose indexing failed; null unless you are an operator or auditor."""
    chunks_embedded: int | None
    """Passages embedded; null unless you are an operator or auditor."""
    error_message: str | None
    """Why the sync failed; null if it did not, or unless you are an operator or auditor."""


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """A source. `last_sync_at` is the end of its latest successful sync; `partitions` are for operators and auditors."""

    source: str
    """Name of the source."""
    label: str
    """Name of the source for people."""
    configured: bool
    """True if the source is set up."""
    paused: Paused | None
    """Why syncs wait; null if they run."""
    last_sync_at: Moment | None
    """End of the latest successful sync; null if there was none."""
    last_job: LastJob | None
    """The latest sync; null if there was none."""
    totals: Totals
    """Documents by state: those that you may read, or all for operators and auditors."""
    partitions: list[Partition] | UnsetType = UNSET
    """Documents by root, channel or upload day; absent unless you are an operator or auditor."""


class SourcesResponse(msgspec.Struct, frozen=True):
    """All sources, configured or not."""

    sources: list[SourceReport]
    """All sources."""


def report(
    sources: Iterable[SourceRow], totals: Iterable[SourceTotals], configured: Collection[SourceName]
) -> list[SourceReport]:
    """Return a report for each of `sources`, in order, as users without a role see it."""
    by_source = {one.source: one for one in totals}
    return [
        _report(row, [by_source[row.source]] if row.source in by_source else [], configured, full=False)
        for row in sources
    ]


def full_report(
    sources: Iterable[SourceRow],
    partitions: Iterable[PartitionTotals],
    skips: Iterable[Skips],
    noted: Iterable[Noted],
    configured: Collection[SourceName],
    *,
    texts: bool,
) -> list[SourceReport]:
    """Return a report for each of `sources`, in order, with partitions, as operators and auditors see it.

    Reasons are given with their `texts`, or by their kinds.
    """
    by_source: dict[str, list[PartitionTotals]] = defaultdict(list)
    for one in partitions:
        by_source[one.source].append(one)
    reasons: dict[tuple[str, str, str], Counter[tuple[str, str | None]]] = defaultdict(Counter)
    for skip in skips:
        reasons[skip.source, skip.partition, skip.state][kind_of(skip.reason), skip.reason if texts else None] += (
            skip.count
        )
    notes: dict[tuple[str, str], list[NotedKind]] = defaultdict(list)
    for one in noted:
        notes[one.source, one.partition].append(NotedKind(one.kind, one.count))
    return [
        msgspec.structs.replace(
            _report(row, by_source[row.source], configured, full=True),
            partitions=[
                _partition(
                    one,
                    reasons[one.source, one.partition, State.SKIPPED],
                    reasons[one.source, one.partition, State.FAILED],
                    notes[one.source, one.partition],
                )
                for one in by_source[row.source]
            ],
        )
        for row in sources
    ]


def _report(
    row: SourceRow, totals: Sequence[SourceTotals], configured: Collection[SourceName], *, full: bool
) -> SourceReport:
    name = SourceName(row.source)
    return SourceReport(
        source=name.value,
        label=label(name),
        configured=name in configured,
        paused=Paused(row.paused_at, row.paused_reason if full else None) if row.paused_at else None,
        last_sync_at=row.last_sync_at if full else _minute(row.last_sync_at),
        last_job=LastJob(**job_facts(row, full=full)) if row.job_id else None,
        totals=Totals(
            live=sum(one.live for one in totals),
            skipped=sum(one.skipped for one in totals),
            failed=sum(one.failed for one in totals),
            lost_access=sum(one.lost_access for one in totals),
            held_deletions=sum(one.held_deletions for one in totals),
        ),
    )


def job_facts(row: SourceRow | SyncJobRow, *, full: bool) -> dict[str, Any]:
    """Return the facts of a sync that the caller may see.

    Counts of work, and exact times, could reveal to others whether a text was known already.
    """
    return {
        "job_id": row.job_id,
        "status": row.status,
        "stage": row.stage,
        "started_at": row.started_at if full else _minute(row.started_at),
        "completed_at": row.completed_at if full else _minute(row.completed_at),
        "documents_synced": row.synced if full else None,
        "documents_skipped": row.skipped if full else None,
        "documents_deleted": row.deleted if full else None,
        "documents_failed": row.failed if full else None,
        "chunks_embedded": row.embedded if full else None,
        "error_message": row.error_message if full else None,
    }


def _minute(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(second=0, microsecond=0)


def _partition(
    row: PartitionTotals,
    skipped: Counter[tuple[str, str | None]],
    failed: Counter[tuple[str, str | None]],
    notes: list[NotedKind],
) -> Partition:
    complete = None
    if row.source_count is not None and row.lost_at is None:
        complete = row.source_count == row.live + row.skipped + row.failed - row.held_deletions
    facts = msgspec.structs.asdict(row)
    del facts["source"]
    return Partition(
        **facts,
        skipped_reasons=_shortened(skipped),
        failed_reasons=_shortened(failed),
        notes=notes,
        complete=complete,
    )


def _shortened(reasons: Counter[tuple[str, str | None]]) -> list[SkippedReason]:
    shown = [SkippedReason(kind, reason, count) for (kind, reason), count in reasons.most_common(MAX_REASONS)]
    rest = reasons.total() - sum(one.count for one in shown)
    return [*shown, *([SkippedReason(OTHER, OTHER_REASONS, rest)] if rest else [])]
