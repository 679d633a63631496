"""The completeness ledger: rows of the registry enter, each source's state and totals leave, for administrators each partition's too.

The name of a private channel or of a drive is itself something that not everybody may know, and so are a reason that names a file and
how much work a sync did: anyone who is not an administrator gets, for each source, the number of documents that they may read. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from resources.core.domain import SourceName
from resources.sources import label

MAX_REASONS = 20
OTHER_REASONS = "other reasons"
"""Stands for what is beyond `MAX_REASONS`, so that the counts still add up."""

Row = Mapping[str, Any]


class SkippedReason(msgspec.Struct, frozen=True):
    """Why documents were skipped, and how many."""

    reason: str
    count: int


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Documents by state; `held_deletions` of them wait for a person to approve that they go."""

    live: int
    skipped: int
    failed: int
    lost_access: int
    held_deletions: int


class Partition(Totals, frozen=True, kw_only=True):
    """One root, channel or upload day. `complete`: the source's own count is what is live, skipped or failed and not to go.

    `source_count` and `complete` are null while the source has not told, and `complete` while it cannot be read (`lost_at`).
    """

    partition: str
    title: str | None
    source_count: int | None
    counted_at: datetime | None
    skipped_reasons: list[SkippedReason]
    lost_at: datetime | None
    last_sync_at: datetime | None
    acl_checked_at: datetime | None
    complete: bool | None


class Paused(msgspec.Struct, frozen=True):
    """Syncs wait until somebody mends the source; the reason is for administrators."""

    since: datetime
    reason: str | None


class LastJob(msgspec.Struct, frozen=True, kw_only=True):
    """The latest sync. Counts and `error_message` are for administrators; others see its times to the minute."""

    job_id: str
    status: str
    stage: str | None
    started_at: datetime
    completed_at: datetime | None
    documents_synced: int | None
    documents_skipped: int | None
    documents_deleted: int | None
    documents_failed: int | None
    chunks_embedded: int | None
    error_message: str | None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One source. `last_sync_at` is when its latest good sync ended; `partitions` are for administrators."""

    source: str
    label: str
    configured: bool
    paused: Paused | None
    last_sync_at: datetime | None
    last_job: LastJob | None
    totals: Totals
    partitions: list[Partition] | UnsetType = UNSET


class SourcesResponse(msgspec.Struct, frozen=True):
    """Every source that this installation knows, set up or not."""

    sources: list[SourceReport]


def report(
    sources: Iterable[Row],
    partitions: Iterable[Row],
    skips: Iterable[Row],
    configured: Iterable[SourceName],
    *,
    admin: bool,
) -> list[SourceReport]:
    """Return the sources in the order of `sources`. Without `admin`, nothing below a source and no reason is in it.

    `partitions` are those of `source_partitions`, or without `admin` one row a source, of `readable_totals`.
    """
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in partitions:
        by_source[row["source"]].append(row)
    reasons: dict[tuple[str, str], list[SkippedReason]] = defaultdict(list)
    for row in skips if admin else ():
        reasons[row["source"], row["partition"]].append(SkippedReason(row["reason"], row["count"]))
    ready = set(configured)
    made: list[SourceReport] = []
    for row in sources:
        name, held = SourceName(row["source"]), by_source[row["source"]]
        made.append(
            SourceReport(
                source=name.value,
                label=label(name),
                configured=name in ready,
                paused=Paused(row["paused_at"], row["paused_reason"] if admin else None) if row["paused_at"] else None,
                last_sync_at=row["last_sync_at"] if admin else _minute(row["last_sync_at"]),
                last_job=LastJob(**job_facts(row, admin=admin)) if row["job_id"] else None,
                totals=Totals(**{field: sum(one[field] for one in held) for field in Totals.__struct_fields__}),
                partitions=[_partition(one, reasons[name.value, one["partition"]]) for one in held] if admin else UNSET,
            )
        )
    return made


def job_facts(row: Row, *, admin: bool) -> dict[str, Any]:
    """Return what is told of a sync.

    Counts of work would tell others whether a text is known already, and the time it took nearly as much.
    """
    counts = ("synced", "skipped", "deleted", "failed", "embedded")
    synced, skipped, deleted, failed, embedded = (row[name] if admin else None for name in counts)
    return {
        "job_id": row["job_id"],
        "status": row["status"],
        "stage": row["stage"],
        "started_at": row["started_at"] if admin else _minute(row["started_at"]),
        "completed_at": row["completed_at"] if admin else _minute(row["completed_at"]),
        "documents_synced": synced,
        "documents_skipped": skipped,
        "documents_deleted": deleted,
        "documents_failed": failed,
        "chunks_embedded": embedded,
        "error_message": row["error_message"] if admin else None,
    }


def _minute(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(second=0, microsecond=0)


def _partition(row: Row, reasons: Sequence[SkippedReason]) -> Partition:
    complete = None
    if row["source_count"] is not None and row["lost_at"] is None:
        complete = row["source_count"] == row["live"] + row["skipped"] + row["failed"] - row["held_deletions"]
    facts = {name: value for name, value in row.items() if name != "source"}
    return Partition(**facts, skipped_reasons=_shortened(reasons), complete=complete)


def _shortened(reasons: Sequence[SkippedReason]) -> list[SkippedReason]:
    rest = sum(one.count for one in reasons[MAX_REASONS:])
    return [*reasons[:MAX_REASONS], *([SkippedReason(OTHER_REASONS, rest)] if rest else [])]
