"""Turn a window or thread of messages into a document and its content. Pure.

The content is JSON of a type of our own, which keeps messages separate, so that a citation can link to a single message. It does
not contain the channel's name or readers: renaming a channel changes no content.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from resources.core.domain import Item
from resources.core.moments import of_seconds
from resources.sources.slack.messages import IndexedMessage
from resources.sources.slack.windows import SECOND, stamp

MIME_TYPE = "application/vnd.concordance.conversation+json"
TITLE_LENGTH = 80

_encoder = msgspec.json.Encoder(order="deterministic")


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a channel that its documents need. `url` is the workspace's URL with a trailing slash."""

    team: str
    url: str
    id: str
    name: str
    private: bool = False
    archived: bool = False
    permissions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"#{self.name}"

    def source_id(self, name: int | str) -> str:
        """Return the source id of a document: of a conversation by its first message's time, of a file by its id."""
        return f"{self.team}/{self.id}/{stamp(name) if isinstance(name, int) else name}"

    def tags(self, *, thread: bool) -> dict[str, Any]:
        return {"channel": self.name, "private": self.private, "thread": thread}


class SlackDocument(msgspec.Struct, frozen=True):
    """An item, its content, and a hash of both without the permissions, which are the channel's."""

    item: Item
    content: bytes
    seal: str


def anchor(channel: ChannelInfo, message: IndexedMessage) -> str:
    """Return the last part of a message's permalink. Source: https://docs.slack.dev/reference/methods/chat.getPermalink"""
    place = "p" + message.ts.replace(".", "")
    return f"{place}?thread_ts={message.root}&cid={channel.id}" if message.reply else place


def permalink(channel: ChannelInfo, message: IndexedMessage) -> str:
    return f"{channel.url}archives/{channel.id}/{anchor(channel, message)}"


def conversation(channel: ChannelInfo, name: int, messages: Sequence[IndexedMessage], *, thread: bool) -> SlackDocument:
    """Return the document called `name` for these messages (ascending, at least one)."""
    first = messages[0]
    content = _encoder.encode({"channel": channel.id, "messages": [_shown(channel, message) for message in messages]})
    item = Item(
        source_id=channel.source_id(name),
        partition=channel.id,
        title=title(channel, first),
        path=channel.title,
        mime_type=MIME_TYPE,
        version=hashlib.sha256(content).hexdigest(),
        permissions=channel.permissions,
        author=first.name,
        url=permalink(channel, first),
        size=len(content),
        created_at=moment(first.at),
        modified_at=moment(max(max(message.at, message.edited) for message in messages)),
        collection_ids=(channel.id,),
        tags={**channel.tags(thread=thread), "participants": sorted({message.name for message in messages})},
    )
    return SlackDocument(item, content, seal(item))


def title(channel: ChannelInfo, message: IndexedMessage) -> str:
    """Return `#channel: first words`, of at most 80 characters."""
    words = " ".join(message.text.replace("```", " ").split()) or ", ".join(file_name(file) for file in message.files)
    start = f"{channel.title}: "
    if len(start) + len(words) <= TITLE_LENGTH:
        return start + words
    cut = words[: max(0, TITLE_LENGTH - len(start) - 1)]
    whole = cut.rpartition(" ")[0] if " " in cut and not words[len(cut)].isspace() else cut
    return f"{start}{whole.rstrip(' ,;:.-')}…"[:TITLE_LENGTH]


def seal(item: Item) -> str:
    """Return a hash of an item without its permissions: an item with an unchanged hash need not be reported again."""
    facts = (item.version, item.title, item.path, item.url, item.author, item.modified_at, item.tags)
    return hashlib.sha256(_encoder.encode(facts)).hexdigest()[:16]


def file_name(file: dict[str, Any]) -> str:
    return " ".join(str(file.get("title") or file.get("name") or file["id"]).split())


def moment(at: int) -> datetime | None:
    seconds, rest = divmod(at, SECOND)
    found = of_seconds(seconds)
    return found and found.replace(microsecond=rest)


def _shown(channel: ChannelInfo, message: IndexedMessage) -> dict[str, Any]:
    return {
        "ts": message.ts,
        "user": message.user,
        "name": message.name,
        "text": message.text,
        "thread_ts": message.root,
        "permalink": permalink(channel, message),
        "anchor": anchor(channel, message),
        "files": [file_name(file) for file in message.files],
    }
