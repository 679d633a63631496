"""A conversation as the Slack connector hands it over enters; one or more blocks for each message leave.

Each block carries its message's anchor, so that a passage leads to the very message. The speaker stands before the words, code
in fences stays code, lists stay lists; short messages of one talk end up in one chunk, as all short paragraphs do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from assets.stages.normalize import Draft, clean
from assets.stages.parse.result import Parsed
from assets.stages.parse.text import paragraphs
from resources.errors import SkipDocumentError

_FENCE = re.compile(r"```[ \t]*+\n?+(.*?)```", re.DOTALL)


class Message(msgspec.Struct):
    """What of a message is indexed."""

    name: str
    text: str
    anchor: str
    files: list[str] = []


class Conversation(msgspec.Struct):
    """The content of a document of messages."""

    messages: list[Message]


def parse(data: bytes) -> Parsed:
    """Return the blocks of a conversation. Raises `SkipDocumentError` when it is not one of ours."""
    try:
        conversation = msgspec.json.decode(data, type=Conversation)
    except msgspec.MsgspecError as error:
        raise SkipDocumentError(f"It is no conversation that a connector made: {error}.") from error
    drafts = [draft for message in conversation.messages for draft in _drafts(message)]
    return Parsed(drafts=drafts)


def _drafts(message: Message) -> Iterator[Draft]:
    """Yield a message's blocks, the first with the speaker's name before it."""
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
    """Yield kind and text of what a message is made of."""
    parts = _FENCE.split(text)
    for number, part in enumerate(parts):
        if number % 2:
            if part.strip():
                yield "code", part
        else:
            for draft in paragraphs(part):
                yield draft.kind, draft.text.strip()


def _draft(kind: Any, text: str, message: Message) -> Draft:
    return Draft(kind=kind, text=text, anchor=message.anchor)
