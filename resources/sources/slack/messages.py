"""Convert Slack's JSON of a message to what is indexed: author, time, text and files.

Messages that Slack itself writes to a channel (a user joined, the topic changed) have no author and are left out.
"""

import hashlib
from typing import Any

import msgspec

from resources.core.json import list_of, object_of
from resources.sources.slack.blocks import attachments_text, blocks_text, own_attachments
from resources.sources.slack.render import NameLookups, readable
from resources.sources.slack.windows import micros

SYSTEM = frozenset(
    {
        "tombstone",
        "pinned_item",
        "unpinned_item",
        "bot_add",
        "bot_remove",
        "bot_enable",
        "bot_disable",
        "reminder_add",
        "sh_room_created",
        "huddle_thread",
        "ekm_access_denied",
        "added_as_channel_member",
        "joiner_notification",
        "app_conversation_join",
    }
)
SYSTEM_PREFIXES = ("channel_", "group_")
"""Subtypes of messages that Slack writes itself. Source: https://docs.slack.dev/reference/events/message#subtypes"""

_encoder = msgspec.json.Encoder(order="deterministic")


class IndexedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it is indexed. `root` is the time of the thread's parent for replies and parents with replies."""

    at: int
    ts: str
    user: str
    name: str
    text: str
    root: str | None = None
    edited: int = 0
    files: tuple[dict[str, Any], ...] = ()

    @property
    def reply(self) -> bool:
        return self.root is not None and self.root != self.ts


def is_reply(raw: dict[str, Any]) -> bool:
    """Return True if a message is a reply in a thread; replies appear in the channel itself only if they were broadcast."""
    thread = raw.get("thread_ts")
    return thread is not None and thread != raw.get("ts")


def is_root(raw: dict[str, Any]) -> bool:
    """Return True if a message has replies now; one that lost all of them keeps its `thread_ts`."""
    return not is_reply(raw) and int(raw.get("reply_count") or 0) > 0


def parse_message(
    raw: dict[str, Any], names: NameLookups, *, own_bot: str = "", thread: str | None = None
) -> IndexedMessage | None:
    """Return the message of a user or bot, or None for system messages, deleted messages and empty ones.

    Messages of our own bot are left out as well: its answers are not sources of others.
    """
    subtype = str(raw.get("subtype") or "")
    if own_bot and raw.get("bot_id") == own_bot:
        return None
    if subtype in SYSTEM or subtype.startswith(SYSTEM_PREFIXES) or "ts" not in raw:
        return None
    files = tuple(
        file for file in raw.get("files") or () if file and file.get("id") and file.get("mode") != "tombstone"
    )
    text = _text(raw, names)
    if not text and not files:
        return None
    user, name = _author(raw, names)
    ts = str(raw["ts"])
    edited = object_of(raw.get("edited")).get("ts")
    return IndexedMessage(
        at=micros(ts),
        ts=ts,
        user=user,
        name=name,
        text=text,
        root=thread,
        edited=micros(str(edited)) if edited else 0,
        files=files,
    )


def fingerprint(raw: dict[str, Any]) -> str:
    """Return a hash of a thread parent's own changeable content, so that only changed threads are read again."""
    parts: list[Any] = [
        raw.get("subtype"),
        raw.get("text"),
        object_of(raw.get("edited")).get("ts"),
        [(file.get("id"), file.get("mode")) for file in list_of(raw.get("files")) if file],
    ]
    # what people write has rich text that says the same as the text; an app may change blocks and attachments alone
    blocks, attached = list_of(raw.get("blocks")), own_attachments(list_of(raw.get("attachments")))
    if attached or (blocks and raw.get("bot_id")) or any(object_of(one).get("type") != "rich_text" for one in blocks):
        parts += [blocks, attached]
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()[:16]


def _text(raw: dict[str, Any], names: NameLookups) -> str:
    """Return what a reader sees: the blocks if they hold text, which the message's own text only stands in for in notifications."""
    text = blocks_text(list_of(raw.get("blocks")), names) or readable(str(raw.get("text") or ""), names)
    attached = attachments_text(list_of(raw.get("attachments")), names)
    return f"{text}\n{attached}" if text and attached and attached not in text else text or attached


def _author(raw: dict[str, Any], names: NameLookups) -> tuple[str, str]:
    """Return the author's id and name; integrations post under a name of their own."""
    user = str(raw.get("user") or "")
    bot: dict[str, Any] = raw.get("bot_profile") or {}
    profile: dict[str, Any] = raw.get("user_profile") or {}
    known = names.author(user) if user else None
    shown = raw.get("username") if raw.get("subtype") == "bot_message" or not known else None
    name = shown or known or bot.get("name") or profile.get("display_name") or profile.get("real_name")
    name = name or (names.stranger(user) if user else None)
    return user or str(raw.get("bot_id") or ""), " ".join(str(name or user or raw.get("bot_id") or "somebody").split())
