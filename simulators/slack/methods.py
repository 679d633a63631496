"""The methods of the Web API that the connector and the assistant need. Each returns Slack's response or raises `RefusalError`.

They follow their pages under https://docs.slack.dev/reference/methods and, where those are silent, what clients observed: see the notes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from simulators.slack import shapes, writing
from simulators.slack.calls import MethodCall, RefusalError, cursor, time_of
from simulators.slack.model import Workspace
from simulators.slack.records import EVENTS, SlackFile

Json = dict[str, Any]

_HISTORY = (100, 999)
_REPLIES = (1000, 1000)
_LIST = (100, 999)
_MEMBERS = (100, 1000)
_USERS = (1000, 1000)
_KINDS = {"public_channel": "channels:read", "private_channel": "groups:read", "mpim": "mpim:read", "im": "im:read"}


def answer(workspace: Workspace, method: str, token: str | None, arguments: Mapping[str, str], base: str) -> Json:
    """Return the complete response to a call, including errors; the token is checked before the arguments."""
    try:
        admit(workspace, token)
        action, scope = METHODS.get(method, (_unknown, ""))
        call = MethodCall(workspace, arguments, base)
        if scope:
            call.demand(scope)
        return {"ok": True} | action(call)
    except RefusalError as refusal:
        return {"ok": False, "error": refusal.code} | refusal.more


def admit(workspace: Workspace, token: str | None) -> None:
    """Reject a token that is missing, revoked or unknown."""
    if not token:
        raise RefusalError("not_authed")
    if token in workspace.revoked:
        raise RefusalError("token_revoked")
    if token != workspace.token:
        raise RefusalError("invalid_auth")


def visible_file(workspace: Workspace, id_: str) -> SlackFile | None:
    """Return a file if it exists and is shared where the bot may read."""
    found = workspace.files.get(id_)
    if (
        found is None
        or found.deleted
        or found.denied
        or not any(workspace.readable(place.id) for place in workspace.shared_in(id_))
    ):
        return None
    return found


def _unknown(_call: MethodCall) -> Json:
    raise RefusalError("unknown_method")


def _auth_test(call: MethodCall) -> Json:
    workspace = call.workspace
    bot = workspace.users[workspace.bot]
    return {
        "url": f"https://{workspace.domain}.slack.com/",
        "team": workspace.name,
        "user": bot.name,
        "team_id": workspace.team,
        "user_id": bot.id,
        "bot_id": bot.bot_id,
        "is_enterprise_install": False,
    }


def _users_list(call: MethodCall) -> Json:
    """List users. Source for those left out: https://docs.slack.dev/apis/slack-connect/using-slack-connect-api"""
    ids = sorted(id_ for id_, user in call.workspace.users.items() if user.listed)
    found, metadata = call.page("user", [call.workspace.users[id_] for id_ in ids], ids, call.limit(*_USERS))
    return {
        "members": [shapes.user(call.workspace, user) for user in found],
        "cache_ts": call.workspace.now() // 1_000_000,
        "response_metadata": metadata,
    }


def _users_info(call: MethodCall) -> Json:
    found = call.workspace.users.get(call.required("user"))
    if found is None:
        raise RefusalError("user_not_found")
    return {"user": shapes.user(call.workspace, found)}


def _usergroups_list(call: MethodCall) -> Json:
    """List user groups; without pages, in no order. Source: https://docs.slack.dev/reference/methods/usergroups.list"""
    shown = [
        group for group in call.workspace.usergroups.values() if not group.deleted or call.flag("include_disabled")
    ]
    users = call.flag("include_users")
    return {"usergroups": [shapes.usergroup(call.workspace, group, users=users) for group in shown]}


