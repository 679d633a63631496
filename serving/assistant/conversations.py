"""Slack's conversations, for the assistant: writes messages, and finds out who reads them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

from resources.core.errors import AbortSyncError, LostPartitionError, RateLimitedError, RetryLaterError
from resources.core.json import list_of, object_of
from resources.core.retrying import Tally
from resources.rates.pace import shared_pace
from resources.settings import Settings
from resources.sources.slack.client import SlackClient, ThreadNotFoundError
from resources.sources.slack.directory import is_of_workspace
from resources.sources.slack.permissions import workspace
from serving.assistant.messages import SlackMessage, mark
from serving.http.threads import Threads
from sql.assistant import AssistantReads

CALL_SECONDS = 10
"""Longest wait for a response of Slack."""
RETRY_WAITS = (0.5, 2.0)
MOST_WAIT = 30.0
"""All waits of a call end so many seconds after it began. One for which Slack demands more fails; the question is claimed again later."""
THREADS = 8
"""Calls at a time: of questions and ratings in progress, and of some that were given up and end at their own deadline."""
MOST_ASKED_FOR = 50
"""Members whom Slack is asked about one by one: bots, and people who joined since the last sync."""
KNOWN_SECONDS = 300.0
"""How long it counts what Slack said about one of them."""
AGAIN_SECONDS = 1.0
"""Who reads a channel is not found out twice within this time."""
NO_PREVIEWS = {"unfurl_links": "false", "unfurl_media": "false"}
"""Arguments of `chat.postMessage` alone. Source: https://docs.slack.dev/reference/methods/chat.postMessage"""
SHARED = ("is_ext_shared", "is_pending_ext_shared", "is_org_shared", "is_shared", "is_im")
"""What a channel is that people from elsewhere may read. Source: https://docs.slack.dev/reference/objects/conversation-object"""


_P = ParamSpec("_P")
_T = TypeVar("_T")


class Waits:
    """The waits of calls: however often Slack asks to wait, those of one call end at one deadline. Thread-safe."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._call = threading.local()

    def within(self, call: Callable[[], _T]) -> _T:
        """Return the result of a call that begins now. Raises what it raises."""
        self._call.until = self._clock() + MOST_WAIT
        return call()

    def wait(self, seconds: float) -> None:
        """Sleep. Raises `RetryLaterError` at once if the call's deadline is sooner."""
        if self._clock() + seconds > self._call.until:
            raise RetryLaterError(f"Slack asks to wait {seconds:.0f} s.")
        self._sleep(seconds)


class _Recent:
    """Answers to questions that need not be asked again for some seconds after they were asked."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._answers: dict[Hashable, tuple[float, bool]] = {}

    async def of(self, key: Hashable, ask: Callable[[], Awaitable[bool]]) -> bool:
        now = self._clock()
        self._answers = {one: kept for one, kept in self._answers.items() if now - kept[0] < self._seconds}
        if key in self._answers:
            return self._answers[key][1]
        answer = await ask()
        self._answers[key] = now, answer
        return answer


def client(settings: Settings, waits: Waits) -> SlackClient | None:
    """Return a client that waits briefly, or None without a bot token or a way to receive events."""
    receives = settings.slack_app_token is not None or settings.slack_signing_secret is not None
    if settings.slack_bot_token is None or not receives:
        return None
    token = settings.slack_bot_token.get_secret_value()
    if not token.startswith("xoxb-"):  # a person's token would answer in that person's name
        return None
    pace = shared_pace(settings.postgres_dsn)
    return SlackClient(
        token, settings.slack_api_url, Tally(), waits=RETRY_WAITS, sleep=waits.wait, timeout=CALL_SECONDS, pace=pace
    )


class Conversations:
    """Reads and writes conversations with the bot's token. Every method raises what `SlackClient.call` raises."""

    def __init__(
        self,
        slack: SlackClient,
        reads: AssistantReads,
        waits: Waits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`waits` are those of the client."""
        self._slack = slack
        self._reads = reads
        self._waits = waits
        self._threads = Threads("slack", THREADS)
        self._channels = _Recent(AGAIN_SECONDS, clock)
        self._accounts = _Recent(KNOWN_SECONDS, clock)

    async def post(self, channel: str, thread: str, question: str, message: SlackMessage) -> str:
        """Write the reply to the question with the time `question`, and return its own time.

        If a response is lost, the message may have been written: it is looked for before it is written again.
        """
        arguments = {"channel": channel, "thread_ts": thread, **_shape(message), **NO_PREVIEWS}
        for wait in (*RETRY_WAITS, None):
            try:
                return str((await self._in_thread(self._slack.call_once, "chat.postMessage", **arguments))["ts"])
            except RetryLaterError as error:
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                limited = isinstance(error, RateLimitedError)  # the next call waits as long as Slack demands
                if not limited and (found := await self.find_reply(channel, thread, question)) is not None:
                    return found
        raise AssertionError

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        await self._call("chat.update", channel=channel, ts=ts, **_shape(message))

    async def whisper(self, channel: str, thread: str, account: str, text: str) -> None:
        """Write a message that only one person sees, and that Slack does not keep."""
        await self._call("chat.postEphemeral", channel=channel, thread_ts=thread, user=account, text=text)

    async def find_reply(self, channel: str, thread: str, question: str) -> str | None:
        """Return the time of our reply to a question: a process may have ended before it recorded it."""
        try:
            replies = await self._in_thread(self._slack.replies, channel, thread)
        except ThreadNotFoundError:
            return None
        for one in replies:
            blocks = [object_of(block) for block in list_of(one.get("blocks"))]
            if one.get("bot_id") and any(block.get("block_id") == mark(question) for block in blocks):
                return str(one["ts"])
        return None

    async def is_for_members(self, channel: str, team: str, fresh_since: datetime) -> bool:
        """Return True if everyone who reads a channel is a full member of the workspace. What cannot be found out counts as False."""
        return await self._channels.of((channel, team), partial(self._find_members, channel, team, fresh_since))

    async def _find_members(self, channel: str, team: str, fresh_since: datetime) -> bool:
        try:
            found = object_of((await self._call("conversations.info", channel=channel)).get("channel"))
            if not found or any(found.get(name) for name in SHARED):
                return False
            members = await self._in_thread(self._slack.members, channel)
            return await self._are_members(members, team, fresh_since)
        except (AbortSyncError, LostPartitionError):
            return False

    async def _are_members(self, accounts: Sequence[str], team: str, fresh_since: datetime) -> bool:
        known = await self._reads.full_members(
            accounts=list(accounts), principal=workspace(team), fresh_since=fresh_since
        )
        others = set(accounts).difference(known)
        if not accounts or len(others) > MOST_ASKED_FOR:
            return False
        for account in sorted(others):
            if not await self._accounts.of((account, team), partial(self._is_member, account, team)):
                return False
        return True

    async def _is_member(self, account: str, team: str) -> bool:
        return is_of_workspace(team, object_of((await self._call("users.info", user=account)).get("user")))

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        return await self._in_thread(self._slack.call, method, **arguments)

    async def _in_thread(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._threads.run(self._waits.within, partial(call, *args, **kwargs))


def _shape(message: SlackMessage) -> dict[str, Any]:
    """Return a message's arguments. Slack is told to link and mention nothing by itself."""
    return {"text": message.text, "blocks": json.dumps(message.blocks), "parse": "none", "link_names": "false"}
