"""Statements of the pages for operators and administrators, and the hold on mass deletions."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sql.cli import KeyEntry, RunningSync
from sql.family import AsyncFamily, Family
from sql.fields import Moment

QuestionState = Annotated[
    Literal["proposed", "accepted"],
    Meta(
        title="QuestionState", description="`proposed`: by feedback, and not used yet. `accepted`: measured each month."
    ),
]
QuestionOrigin = Annotated[
    Literal["command", "feedback"],
    Meta(
        title="QuestionOrigin",
        description="`command`: added by `concordance questions`. `feedback`: proposed by a reader.",
    ),
]


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


class MonthOfCost(msgspec.Struct, frozen=True):
    """Amount embedded in a month, such as `2026-11`."""

    month: str
    texts: int
    tokens: int
    cost_usd: float


class UsageWeek(msgspec.Struct, frozen=True):
    """Use in the week that begins on this day, in UTC. A figure that fewer people than asked for stand behind is null."""

    week: date
    people: int | None
    searches: int | None
    questions: int | None
    without_results: int | None
    not_useful: int | None
    median_ms: float | None
    """Of answers, like the next one."""
    p95_ms: float | None


class HeldDeletions(msgspec.Struct, frozen=True, kw_only=True):
    """Deletions of one root or channel that wait because they are many, or that were approved."""

    source: str
    """The source."""
    partition: str
    """ID of the root or channel."""
    title: str | None
    """Its title; null if it has none."""
    documents: int
    """Documents that would be deleted."""
    of_documents: int
    """Documents that it has."""
    held_at: Moment
    """When they began to wait."""
    last_held_at: Moment
    """When the last of them began to wait."""
    approved_at: Moment | None
    """When they were approved; null while they wait."""
    approved_by: str | None
    """Who approved them; null while they wait."""
    examples: list[str]
    """Up to five of their `source_id`s; empty for auditors."""


class DecidedPartition(msgspec.Struct, frozen=True):
    """Deletions of one root or channel that were decided."""

    partition: str
    """ID of the root or channel."""
    documents: int
    """Number of documents."""


class SetEntry(msgspec.Struct, frozen=True):
    """A question of the question set."""

    id: int
    """Number of the question."""
    question: str
    """The question."""
    email: str
    """The person as whom it is asked."""
    never: bool
    """True if its documents must not be found."""
    state: QuestionState
    """State of the question in the set."""
    origin: QuestionOrigin
    """Where it comes from."""
    added_at: Moment
    """When it was added."""
    documents: int
    """Number of documents that it names."""
    titles: list[str]
    """Titles of those that you may read."""


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
    ) -> list[SetEntry]: ...
    async def feedback(self, *, before_at: datetime | None, before_id: str | None, most: int) -> list[NotUseful]: ...
    async def evaluations(self, *, most: int) -> list[EvaluationRun]: ...
    async def month(self, *, month: str) -> Month | None: ...
    async def months(self, *, most: int) -> list[MonthOfCost]: ...
    async def usage(self, *, since: datetime, people: int) -> list[UsageWeek]: ...


class CommandReads(AsyncFamily, path="cli"):
    """Reads that commands also make."""

    async def api_keys(self) -> list[KeyEntry]: ...
    async def running(self) -> list[RunningSync]: ...


class Prune(Family, path="upkeep/prune.sql"):
    """Deletions that wait because they are many."""

    def held(self) -> list[HeldDeletions]: ...
    def approve(
        self, *, source: str, partition: str | None, last_held_at: datetime | None, approved_by: str
    ) -> list[DecidedPartition]: ...
    def reject(
        self, *, source: str, partition: str | None, last_held_at: datetime | None
    ) -> list[DecidedPartition]: ...
    def left(self, *, source: str, partition: str | None) -> int: ...
