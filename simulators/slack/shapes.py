"""Slack's JSON objects for the records of the workspace.

Source: https://docs.slack.dev/reference/objects (user, conversation, file) and the methods' example responses.
"""

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from simulators.slack.model import SimulatedChannel, Workspace
from simulators.slack.records import SLACKBOT, SimulatedMessage, SimulatedUser, SlackFile, UserGroup, to_ts
from simulators.slack.rich import rich_text

Json = dict[str, Any]

NO_REPLIES = "0000000000.000000"
"""`latest_reply` of a parent whose replies were all deleted."""
_REPLY_USERS = 5
"""Slack lists at most this many authors of a thread."""
_CANVAS_EXTRA = 1000
"""Slack counts a canvas as it stores it, not as the page that it sends."""
_FILETYPES = {
    "text/plain": "text",
    "text/markdown": "markdown",
    "image/jpeg": "jpg",
    "application/vnd.slack-docs": "quip",
    "application/vnd.slack-list": "list",
}


def usergroup(workspace: Workspace, found: UserGroup, *, users: bool) -> Json:
    """Return a user group. Source: https://docs.slack.dev/reference/objects/usergroup-object"""
    shape: Json = {
        "id": found.id,
        "team_id": workspace.team,
        "is_usergroup": True,
        "name": found.handle,
        "handle": found.handle,
        "is_external": False,
        "date_create": found.created // 1_000_000,
        "date_delete": found.deleted // 1_000_000,
        "user_count": len(found.users),
    }
    return {**shape, "users": found.users} if users else shape


def user(workspace: Workspace, found: SimulatedUser) -> Json:
    """Return a user; with the email only if the token may see it and the user isn't a stranger."""
    zone = datetime.fromtimestamp(workspace.now() / 1e6, UTC).astimezone(ZoneInfo(found.tz))
    offset = zone.utcoffset()
    # a stranger is a user of another workspace who is in none of the bot's channels; other external users are not marked so
    stranger = found.external and not any(
        found.id in channel.members and workspace.bot in channel.members for channel in workspace.channels.values()
    )
    profile: Json = {
        "real_name": found.name,
        "display_name": "" if found.bot else found.name,
        "team": found.team,
    }
    if found.bot:
        profile |= {"bot_id": found.bot_id, "api_app_id": workspace.app_id}
    elif found.email is not None and not stranger and "users:read.email" in workspace.scopes:
        profile["email"] = found.email
    shape: Json = {
        "id": found.id,
        "team_id": found.team,
        "name": found.name.lower().replace(" ", "."),
        "deleted": found.deactivated,
        "profile": profile,
        "is_bot": found.bot,
        "is_app_user": False,
        "updated": found.updated // 1_000_000 or found.created // 1_000_000,
    }
    if found.deactivated:
        return shape  # Slack returns nothing more about them
    return shape | {
        "real_name": found.name,
        "tz": found.tz,
        "tz_label": zone.tzname(),
        "tz_offset": int(offset.total_seconds()) if offset is not None else 0,
        "is_restricted": found.guest,
        "is_ultra_restricted": False,
        "is_stranger": stranger,
        "is_email_confirmed": found.email is not None,
    }


def channel(workspace: Workspace, found: SimulatedChannel) -> Json:
    """Return a channel, without the number of its members."""
    shared = is_connected(workspace, found)
    return {
        "id": found.id,
        "name": found.name,
        "is_private": found.private and not found.direct,
        "is_im": found.direct,
        "is_archived": found.archived,
        "is_member": workspace.bot in found.members and not found.archived,
        "is_shared": shared,
        "is_ext_shared": shared,
        "created": found.created // 1_000_000,
        "updated": (found.updated or found.created) // 1000,
        "creator": found.creator,
        "topic": {"value": found.topic, "creator": "", "last_set": 0},
        "purpose": {"value": found.purpose, "creator": "", "last_set": 0},
    }


def is_connected(workspace: Workspace, found: SimulatedChannel) -> bool:
    """Return True if people of another workspace are in the channel."""
    return any(workspace.users[member].external for member in found.members)


def members_of(workspace: Workspace, found: SimulatedChannel) -> int:
    return sum(not workspace.users[member].deactivated for member in found.members)


