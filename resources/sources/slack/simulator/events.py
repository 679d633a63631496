"""The JSON of the events that Slack sends to apps for changes in a workspace.

They follow their pages under https://docs.slack.dev/reference/events. Only events in channels that the bot may read are reported.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from resources.sources.slack.simulator.records import SlackMessage, to_ts

if TYPE_CHECKING:
    from resources.sources.slack.simulator.model import SimulatedChannel, Workspace

Json = dict[str, Any]


def envelope(workspace: Workspace, event: Json) -> Json:
    """Return an event in its envelope, which is the same over HTTP and over a socket."""
    authorization: Json = {"enterprise_id": None, "team_id": workspace.team, "user_id": workspace.bot, "is_bot": True}
    return {
        "token": "deprecated",
        "team_id": workspace.team,
        "context_team_id": workspace.team,
        "api_app_id": workspace.app_id,
        "event": event | {"event_ts": to_ts(workspace.now())},
        "type": "event_callback",
        "event_id": f"Ev{secrets.token_hex(6).upper()}",
        "event_time": workspace.now() // 1_000_000,
        "authorizations": [authorization | {"is_enterprise_install": False}],
        "is_ext_shared_channel": False,
    }


def posted(channel: SimulatedChannel, message: SlackMessage) -> Json:
    subtype = message.subtype or ("file_share" if message.files else None)
    shape = _in(channel) | _message(message)
    return shape | {"subtype": subtype} if subtype else shape


def changed(channel: SimulatedChannel, message: SlackMessage, before: Json) -> Json:
    """Return the event of a message that was edited, or replaced by a tombstone. `before` is from `snapshot`."""
    hidden = {"subtype": "message_changed", "hidden": True, "ts": to_ts(message.micros)}
    return _in(channel) | hidden | {"message": _message(message), "previous_message": before}


def deleted(channel: SimulatedChannel, ts: str, before: Json) -> Json:
    hidden = {"subtype": "message_deleted", "hidden": True, "ts": ts, "deleted_ts": ts}
    return _in(channel) | hidden | {"previous_message": before}


def turned_private(channel: SimulatedChannel, user: str, ts: str) -> Json:
    return _in(channel) | {"subtype": "channel_convert_to_private", "user": user, "ts": ts, "text": ""}


def joined(channel: SimulatedChannel, user: str, team: str) -> Json:
    return {"type": "member_joined_channel", "user": user, "channel": channel.id} | _kind(channel, team)


def left(channel: SimulatedChannel, user: str, team: str) -> Json:
    return {"type": "member_left_channel", "user": user, "channel": channel.id} | _kind(channel, team)


def put_out(channel: SimulatedChannel, actor: str) -> Json:
    return {"type": "group_left" if channel.private else "channel_left", "channel": channel.id, "actor_id": actor}


def of_channel(channel: SimulatedChannel, what: str, user: str) -> Json:
    """Return the event of an archived or unarchived channel (`what` is `archive` or `unarchive`)."""
    return {"type": f"{'group' if channel.private else 'channel'}_{what}", "channel": channel.id, "user": user}


def renamed(channel: SimulatedChannel) -> Json:
    named = {"id": channel.id, "name": channel.name, "created": channel.created // 1_000_000}
    return {"type": "group_rename" if channel.private else "channel_rename", "channel": named}


def snapshot(message: SlackMessage) -> Json:
    """Return the current state of a message, for the event of its change."""
    return _message(message)


def _in(channel: SimulatedChannel) -> Json:
    return {"type": "message", "channel": channel.id, "channel_type": "group" if channel.private else "channel"}


def _kind(channel: SimulatedChannel, team: str) -> Json:
    return {"channel_type": "G" if channel.private else "C", "team": team}


def _message(message: SlackMessage) -> Json:
    shape: Json = {"type": "message", "user": message.user, "text": message.text, "ts": to_ts(message.micros)}
    if message.parent is not None or message.replies:
        shape["thread_ts"] = to_ts(message.parent or message.micros)
    if message.subtype == "tombstone":
        shape["subtype"] = "tombstone"
    if message.edited is not None:
        shape["edited"] = {"user": message.edited[0], "ts": to_ts(message.edited[1])}
    return shape
