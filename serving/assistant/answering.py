"""Answer one question from Slack: who asks, what may be said where, the answer, and the reply."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from typing import NamedTuple

import msgspec

from resources.core.domain import Access
from resources.core.errors import (
    AbortSyncError,
    ConcordanceError,
    InvalidRequestError,
    LostPartitionError,
    TemporaryError,
)
from resources.core.permissions import PUBLIC, is_unshared
from resources.logging import logger
from resources.sources.slack.permissions import workspace
from serving.answers import store
from serving.answers.schemas import MAX_HISTORY, AnswerResponse, AskRequest, Message
from serving.answers.service import Answers
from serving.assistant import messages
from serving.assistant.conversations import Conversations
from serving.assistant.messages import SlackMessage
from serving.http.audit import AuditEvent
from serving.http.errors import UnauthorizedError, account_inactive
from serving.identity.tokens import access_of
from sql.assistant import AssistantReads, ClaimedQuestion, UnstoredRating
from sql.serving import WebReads

DEADLINE_SECONDS = 120.0
"""Longest time for an answer, waiting for a turn with the language model included."""
LATE_SECONDS = 600.0
"""A question that has waited longer gets no answer any more."""
ATTEMPTS = 3
KEEP_SECONDS = 5.0
EARLIER_ANSWERS = (MAX_HISTORY + 1) // 2
_RATINGS = uuid.UUID("6f2a3d57-6c0e-4b0e-9a52-0f5f2c3c8f11")

log = logger("serving")


class AssistantReply(NamedTuple):
    """Reply to a question, if any; `answer_id` if it is an answer."""

    message: SlackMessage | None
    outcome: str
    answer_id: str | None = None


class Answering:
    """Answers questions and stores ratings. Doing either again leaves one reply and one rating."""

    def __init__(self, answers: Answers, conversations: Conversations) -> None:
        self._answers = answers
        self._http = answers.http
        self._directory = answers.identity.directory
        self._conversations = conversations
        self._reads = AssistantReads(answers.http.database)

    async def answer(self, question: ClaimedQuestion) -> None:
        """Reply to a question and close it. Raises `TemporaryError` if it is to be claimed again."""
        try:
            outcome, answer_id = await self._reply(question)
        except (AbortSyncError, LostPartitionError) as error:  # the app may not write there, or the thread is gone
            log.warning("slack_reply_refused", channel=question.channel, reason=str(error))
            outcome, answer_id = "refused_by_slack", None
        await self._reads.question_close(channel=question.channel, ts=question.ts, outcome=outcome, answer_id=answer_id)
        log.info("slack_question", channel=question.channel, outcome=outcome, attempt=question.attempts)

    async def rate(self, rating: UnstoredRating) -> None:
        """Store a rating as feedback and thank for it. A rating that was stored before has no effect."""
        access, stored = await self._access(rating.account), None
        if access is not None:
            stored = await WebReads(self._http.database).feedback_insert(
                feedback_id=str(uuid.uuid5(_RATINGS, f"{rating.channel}/{rating.ts}")),
                email=access.email,
                principals=sorted(access.principals),
                answer_id=rating.answer_id,
                query_id=None,
                verdict=rating.verdict,
                comment=None,
                expected_doc_id=None,
            )
        await self._reads.rating_stored(channel=rating.channel, ts=rating.ts)
        if access is not None:
            with contextlib.suppress(AbortSyncError, LostPartitionError, TemporaryError):  # the rating is stored
                said = messages.RATED if stored is not None else messages.NOT_RATED
                await self._conversations.whisper(rating.channel, rating.thread, rating.account, said)

    async def _reply(self, question: ClaimedQuestion) -> tuple[str, str | None]:
        """Reply, and return how the question ends and the answer's ID."""
        reply_ts = await self._begun(question)
        if question.attempts > ATTEMPTS or question.waited > LATE_SECONDS:
            if reply_ts is not None:
                await self._write(question, reply_ts, messages.plain(messages.LATE, question.ts))
            return "late", None
        admitted = await self._admit(question)
        if isinstance(admitted, AssistantReply):
            said = admitted
        else:
            reply_ts = await self._write(question, reply_ts, messages.plain(messages.THINKING, question.ts))
            said = await self._said(question, admitted)
        if said.message is not None:
            try:
                await self._write(question, reply_ts, said.message)
            except AbortSyncError:
                if reply_ts is not None:  # it would say for ever that an answer is being looked for
                    with contextlib.suppress(AbortSyncError, LostPartitionError, TemporaryError):
                        await self._write(question, reply_ts, messages.plain(messages.NOT_SHOWN, question.ts))
                raise
        return said.outcome, said.answer_id

    async def _begun(self, question: ClaimedQuestion) -> str | None:
        """Return the time of the reply that an earlier attempt began, if any; it may have ended before it recorded it."""
        if question.reply_ts is not None or question.attempts == 1:
            return question.reply_ts
        found = await self._conversations.find_reply(question.channel, question.thread, question.ts)
        if found is not None:
            await self._reads.question_reply(channel=question.channel, ts=question.ts, reply_ts=found)
        return found

    async def _write(self, question: ClaimedQuestion, reply_ts: str | None, message: SlackMessage) -> str:
        """Write the reply, or change it if there is one, and return its time."""
        if reply_ts is not None:
            await self._conversations.update(question.channel, reply_ts, message)
            return reply_ts
        posted = await self._conversations.post(question.channel, question.thread, question.ts, message)
        await self._reads.question_reply(channel=question.channel, ts=question.ts, reply_ts=posted)
        return posted

    async def _admit(self, question: ClaimedQuestion) -> Access | AssistantReply:
        """Return what the person who asks may read, or why nothing is searched. The first attempt counts against the rate limit."""
        access = await self._access(question.account)
        asker = access.email if access else question.account
        wait = await self._http.limit.take(asker) if question.attempts == 1 else 0
        if wait > 0:
            self._http.metrics.rate_limited.inc()
            return AssistantReply(messages.limited(wait, question.ts) if access else None, "rate_limited")
        if access is None:
            return AssistantReply(messages.plain(messages.UNKNOWN, question.ts), "unknown_person")
        if not question.question:
            return AssistantReply(messages.plain(messages.HELP, question.ts), "no_question")
        return access

    async def _access(self, account: str) -> Access | None:
        """Return what a Slack account may read: what its email may, like a request with a token. None: the account may not ask."""
        fresh_since = self._http.fresh_since()
        email = await self._reads.asker(account=account, fresh_since=fresh_since)
        if email is None:
            return None
        try:
            return await self._directory.complete(access_of(email, [], admin=False), fresh_since)
        except UnauthorizedError:
            return None

    async def _said(self, question: ClaimedQuestion, access: Access) -> AssistantReply:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                readers = await self._audience(question, access)
                request = AskRequest(
                    query=question.question, conversation_history=await self._earlier(question, readers)
                )

                async def current() -> Access:
                    again = await self._access(question.account)
                    if again is None:
                        raise account_inactive()
                    return await self._audience(question, again)

                given = await self._answers.ask(request, readers, current)
        except InvalidRequestError:
            return AssistantReply(messages.plain(messages.TOO_LONG, question.ts), "too_long")
        except (ConcordanceError, TimeoutError) as error:
            log.warning("slack_question_failed", channel=question.channel, reason=str(error) or type(error).__name__)
            return AssistantReply(messages.plain(messages.FAILED, question.ts), "failed")
        if not question.direct and any(is_unshared(one.tags) for one in given.sources):
            return AssistantReply(messages.plain(messages.ONLY_DIRECT, question.ts), "only_direct")
        await self._record(question, readers, given)
        buttons = self._http.settings.slack_app_token is not None  # clicks come over Socket Mode
        message = messages.answer(given, question.ts, direct=question.direct, buttons=buttons)
        return AssistantReply(message, "answered" if given.found else "nothing_found", given.answer_id)

    async def _audience(self, question: ClaimedQuestion, access: Access) -> Access:
        """Return an access to what everyone who reads the reply may read: at most what the person who asked may read."""
        if question.direct:
            return access
        shown = {PUBLIC}
        if await self._conversations.is_for_members(question.channel, question.team, self._http.fresh_since()):
            shown.add(workspace(question.team))
        return msgspec.structs.replace(access, principals=access.principals & shown, roles=frozenset())

    async def _earlier(self, question: ClaimedQuestion, readers: Access) -> list[Message]:
        """Return what this person asked in the thread and was answered, without answers that may not be read there any more."""
        earlier = await self._reads.earlier_answers(
            channel=question.channel,
            thread=question.thread,
            ts=question.ts,
            account=question.account,
            most=EARLIER_ANSWERS,
        )
        found: list[Message] = []
        for answer_id in reversed(earlier):
            kept = await store.load(
                self._http.database,
                answer_id,
                readers,
                fresh_since=self._http.fresh_since(),
                base_url=self._http.settings.base_url,
            )
            if kept is not None and kept.query and kept.answer:
                found += [Message("user", kept.query), Message("assistant", kept.answer)]
        return found[-MAX_HISTORY:]

    async def _record(self, question: ClaimedQuestion, readers: Access, given: AnswerResponse) -> None:
        """Record which documents are quoted where, before Slack gets the answer, and write the answer for follow-up questions."""
        detail = {
            "answer_id": given.answer_id,
            "channel": question.channel,
            "message": question.ts,
            "principals": sorted(readers.principals),
        }
        doc_ids = list(dict.fromkeys(one.doc_id for one in given.sources if one.citation.index in given.cited))
        await self._http.audit.record(
            AuditEvent(
                email=readers.email,
                action="slack_answer",
                query_id=given.query_id,
                doc_ids=doc_ids,
                detail=json.dumps(detail),
            )
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_SECONDS):
                await self._http.background.flush()