def message(
    workspace: Workspace, found: SimulatedChannel, written: SimulatedMessage, base: str, *, history: bool = False
) -> Json:
    """Return a message; `base` is the URL below which its files are served."""
    writer = workspace.users[written.user]
    shape: Json = {"type": "message", "user": written.user, "text": written.text, "ts": to_ts(written.micros)}
    if written.subtype is not None:
        shape["subtype"] = written.subtype
    if written.subtype == "tombstone":
        shape["hidden"] = True
    else:
        shape["team"] = writer.team
    if written.subtype == "bot_message":
        del shape["user"]
        shape |= {"bot_id": writer.bot_id, "username": writer.name}
    elif writer.bot:
        shape |= {"bot_id": writer.bot_id, "app_id": workspace.app_id}
    if written.files:
        shown = stub if is_connected(workspace, found) else file
        shape["files"] = [shown(workspace, workspace.files[id_], base) for id_ in written.files]
        shape["upload"] = True
    if written.blocks is not None:
        shape["blocks"] = written.blocks
    elif written.text and not writer.bot and written.subtype in {None, "thread_broadcast"}:
        # Slack's editor adds it to what people write
        shape["blocks"] = [rich_text(written.text, f"b{written.micros:x}")]
    if written.attachments is not None:
        shape["attachments"] = written.attachments
    if written.edited is not None:
        editor, at = written.edited
        shape["edited"] = {"user": editor, "ts": to_ts(at)}
    if written.parent is not None:
        root = found.timeline.root(written)
        shape |= {"thread_ts": to_ts(root.micros), "parent_user_id": root.user}
        if history:
            shape["root"] = message(workspace, found, root, base)
    elif written.threaded:
        shape |= _thread(found, written)
    return shape


def file(workspace: Workspace, found: SlackFile, base: str) -> Json:
    """Return a file, or the stub of a deleted one."""
    if found.deleted:
        return {"id": found.id, "mode": "tombstone"}
    address = f"{base}/files-pri/{workspace.team}-{found.id}"
    name = quote(found.name, safe="", errors="replace")
    created = found.created // 1_000_000
    places = workspace.shared_in(found.id)
    filetype = _FILETYPES.get(found.mimetype) or PurePosixPath(found.name).suffix.removeprefix(".").lower() or "binary"
    return {
        "id": found.id,
        "created": created,
        "timestamp": created,
        "name": found.name,
        "title": found.name,
        "mimetype": found.mimetype,
        "filetype": filetype,
        "user": found.user,
        "size": len(found.content) + (_CANVAS_EXTRA if found.mode == "quip" else 0),
        "mode": found.mode,
        "is_external": False,
        "is_public": any(not place.private for place in places),
        "channels": sorted({place.id for place in places if not place.private}),
        "groups": sorted({place.id for place in places if place.private}),
        "url_private": f"{address}/{name}",
        "url_private_download": f"{address}/download/{name}",
        "permalink": f"https://{workspace.domain}.slack.com/files/{found.user}/{found.id}/{name}",
        "file_access": "visible",
    }


def stub(workspace: Workspace, found: SlackFile, base: str) -> Json:
    """Return a file as messages in a channel with connected workspaces have it; `files.info` tells the rest.

    Source: https://docs.slack.dev/reference/objects/file-object#slack_connect_files
    """
    if found.deleted:
        return file(workspace, found, base)
    facts = {"mode": "file_access", "file_access": "check_file_info"}
    return {"id": found.id, **facts, "created": 0, "timestamp": 0, "user": ""}


def _thread(found: SimulatedChannel, parent: SimulatedMessage) -> Json:
    authors: list[str] = []
    for micros in parent.replies:
        reply = found.timeline.get(micros)
        if reply is not None and reply.user not in authors:
            authors.append(reply.user)
    shape: Json = {
        "thread_ts": to_ts(parent.micros),
        "reply_count": len(parent.replies),
        "reply_users_count": len(authors),
        "latest_reply": to_ts(parent.replies[-1]) if parent.replies else NO_REPLIES,
        "reply_users": authors[:_REPLY_USERS],
    }
    if parent.subtype == "tombstone":
        shape["parent_user_id"] = SLACKBOT
    return shape
