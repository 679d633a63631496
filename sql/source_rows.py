"""Rows of the web service's statements about sources, their partitions and syncs."""

from __future__ import annotations

from datetime import datetime

import msgspec


class SourceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of a source by state."""

    source: str
    live: int
    skipped: int
    failed: int
    lost_access: int
    held_deletions: int


class StalePartition(msgspec.Struct, frozen=True):
    """A partition whose permissions were checked too long ago."""

    source: str
    partition: str


class PartitionTotals(SourceTotals, frozen=True, kw_only=True):
    """Documents of a partition by state, and what its source says."""

    partition: str
    title: str | None
    source_count: int | None
    counted_at: datetime | None
    lost_at: datetime | None
    last_sync_at: datetime | None
    acl_checked_at: datetime | None


class Skips(msgspec.Struct, frozen=True):
    """A reason for which documents of a partition were skipped or failed, by their `state`, and their number."""

    source: str
    partition: str
    state: str
    reason: str
    count: int


class Noted(msgspec.Struct, frozen=True):
    """A kind of the parser's notes, and the number of documents of a partition that have such notes."""

    source: str
    partition: str
    kind: str
    count: int


class SyncJobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A sync."""

    source: str
    job_id: str
    status: str
    stage: str | None
    started_at: datetime
    completed_at: datetime | None
    synced: int
    skipped: int
    deleted: int
    failed: int
    embedded: int
    error_message: str | None


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source's state and its latest sync; without one, `job_id` and the fields after it are None."""

    source: str
    paused_at: datetime | None
    paused_reason: str | None
    last_sync_at: datetime | None
    job_id: str | None
    status: str | None
    stage: str | None
    started_at: datetime | None
    completed_at: datetime | None
    synced: int | None
    skipped: int | None
    deleted: int | None
    failed: int | None
    embedded: int | None
    error_message: str | None


class FirstSyncRow(msgspec.Struct, frozen=True):
    """The running first sync of a source."""

    source: str
    documents: int
    done: int
