"""The methods by which an app writes messages, with Slack's limits on their blocks.

Source: https://docs.slack.dev/reference/methods/chat.postMessage, chat.update, chat.postEphemeral, and
https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from resources.core.json import is_list, is_object
from simulators.slack import shapes
from simulators.slack.calls import MethodCall, RefusalError
from simulators.slack.model import SimulatedChannel
from simulators.slack.records import SimulatedMessage, to_micros

Json = dict[str, Any]

MOST_BLOCKS = 50
MOST_ELEMENTS = {"actions": 25, "context": 10}
TEXT_CHARACTERS = 3000
ID_CHARACTERS = 255
MESSAGE_CHARACTERS = 40_000
BLOCKS_CHARACTERS = 12_000
"""Of all texts in blocks together. Slack names no limit and refuses blocks from some 12,000 to 13,200 characters on. Source:
https://github.com/slackapi/bolt-js/issues/2509"""

TOO_LONG = "msg_blocks_too_long"

_REFERENCE = re.compile(r"<(?:[@#!][^<>\s|]+|(?:https?|mailto|tel):[^<>|\s]+)(?:\|[^<>]*)?>")
_ENTITY = re.compile(r"&(?:amp|lt|gt);")


def post_message(call: MethodCall) -> Json:
    channel = _channel(call)
    text, blocks = _content(call)
    thread = call.get("thread_ts") or None
    if thread is not None and _message(channel, thread) is None:
        raise RefusalError("thread_not_found")
    ts = call.workspace.post(channel.id, call.workspace.bot, text, thread=thread, blocks=blocks)
    return {"channel": channel.id, "ts": ts, "message": _shape(call, channel, ts)}


def update(call: MethodCall) -> Json:
    channel, ts = _channel(call), call.required("ts")
    found = _message(channel, ts)
    if found is None:
        raise RefusalError("message_not_found")
    if found.user != call.workspace.bot:
        raise RefusalError("cant_update_message")
    text, blocks = _content(call)
    call.workspace.rewrite(channel.id, ts, text, blocks)
    return {"channel": channel.id, "ts": ts, "text": text, "message": _shape(call, channel, ts)}


def post_ephemeral(call: MethodCall) -> Json:
    """Keep what one user was shown in the workspace's `whispers`."""
    channel, user = _channel(call), call.required("user")
    if user not in channel.members:
        raise RefusalError("user_not_in_channel")
    text, _ = _content(call)
    call.workspace.whispers.append((channel.id, user, text))
    return {"message_ts": call.get("thread_ts")}


def _channel(call: MethodCall) -> SimulatedChannel:
    found = call.workspace.channels.get(call.required("channel"))
    inside = found is not None and call.workspace.bot in found.members
    if found is None or (found.private and not inside):
        raise RefusalError("channel_not_found")
    if not inside:
        raise RefusalError("not_in_channel")
    if found.archived:
        raise RefusalError("is_archived")
    return found


def _message(channel: SimulatedChannel, ts: str) -> SimulatedMessage | None:
    try:
        return channel.timeline.get(to_micros(ts))
    except ValueError:
        return None


def _shape(call: MethodCall, channel: SimulatedChannel, ts: str) -> Json:
    message = channel.timeline.get(to_micros(ts))
    return {} if message is None else shapes.message(call.workspace, channel, message, call.base)


def _content(call: MethodCall) -> tuple[str, list[Any] | None]:
    """Return a message's text and blocks, as Slack would accept them."""
    text, given = call.get("text"), call.get("blocks")
    if len(text) > MESSAGE_CHARACTERS:
        raise RefusalError("msg_too_long")
    if not given:
        if not text:
            raise RefusalError("no_text")
        return text, None
    try:
        blocks: Any = msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise RefusalError("invalid_blocks_format") from error
    if not is_list(blocks):
        raise RefusalError("invalid_blocks_format")
    fault = fault_of(blocks)
    if fault == TOO_LONG:
        raise RefusalError(TOO_LONG)
    if fault is not None:
        raise RefusalError("invalid_blocks", errors=[fault])
    return text, blocks


def fault_of(blocks: list[Any]) -> str | None:
    """Return what is wrong with a message's blocks."""
    if len(blocks) > MOST_BLOCKS:
        return f"no more than {MOST_BLOCKS} items allowed [json-pointer:/blocks]"
    names = [block.get("block_id") for block in blocks if is_object(block) and block.get("block_id")]
    if len(names) != len(set(names)):
        return "block_id is not unique [json-pointer:/blocks]"
    fault = next((fault for block in blocks if (fault := _block_fault(block)) is not None), None)
    return TOO_LONG if fault is None and sum(map(_characters, blocks)) > BLOCKS_CHARACTERS else fault


def _characters(part: Any) -> int:
    """Return the characters of all texts in a block or an element of one."""
    if is_list(part):
        return sum(map(_characters, part))
    text = part.get("text") if is_object(part) else None
    return (
        len(text)
        if isinstance(text, str)
        else _characters(text or part.get("elements") or [])
        if is_object(part)
        else 0
    )


def _block_fault(block: Any) -> str | None:
    if not is_object(block) or len(str(block.get("block_id") or "")) > ID_CHARACTERS:
        return "invalid block"
    kind = block.get("type")
    if kind == "section":
        return _text_fault(block.get("text"), {"mrkdwn", "plain_text"})
    if kind not in MOST_ELEMENTS:
        return f"unsupported type: {kind}"
    elements: Any = block.get("elements")
    if not is_list(elements) or not 1 <= len(elements) <= MOST_ELEMENTS[kind]:
        return f"{kind}: wrong number of elements"
    if kind == "context":
        return next((fault for one in elements if (fault := _text_fault(one, {"mrkdwn", "plain_text"}))), None)
    actions = [one.get("action_id") for one in elements if is_object(one) and one.get("type") == "button"]
    if len(set(actions)) != len(elements) or not all(actions):
        return "actions: every element needs a type and an action_id of its own"
    return next((fault for one in elements if (fault := _text_fault(one.get("text"), {"plain_text"}))), None)


def _text_fault(text: Any, kinds: set[str]) -> str | None:
    """Return what is wrong with a text object; stray control characters count, because Slack would show something else."""
    if not is_object(text) or text.get("type") not in kinds:
        return "missing or wrong text object"
    content = str(text.get("text") or "")
    if not 1 <= len(content) <= TEXT_CHARACTERS:
        return f"must be from 1 to {TEXT_CHARACTERS} characters"
    if text["type"] == "mrkdwn" and re.search("[<>&]", _ENTITY.sub("", _REFERENCE.sub("", content))):
        return "unescaped control character"
    return None
