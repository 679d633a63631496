"""Statements about alerts: the state of each, the notices that wait for the webhook, and the figures that rules judge."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily, Family, Json


class AlertState(msgspec.Struct, frozen=True):
    """An alert that fires or has ended."""

    rule: str
    subject: str
    severity: str
    value: float
    since: datetime
    fired_at: datetime | None
    resolved_at: datetime | None


class Notice(msgspec.Struct, frozen=True):
    """A notice that is to be sent, and how often that was tried, this time included."""

    notice_id: int
    text: str
    attempts: int


class EndedJob(msgspec.Struct, frozen=True):
    """A sync that has ended, of which a webhook is to be told, and how often that was tried, this time included."""

    job_id: str
    source: str
    status: str
    started_at: datetime
    completed_at: datetime
    synced: int
    skipped: int
    deleted: int
    failed: int
    attempts: int


class SyncHealth(msgspec.Struct, frozen=True):
    """What the latest syncs of a source show. `seconds_ago`: what `sync_health` says; None for a source that was never set up."""

    source: str
    good: int
    bad: int
    documents: int
    failed: int
    retries: int
    retries_failed: int
    seconds_ago: float | None
    running: bool
    failures: int


class Alerts(Family, path="alerts/alerts.sql"):
    """Alerts and notices, over a synchronous connection."""

    def lock_alerts(self) -> str: ...
    def observe(self, *, observed: Json, clear_seconds: float) -> int: ...
    def fire(self, *, clear_seconds: float, repeat_seconds: float) -> list[AlertState]: ...
    def resolve(self, *, clear_seconds: float) -> list[AlertState]: ...
    def forget_alerts(self, *, clear_seconds: float, days: int) -> int: ...
    def add_notice(self, *, text: str, most: int) -> int: ...
    def claim_notice(self, *, pause_seconds: float) -> Notice | None: ...
    def postpone_notice(self, *, notice_id: int, seconds: float) -> int: ...
    def remove_notice(self, *, notice_id: int) -> int: ...
    def waiting_notices(self) -> int: ...
    def current(self) -> list[AlertState]: ...
    def seen_set_up(self, *, sources: list[str]) -> int: ...
    def sync_health(self) -> list[SyncHealth]: ...


class AlertReads(AsyncFamily, path="alerts/alerts.sql"):
    """What pages show of alerts."""

    async def current(self) -> list[AlertState]: ...


class EndedJobs(Family, path="alerts/jobs.sql"):
    """Syncs that have ended and of which the webhook has not been told."""

    def claim_job(self, *, pause_seconds: float, since: datetime) -> EndedJob | None: ...
    def postpone_job(self, *, job_id: str, seconds: float) -> int: ...
    def told_job(self, *, job_id: str) -> int: ...
