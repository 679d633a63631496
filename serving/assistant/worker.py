"""Claims the questions that wait, and answers several at a time.

Questions are stored by the process that receives Slack's events. A claim holds for some seconds and is renewed while its question is
answered: a question whose process ended is answered by the next one, in the same message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import psycopg

from resources.core.errors import ConcordanceError, TemporaryError
from resources.logging import logger
from serving.answers.service import Answers
from serving.assistant.answering import Answering
from serving.assistant.conversations import Conversations, Waits, client
from serving.http.background import cancel
from sql.assistant import AssistantReads, ClaimedQuestion

LOOK_SECONDS = 1.0
CONCURRENCY = 4
"""Questions that are answered at a time."""
LEASE_SECONDS = 30.0
RATINGS = 20
"""Ratings that are read at a time."""

log = logger("serving")


class SlackAssistant:
    """Answers questions until it is stopped. Runs in the first process alone, once it serves, and only if Slack is set up."""

    def __init__(self, answers: Answers) -> None:
        waits = Waits()
        slack = client(answers.http.settings, waits)
        self._reads = AssistantReads(answers.http.database)
        self._answering = None if slack is None else Answering(answers, Conversations(slack, self._reads, waits))
        self._tasks: list[asyncio.Task[None]] = []
        self._answers: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        if self._answering is not None:
            for name, work in ("slack-assistant", self._take), ("slack-ratings", self._rate):
                self._tasks.append(asyncio.create_task(self._run(partial(work, self._answering)), name=name))

    async def stop(self) -> None:
        """Stop at once. Questions in progress are claimed again after their lease."""
        for task in self._tasks:
            await cancel(task)
        for task in list(self._answers):
            await cancel(task)

    async def _take(self, answering: Answering) -> None:
        while len(self._answers) < CONCURRENCY and (found := await self._claim()):
            task = asyncio.create_task(self._answer(answering, found), name="slack-question")
            self._answers.add(task)
            task.add_done_callback(self._ended)

    async def _rate(self, answering: Answering) -> None:
        for rating in await self._reads.unstored_ratings(most=RATINGS):
            await answering.rate(rating)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        failing = False
        while True:
            try:
                await work()
                failing = False
            except (ConcordanceError, psycopg.Error) as error:  # the tables may be being created
                if not failing:
                    log.warning("slack_assistant_waits", reason=str(error))
                failing = True
            except Exception:  # nothing else would start this task again
                if not failing:
                    log.exception("slack_assistant_failed")
                failing = True
            await asyncio.sleep(LOOK_SECONDS)

    async def _claim(self) -> ClaimedQuestion | None:
        return await self._reads.question_claim(lease_seconds=LEASE_SECONDS)

    async def _answer(self, answering: Answering, question: ClaimedQuestion) -> None:
        lease = asyncio.create_task(self._hold(question), name="slack-lease")
        try:
            await answering.answer(question)
        finally:
            await cancel(lease)

    async def _hold(self, question: ClaimedQuestion) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                await self._reads.question_renew(channel=question.channel, ts=question.ts, lease_seconds=LEASE_SECONDS)
            except TemporaryError as error:
                log.info("slack_lease_not_renewed", channel=question.channel, reason=str(error))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("slack_question_postponed", reason=f"{type(error).__name__}: {error}")
