"""The JSON of the events that Slack sends to apps for changes in a workspace.

They follow their pages under https://docs.slack.dev/reference/events. Only events in channels that the bot may read are reported.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from simulators.slack.records import SimulatedMessage, SimulatedUser, to_ts

if TYPE_CHECKING:
    from simulators.slack.model import SimulatedChannel, Workspace

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


def posted(channel: SimulatedChannel, message: SimulatedMessage) -> Json:
    subtype = message.subtype or ("file_share" if message.files else None)
    shape = _in(channel) | _message(message)
    return shape | {"subtype": subtype} if subtype else shape


def mentioned(channel: SimulatedChannel, message: SimulatedMessage) -> Json:
    """Return the event of a message that mentions the app, which comes in addition to that of the message."""
    return _message(message) | {"type": "app_mention", "channel": channel.id}


def pressed(
    workspace: Workspace, channel: SimulatedChannel, message: SimulatedMessage, user: SimulatedUser, action: str
) -> Json:
    """Return what is sent for a button of a message. Raises `LookupError` if the message has no such button.

    Source: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
    """
    blocks: list[Json] = [block for block in message.blocks or () if block.get("type") == "actions"]
    found = [(block, one) for block in blocks for one in block["elements"] if one.get("action_id") == action]
    if not found:
        raise LookupError(f"the message has no button {action!r}")
    block, button = found[0]
    ts = to_ts(message.micros)
    return {
        "type": "block_actions",
        "team": {"id": workspace.team, "domain": workspace.domain},
        "user": {"id": user.id, "name": user.name, "team_id": user.team},
        "api_app_id": workspace.app_id,
        "container": {"type": "message", "message_ts": ts, "channel_id": channel.id, "is_ephemeral": False},
        "trigger_id": secrets.token_hex(8),
        "channel": {"id": channel.id, "name": channel.name},
        "message": _message(message) | {"blocks": message.blocks},
        "actions": [button | {"block_id": block.get("block_id"), "action_ts": to_ts(workspace.now())}],
    }


def changed(channel: SimulatedChannel, message: SimulatedMessage, before: Json) -> Json:
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


def snapshot(message: SimulatedMessage) -> Json:
    """Return the current state of a message, for the event of its change."""
    return _message(message)


def _in(channel: SimulatedChannel) -> Json:
    kind = "im" if channel.direct else "group" if channel.private else "channel"
    return {"type": "message", "channel": channel.id, "channel_type": kind}


def _kind(channel: SimulatedChannel, team: str) -> Json:
    return {"channel_type": "G" if channel.private else "C", "team": team}


def _message(message: SimulatedMessage) -> Json:
    shape: Json = {"type": "message", "user": message.user, "text": message.text, "ts": to_ts(message.micros)}
    if message.parent is not None or message.replies:
        shape["thread_ts"] = to_ts(message.parent or message.micros)
    if message.bot_id is not None:
        shape["bot_id"] = message.bot_id
    if message.subtype == "tombstone":
        shape["subtype"] = "tombstone"
    if message.edited is not None:
        shape["edited"] = {"user": message.edited[0], "ts": to_ts(message.edited[1])}
    return shape
