"""Statements about questions that people ask in Slack, after they were stored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily


class ClaimedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that this process answers. `waited`: seconds since it arrived."""

    channel: str
    ts: str
    team: str
    account: str
    thread: str
    direct: bool
    question: str
    reply_ts: str | None
    attempts: int
    waited: float


class UnstoredRating(msgspec.Struct, frozen=True, kw_only=True):
    """Rating of an answer by the person who asked."""

    channel: str
    ts: str
    thread: str
    account: str
    answer_id: str
    verdict: str


class AssistantReads(AsyncFamily, path="assistant"):
    """Statements that the assistant waits for."""

    async def asker(self, *, account: str, fresh_since: datetime) -> str | None: ...
    async def full_members(self, *, accounts: list[str], principal: str, fresh_since: datetime) -> list[str]: ...
    async def question_claim(self, *, lease_seconds: float) -> ClaimedQuestion | None: ...
    async def question_renew(self, *, channel: str, ts: str, lease_seconds: float) -> int: ...
    async def question_reply(self, *, channel: str, ts: str, reply_ts: str) -> int: ...
    async def question_close(self, *, channel: str, ts: str, outcome: str, answer_id: str | None) -> int: ...
    async def earlier_answers(self, *, channel: str, thread: str, ts: str, account: str, most: int) -> list[str]: ...
    async def unstored_ratings(self, *, most: int) -> list[UnstoredRating]: ...
    async def rating_stored(self, *, channel: str, ts: str) -> int: ...
