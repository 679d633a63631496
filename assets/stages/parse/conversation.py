"""Parse a conversation from the Slack connector into one or more blocks per message.

Each block carries its message's anchor, so that a citation links to the message itself. The speaker's name precedes the text, fenced
code stays code, lists stay lists; short messages of a conversation share a chunk, like all short paragraphs.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.result import Parsed
from assets.stages.parse.text import paragraphs
from resources.core.errors import SkipDocumentError

_FENCE = re.compile(r"```[ \t]*+\n?+(.*?)```", re.DOTALL)


class ConversationMessage(msgspec.Struct):
    name: str
    text: str
    anchor: str
    files: list[str] = []


class Conversation(msgspec.Struct):
    messages: list[ConversationMessage]


def parse(data: bytes) -> Parsed:
    """Return the blocks of a conversation. Raises `SkipDocumentError` if a connector did not write it."""
    try:
        conversation = msgspec.json.decode(data, type=Conversation)
    except msgspec.MsgspecError as error:
        raise SkipDocumentError(f"The content is not a conversation written by a connector: {error}.") from error
    drafts = [draft for message in conversation.messages for draft in _drafts(message)]
    return Parsed(drafts=drafts)


def _drafts(message: ConversationMessage) -> Iterator[BlockDraft]:
    """Yield the blocks of a message; the first begins with the speaker's name."""
    name = " ".join(message.name.split())
    files = ", ".join(" ".join(file.split()) for file in message.files)
    said = f"{name}: "
    for kind, text in _pieces(clean(message.text)):
        if said and kind == "paragraph":
            text, said = said + text, ""
        elif said:
            yield _draft("paragraph", said.rstrip(), message)
            said = ""
        yield _draft(kind, text, message)
    if files:
        yield _draft("paragraph", f"{name} shared {files}" if said else f"Shared: {files}", message)


def _pieces(text: str) -> Iterator[tuple[Any, str]]:
    parts = _FENCE.split(text)
    for number, part in enumerate(parts):
        if number % 2:
            if part.strip():
                yield "code", part
        else:
            for draft in paragraphs(part):
                yield draft.kind, draft.text.strip()


def _draft(kind: Any, text: str, message: ConversationMessage) -> BlockDraft:
    return BlockDraft(kind=kind, text=text, anchor=message.anchor)
