"""Statements of the pages for operators and administrators, and the hold on mass deletions."""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from sql.commands import ApiKey, RunningSync
from sql.family import AsyncFamily, Family


class RecentSync(msgspec.Struct, frozen=True):
    """A sync in the plot of its source."""

    source: str
    status: str
    started_at: datetime
    synced: int
    failed: int
    seconds: float
    run_id: str | None
    """Dagster's run; None before one took the job."""


class SyncDay(msgspec.Struct, frozen=True):
    """The syncs of a source on a day; `gap` is in seconds, None without two successful syncs."""

    source: str
    day: date
    synced: int
    gap: float | None


class Receipt(msgspec.Struct, frozen=True):
    """A deletion. Null times: that has not happened yet."""

    doc_id: str
    source: str
    tombstone_at: datetime
    points_gone_at: datetime | None
    verified_at: datetime | None
    erased_at: datetime | None


class Month(msgspec.Struct, frozen=True):
    """Amount embedded in a month."""

    texts: int
    tokens: int
    cost_usd: float


class Held(msgspec.Struct, frozen=True):
    """Deletions that wait in a partition, and how many documents it has."""

    source: str
    partition: str
    title: str | None
    documents: int
    of_documents: int
    held_at: datetime
    approved_at: datetime | None
    approved_by: str | None
    examples: list[str]


class Decided(msgspec.Struct, frozen=True):
    """Deletions of a partition that were approved or rejected."""

    partition: str
    documents: int


class SetQuestion(msgspec.Struct, frozen=True):
    """A question of the question set; `titles` are those of its documents that the caller may read."""

    id: int
    question: str
    email: str
    never: bool
    state: str
    origin: str
    added_at: datetime
    documents: int
    titles: list[str]


class NotUseful(msgspec.Struct, frozen=True):
    """An answer that was marked not useful; `state` is that of its question in the question set, None if it is not there."""

    feedback_id: str
    created_at: datetime
    email: str
    question: str
    in_conversation: bool
    found: bool
    state: str | None


class EvaluationRun(msgspec.Struct, frozen=True):
    """The figures of a run of the question set; null where no question names a document to find."""

    at: datetime
    model: str
    questions: int
    recall_10: float | None
    ndcg_10: float | None
    leaks: int


class OperatorReads(AsyncFamily, path="operators"):
    """Reads of the pages."""

    async def recent_syncs(self, *, sources: list[str], most: int) -> list[RecentSync]: ...
    async def sync_days(self, *, sources: list[str], since: datetime) -> list[SyncDay]: ...
    async def receipts(self, *, most: int) -> list[Receipt]: ...
    async def questions(
        self, *, state: str | None, after: int, most: int, principals: list[str], fresh_since: datetime
    ) -> list[SetQuestion]: ...
    async def feedback(self, *, before_at: datetime | None, before_id: str | None, most: int) -> list[NotUseful]: ...
    async def evaluations(self, *, most: int) -> list[EvaluationRun]: ...
    async def month(self, *, month: str) -> Month | None: ...


class CommandReads(AsyncFamily, path="cli"):
    """Reads that commands also make."""

    async def api_keys(self) -> list[ApiKey]: ...
    async def running(self) -> list[RunningSync]: ...


class Prune(Family, path="upkeep/prune.sql"):
    """Deletions that wait because they are many."""

    def held(self) -> list[Held]: ...
    def approve(self, *, source: str, partition: str | None, approved_by: str) -> list[Decided]: ...
    def reject(self, *, source: str, partition: str | None) -> list[Decided]: ...
