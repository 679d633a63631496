"""Read Slack's events and record the messages, files and channels that they concern.

An event is only recorded here. What it concerns is hidden in the same transaction, and waits in the channel's memory (`e:EVENT_ID`)
for the next sync, which reads it again. The same for the Events API and for Socket Mode.
Source: https://docs.slack.dev/reference/events
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from resources.core.domain import SourceName
from resources.core.json import is_object, object_of
from resources.sources.slack.envelope import Envelope
from resources.sources.slack.questions import Interaction, question_of, rating_of
from resources.sources.slack.windows import LONGEST, micros, stamp
from resources.stores.postgres import Connection
from sql.sources import ConnectedApp, EventChannel, Events

SLACK = SourceName.SLACK.value
CONVERTED = frozenset({"channel_convert_to_private", "group_convert_to_private"})
GONE = frozenset({"channel_deleted", "group_deleted", "channel_left", "group_left"})
PLAIN = frozenset(
    {
        "member_joined_channel",
        "member_left_channel",
        "channel_archive",
        "channel_unarchive",
        "channel_rename",
        "group_archive",
        "group_unarchive",
        "group_rename",
    }
)
"""Events of a channel that ask for a sync of it and change no text."""
FILES = frozenset({"file_deleted", "file_change", "file_unshared"})
CHANNELS = frozenset({"channel", "group"})
"""Kinds of conversations that the connector reads; direct messages are none of them."""


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """Part of Slack that an event concerns: a message, a file, a whole channel, or only its members."""

    kind: str
    channel: str | None
    ts: str | None = None
    thread: str | None = None
    file: str | None = None
    whole: bool = False
    hides: bool = False
    """True if indexed content or permissions are out of date."""
    left: str | None = None
    """The account that left the channel."""
    opens: bool = False
    """True if the app was added to a channel."""

    @property
    def waits(self) -> bool:
        """Return True if the next sync of the channel must read something again that it would not read by itself."""
        return bool(self.ts or self.thread or self.file or self.whole or self.left)


class Recorded(msgspec.Struct, frozen=True):
    """Outcome of an event: why nothing was done, or the documents that were hidden."""

    outcome: str
    hidden: list[str] = []


def touch_of(envelope: Envelope) -> Touch | None:
    """Return what an event concerns, None for one that changes nothing of what is indexed."""
    event = envelope.event
    kind = str(event.get("type") or "")
    if kind == "message":
        return _message(event)
    if kind in FILES:
        file = event.get("file_id") or object_of(event.get("file")).get("id")
        return Touch(kind=kind, channel=None, file=str(file), hides=True) if file else None
    channel = event.get("channel")
    channel = channel.get("id") if is_object(channel) else channel
    if not isinstance(channel, str) or kind not in GONE | PLAIN:
        return None
    own = {one.user_id for one in envelope.authorizations}
    opens = kind == "member_joined_channel" and event.get("user") in own
    left = str(event.get("user") or "") if kind == "member_left_channel" else None
    return Touch(kind=kind, channel=channel, whole=kind in GONE, hides=kind in GONE, opens=opens, left=left)


class Withholds(Protocol):
    """Keeps what searches without Postgres must know, durably, before the transaction commits."""

    def documents(self, connection: Connection, doc_ids: Sequence[str]) -> None:
        """Limit documents to their present readers."""
        ...


def record(connection: Connection, envelope: Envelope, withholding: Withholds) -> Recorded:
    """Write an event down and hide what it concerns, in one transaction. An event that is known already does nothing.

    Anyone who left a channel loses access to it in the same transaction. A question is stored for the assistant.
    """
    question = question_of(envelope)
    touch = None if question else touch_of(envelope)
    if (touch is None and question is None) or not envelope.event_id:
        return Recorded("not_indexed")
    registry = Events(connection)
    teams, app = _teams(registry) & envelope.teams, registry.app(source=SLACK)
    if not teams:
        return Recorded("other_team")
    if _is_other(app, envelope.api_app_id):
        return Recorded("other_app")
    if question is not None:
        stored = registry.ask(
            channel=question.channel,
            ts=question.ts,
            event_id=envelope.event_id,
            team=min(teams),
            account=question.account,
            thread=question.thread,
            direct=question.direct,
            question=question.text,
        )
        return Recorded("repeated" if stored is None else "question")
    if touch is None or _is_own(app, envelope.event):
        return Recorded("not_indexed")
    with connection.transaction():
        channels = _channels(registry, touch)
        if not channels and not touch.opens:
            return Recorded("unknown_channel")
        key = f"{SLACK}:{envelope.event_id}"
        hidden: list[str] = []
        narrowed: list[str] = []
        for one in channels or [None]:
            channel = None if one is None else one.partition
            received = registry.receive(
                event_id=f"{key}:{channel or ''}",
                source=SLACK,
                partition=channel,
                kind=touch.kind,
                urgent=touch.hides or touch.kind != "message",
                asked=one is not None and not one.stored,  # the source may not have such a partition
            )
            if received is None:
                return Recorded("repeated")
            if channel is not None and touch.waits:
                value = _word(touch, min(teams))
                registry.touch(partition=channel, key=f"e:{envelope.event_id}", value=value)
                hidden += registry.hide_for(partition=channel, event_id=envelope.event_id)
            if channel is not None and touch.left:
                rows = registry.depart(partition=channel, account=touch.left, event_id=envelope.event_id)
                narrowed += [row.doc_id for row in rows]
        if hidden or narrowed:
            withholding.documents(connection, [*hidden, *narrowed])
    return Recorded("recorded", hidden)


def record_rating(connection: Connection, interaction: Interaction) -> Recorded:
    """Store a rating of an answer. Only the first one of the person who asked counts."""
    rating = rating_of(interaction)
    if rating is None:
        return Recorded("not_indexed")
    registry = Events(connection)
    if interaction.team is None or interaction.team.id not in _teams(registry):
        return Recorded("other_team")
    if _is_other(registry.app(source=SLACK), interaction.api_app_id):
        return Recorded("other_app")
    stored = registry.rate(
        channel=rating.channel, reply_ts=rating.reply_ts, account=rating.account, verdict=rating.verdict
    )
    return Recorded("repeated" if stored is None else "rating")


def _teams(registry: Events) -> set[str]:
    return {principal.partition(":")[2] for principal in registry.teams()}


def _is_other(app: ConnectedApp | None, app_id: str) -> bool:
    """Return True if an event is for another app than the one that reads the source, as far as that is known."""
    return app is not None and app.app_id is not None and app.app_id != app_id


def _is_own(app: ConnectedApp | None, event: dict[str, Any]) -> bool:
    """Return True for a message of the app itself, which is not indexed."""
    if app is None or not app.bot_id:
        return False
    messages = (event, object_of(event.get("message")), object_of(event.get("previous_message")))
    return any(one.get("bot_id") == app.bot_id for one in messages)


def _channels(registry: Events, touch: Touch) -> list[EventChannel]:
    """Return the channels that an event concerns: those that were synced before, and those of which a sync may save what it has read."""
    if touch.file is not None:
        registry.lock_files()
        return registry.holders(file=f"f:{touch.file}")
    found = registry.known_partition(source=SLACK, partition=touch.channel)
    return [one for one in found if one.stored or touch.waits]


def _message(event: dict[str, Any]) -> Touch | None:
    channel, subtype = event.get("channel"), str(event.get("subtype") or "")
    if not isinstance(channel, str) or event.get("channel_type", "channel") not in CHANNELS:
        return None
    if subtype in CONVERTED:
        return Touch(kind=subtype, channel=channel, whole=True, hides=True)
    if subtype not in {"message_changed", "message_deleted"}:
        thread = event.get("thread_ts")
        return Touch(kind="message", channel=channel, thread=_time(thread) if thread != event.get("ts") else None)
    now: dict[str, Any] = event.get("message") or {}
    before: dict[str, Any] = event.get("previous_message") or {}
    ts = _time(event.get("deleted_ts") or now.get("ts") or before.get("ts"))
    thread = _time(now.get("thread_ts") or before.get("thread_ts"))
    return Touch(kind=subtype, channel=channel, ts=ts, thread=thread, hides=True) if ts else None


def _time(ts: Any) -> str | None:
    """Return a time as the ledger writes it, None for what is none."""
    try:
        return stamp(micros(str(ts))) if ts else None
    except ValueError:
        return None


def _word(touch: Touch, team: str) -> dict[str, Any]:
    """Return what waits for the sync, in the form that `hide_touched` reads."""
    at = micros(touch.ts) if touch.ts else None
    low = None if at is None else stamp(max(0, at - LONGEST))
    return {
        "hide": touch.hides,
        "team": team,
        "all": touch.whole,
        "file": touch.file,
        "at": at,
        "low": low,
        "ts": touch.ts,
        "thread": touch.thread,
    }
