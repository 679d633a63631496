"""Questions that people ask the app in Slack, and their ratings of its answers: find them in what Slack sends. Pure.

A question is a message to the app in a direct message, or one that mentions it in a channel. Messages of bots, edits, and what Slack
itself writes are none, so the app never answers itself or another app.
Source: https://docs.slack.dev/reference/events/app_mention, https://docs.slack.dev/reference/events/message.im,
https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
"""

import re
from typing import Any

import msgspec

from resources.sources.slack.envelope import Envelope
from resources.sources.slack.render import NOBODY, readable

WRITTEN = frozenset({"", "file_share", "thread_broadcast"})
"""Subtypes of messages that a person writes."""
NOT_WRITTEN = ("bot_id", "bot_profile", "app_id", "edited", "hidden")
"""Fields that messages of apps, and edits, have."""
MOST_CHARACTERS = 2000
"""Longer questions are refused anyway; this much of one is stored."""
VERDICTS = {"answer_good": "good", "answer_bad": "bad"}
"""What the buttons below an answer mean, by their `action_id`."""

_TS = re.compile(r"\d{10}\.\d{6}")
_ID = re.compile(r"[A-Z0-9]{2,30}")


class SlackQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question. `thread`: the first message of its thread, which may be the question itself."""

    channel: str
    ts: str
    thread: str
    account: str
    direct: bool
    text: str


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """A click on a button below an answer; `reply_ts` is the answer's message."""

    channel: str
    reply_ts: str
    account: str
    verdict: str


class _Named(msgspec.Struct):
    id: str = ""


class _Container(msgspec.Struct):
    channel_id: str = ""
    message_ts: str = ""


class _Action(msgspec.Struct):
    action_id: str = ""


class Interaction(msgspec.Struct):
    """A person's interaction with a part of a message, as Slack delivers it."""

    type: str
    api_app_id: str = ""
    team: _Named | None = None
    user: _Named = msgspec.field(default_factory=_Named)
    container: _Container = msgspec.field(default_factory=_Container)
    actions: list[_Action] = []


def _someone(_: str) -> str:
    return "someone"


_NAMES = NOBODY._replace(person=_someone)


def question_of(envelope: Envelope) -> SlackQuestion | None:
    """Return the question that an event is, or None. Only events for a bot count: others are of people's own conversations."""
    event = envelope.event
    direct = event.get("type") == "message" and event.get("channel_type") == "im"
    if not direct and event.get("type") != "app_mention":
        return None
    if str(event.get("subtype") or "") not in WRITTEN or any(event.get(name) for name in NOT_WRITTEN):
        return None
    bots = {one.user_id for one in envelope.authorizations if one.is_bot and one.user_id}
    channel, account, ts = (str(event.get(name) or "") for name in ("channel", "user", "ts"))
    thread = str(event.get("thread_ts") or ts)
    if not bots or account in bots or not (_ID.fullmatch(channel) and _ID.fullmatch(account)):
        return None
    if not (_TS.fullmatch(ts) and _TS.fullmatch(thread)):
        return None
    text = _text(event, bots)[:MOST_CHARACTERS]
    return SlackQuestion(channel=channel, ts=ts, thread=thread, account=account, direct=direct, text=text)


def rating_of(interaction: Interaction) -> Rating | None:
    """Return the rating that an interaction is, or None."""
    verdict = next((VERDICTS[one.action_id] for one in interaction.actions if one.action_id in VERDICTS), None)
    if interaction.type != "block_actions" or verdict is None:
        return None
    place = interaction.container
    return Rating(channel=place.channel_id, reply_ts=place.message_ts, account=interaction.user.id, verdict=verdict)


def _text(event: dict[str, Any], bots: set[str]) -> str:
    """Return a question's text without the mention of the app."""
    text = str(event.get("text") or "").replace("\x00", "")
    for bot in bots:
        text = re.sub(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", " ", text)
    return " ".join(readable(text, _NAMES).split())