def _bots_info(call: MethodCall) -> Json:
    for user in call.workspace.users.values():
        if user.bot and user.bot_id == call.required("bot"):
            bot = {"id": user.bot_id, "deleted": user.deactivated, "name": user.name, "user_id": user.id}
            return {"bot": bot | {"app_id": call.workspace.app_id, "updated": user.created // 1_000_000}}
    raise RefusalError("bot_not_found")


def _files_info(call: MethodCall) -> Json:
    """Return a file. Source: https://docs.slack.dev/reference/methods/files.info"""
    id_ = call.required("file")
    known = call.workspace.files.get(id_)
    if known is not None and known.denied:
        raise RefusalError("access_denied")
    if known is not None and known.deleted:
        raise RefusalError("file_deleted")
    found = visible_file(call.workspace, id_)
    if found is None:
        raise RefusalError("file_not_found")
    return {"file": shapes.file(call.workspace, found, call.base), "comments": [], "response_metadata": {}}


def _conversations_list(call: MethodCall) -> Json:
    """List channels; archived ones are filtered out after paging, so with `exclude_archived` pages may be short."""
    workspace = call.workspace
    kinds = {kind.strip() for kind in call.get("types", "public_channel").split(",")}
    if not kinds <= _KINDS.keys():
        raise RefusalError("invalid_types")
    for kind in sorted(kinds):
        call.demand(_KINDS[kind])
    seen = [
        channel
        for _, channel in sorted(workspace.channels.items())
        if ("im" if channel.direct else "private_channel" if channel.private else "public_channel") in kinds
        and (not channel.private or workspace.bot in channel.members)
    ]
    found, metadata = call.page("team", seen, [channel.id for channel in seen], call.limit(*_LIST))
    return {
        "channels": [
            shapes.channel(workspace, channel) | {"num_members": shapes.members_of(workspace, channel)}
            for channel in found
            if not (channel.archived and call.flag("exclude_archived"))
        ],
        "response_metadata": metadata,
    }


def _conversations_info(call: MethodCall) -> Json:
    found = call.channel(history=False)
    shape = shapes.channel(call.workspace, found)
    if call.flag("include_num_members"):
        shape["num_members"] = shapes.members_of(call.workspace, found)
    return {"channel": shape}


def _conversations_members(call: MethodCall) -> Json:
    ids = sorted(call.channel(history=False).members)
    found, metadata = call.page("user_id", ids, ids, call.limit(*_MEMBERS))
    return {"members": list(found), "response_metadata": metadata}


def _conversations_history(call: MethodCall) -> Json:
    """Return messages newest first, without replies in threads; `response_metadata` is present only if there is another page.

    With `oldest` alone, pages begin at the oldest messages. Source: "if oldest is provided but not latest then the messages returned are
    those closest to oldest" (https://api.slack.com/methods/channels.history); the page of this method does not say. Hidden messages
    count as further ones. Source: observed by a client (https://github.com/hfaran/slack-auto-export/issues/2).
    """
    channel = call.channel(history=True)
    low, high = call.range()
    forward = bool(call.get("oldest")) and not call.get("latest")
    place = call.at_time()
    if place is not None:
        low, high = (max(low, place), high) if forward else (low, min(high, place + 1))
    shown = max(low, call.workspace.hidden_before)
    messages, after = channel.timeline.history(shown, high, call.limit(*_HISTORY), forward=forward)
    hidden, _ = channel.timeline.history(low, min(shown, high), 1)
    if after is None and hidden and not forward:
        after = hidden[0].micros
    return _page(
        [shapes.message(call.workspace, channel, message, call.base, history=True) for message in messages],
        after,
    ) | {"pin_count": 0}


def _conversations_replies(call: MethodCall) -> Json:
    """Return a thread, oldest first. The parent leads every page and counts towards the limit, whatever range is requested.

    Source: observed by clients (https://github.com/rusq/slackdump, stream/conversation.go); the page does not say.
    """
    channel = call.channel(history=True)
    message = channel.timeline.get(time_of(call))
    if message is None or message.subtype in EVENTS:
        raise RefusalError("thread_not_found")
    root = channel.timeline.root(message)
    if root.micros < call.workspace.hidden_before:
        raise RefusalError("thread_not_found")
    low, high = call.range()
    place = call.at_time()
    if place is not None:
        low = max(low, place)
    replies, after = channel.timeline.replies(root, low, high, max(1, call.limit(*_REPLIES) - 1))
    return _page([shapes.message(call.workspace, channel, each, call.base) for each in [root, *replies]], after)


def _page(messages: list[Json], after: int | None) -> Json:
    shape: Json = {"messages": messages, "has_more": after is not None}
    if after is not None:
        shape["response_metadata"] = {"next_cursor": cursor("next_ts", after)}
    return shape


METHODS: dict[str, tuple[Callable[[MethodCall], Json], str]] = {
    "auth.test": (_auth_test, ""),
    "bots.info": (_bots_info, "users:read"),
    "chat.postEphemeral": (writing.post_ephemeral, "chat:write"),
    "chat.postMessage": (writing.post_message, "chat:write"),
    "chat.update": (writing.update, "chat:write"),
    "conversations.history": (_conversations_history, ""),
    "conversations.info": (_conversations_info, ""),
    "conversations.list": (_conversations_list, ""),
    "conversations.members": (_conversations_members, ""),
    "conversations.replies": (_conversations_replies, ""),
    "files.info": (_files_info, "files:read"),
    "usergroups.list": (_usergroups_list, "usergroups:read"),
    "users.info": (_users_info, "users:read"),
    "users.list": (_users_list, "users:read"),
}
"""Each method with its required scope; scopes for channels depend on the channel's kind and are checked inside."""
