"""Statements that commands use: `sql/cli` and the summary of the demonstration."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import Family
from sql.fields import Moment


class KeyEntry(msgspec.Struct, frozen=True):
    """An API key, without its secret, which is stored nowhere."""

    key_id: str
    """ID of the key: the part between its underscores."""
    email: str
    """The person whose permissions apply."""
    name: str
    """What its person calls it; empty for keys of `concordance key create`."""
    groups: list[str]
    """Groups of the key."""
    admin: bool
    """True if it has the role administrator."""
    scim: bool
    """True if it opens SCIM and nothing else."""
    scopes: list[str] | None
    """What it may do, if its person made it: `read`, `write`, `operate`; null: everything that its person may."""
    created_at: Moment
    """When it was created."""
    used_at: Moment | None
    """Last use, to the minute; null if it was never used."""
    expires_at: Moment | None
    """When it expires; null if never."""
    revoked_at: Moment | None
    """When it was revoked; null if it was not."""


class RunningSync(msgspec.Struct, frozen=True):
    """Progress of a running sync."""

    source: str
    job_id: str
    status: str
    stage: str | None
    documents: int
    done: int
    passages: int
    expected: int
    seconds: float


class JobReport(msgspec.Struct, frozen=True):
    """A sync as `concordance sync` reports it."""

    source: str
    job_id: str
    run_id: str | None
    status: str
    stage: str | None
    synced: int
    skipped: int
    deleted: int
    failed: int
    embedded: int
    documents: int
    done: int
    passages: int
    expected: int
    error_message: str | None
    seconds: float


class JobFault(msgspec.Struct, frozen=True):
    """An error of a sync."""

    source_id: str
    stage: str
    reason: str


class SourceCounts(msgspec.Struct, frozen=True):
    """A source's documents by state and the end of its last successful sync. `outdated`: live, and read by an earlier version.

    `failed_at` and `failed_reason` are null unless the latest sync that has ended failed, `paused_at` and `paused_reason` unless its syncs
    wait for new credentials.
    """

    source: str
    last_sync_at: datetime | None
    live: int
    skipped: int
    failed: int
    outdated: int
    failed_at: datetime | None
    failed_reason: str | None
    paused_at: datetime | None
    paused_reason: str | None


class StageRate(msgspec.Struct, frozen=True):
    """How long a stage was busy for its rows, in how many syncs, the first of which ended at `since`."""

    stage: str
    seconds: float
    rows: int
    syncs: int
    since: datetime


class Root(msgspec.Struct, frozen=True):
    """A root, drive or channel: its documents that are not deleted, how many of their deletions are held, and if its source is paused."""

    source: str
    partition: str
    title: str | None
    last_sync_at: datetime | None
    lost_at: datetime | None
    documents: int
    held: int
    paused: bool


class SourceSummary(msgspec.Struct, frozen=True):
    """Documents and passages of a source."""

    source: str
    documents: int
    chunks: int


class UnindexedDocument(msgspec.Struct, frozen=True):
    """A document that was seen but not indexed."""

    source_id: str
    state: str
    reason: str | None


class Commands(Family, path="cli"):
    """Statements of the command line."""

    def api_keys(self) -> list[KeyEntry]: ...
    def job(self, *, job_id: str) -> JobReport | None: ...
    def job_errors(self, *, job_id: str) -> list[JobFault]: ...
    def running(self) -> list[RunningSync]: ...
    def folders(self, *, source: str, wanted: list[str]) -> list[str]: ...
    def roots(self) -> list[Root]: ...
    def sources(self, *, parser: str) -> list[SourceCounts]: ...
    def stage_rates(self, *, source: str | None) -> list[StageRate]: ...
    def tables(self) -> list[str]: ...


class Demo(Family, path="demo/summary.sql"):
    """Content of the index from the sample company."""

    def totals(self, *, roots: list[str], sources: list[str]) -> list[SourceSummary]: ...
    def left_out(self, *, roots: list[str], sources: list[str]) -> list[UnindexedDocument]: ...
