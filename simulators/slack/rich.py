"""The rich text that Slack's editor makes of what a person writes, from the same message's text.

Source: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block and https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

Json = dict[str, Any]

_PIECE = re.compile(
    r"`(?P<code>[^`\n]+)`|<(?P<tag>[^<>\n]+)>|:(?P<emoji>[a-z0-9_+-]*[a-z+][a-z0-9_+-]*):(?::skin-tone-(?P<tone>[2-6]):)?"
)
_TAG = re.compile(r"<([^<>\n]+)>")
_STYLED = re.compile(r"(?<![\w*_~])(?P<mark>[*_~])(?P<inner>(?=\S)[^\n]+?(?<=\S))(?P=mark)(?![\w*_~])")
_STYLES = {"*": "bold", "_": "italic", "~": "strike"}


def rich_text(text: str, block_id: str) -> Json:
    """Return a block of rich text: sections, code and quotes."""
    parts: list[Json] = []
    for line in _parts(text):
        if isinstance(line, str):
            parts.append({"type": "rich_text_preformatted", "elements": list(_tagged(line))})
            continue
        kind, elements = line
        if parts and parts[-1]["type"] == kind:
            parts[-1]["elements"].extend(elements)
        elif elements:
            parts.append({"type": kind, "elements": elements})
    return {"type": "rich_text", "block_id": block_id, "elements": parts}


def _parts(text: str) -> Iterator[str | tuple[str, list[Json]]]:
    """Yield code as text, and the elements of each line with the kind of the part that it is in."""
    at = 0
    for match in re.finditer(r"```(.*?)```\n?", text, re.DOTALL):
        yield from _lines(text[at : match.start()])
        yield match[1].strip("\n")
        at = match.end()
    yield from _lines(text[at:])


def _lines(text: str) -> Iterator[tuple[str, list[Json]]]:
    for line in text.splitlines(keepends=True):
        quoted = re.match(r"(?:&gt;|>) ?", line)
        kind = "rich_text_quote" if quoted else "rich_text_section"
        yield kind, list(_elements(line[quoted.end() :] if quoted else line))


def _elements(line: str) -> Iterator[Json]:
    at = 0
    for match in _PIECE.finditer(line):
        yield from _text(line[at : match.start()])
        at = match.end()
        if match["code"]:
            yield from ({**one, "style": {"code": True}} for one in _tagged(match["code"]))
        elif match["emoji"]:
            tone = {"skin_tone": int(match["tone"])} if match["tone"] else {}
            yield {"type": "emoji", "name": match["emoji"], **tone}
        elif match["tag"]:
            yield _tag(match["tag"])
    yield from _text(line[at:])


def _tagged(code: str) -> Iterator[Json]:
    """Yield the elements of code, in which only mentions and links are more than text."""
    at = 0
    for match in _TAG.finditer(code):
        if before := code[at : match.start()]:
            yield {"type": "text", "text": unescape(before)}
        yield _tag(match[1])
        at = match.end()
    if rest := code[at:]:
        yield {"type": "text", "text": unescape(rest)}


def _text(text: str) -> Iterator[Json]:
    at = 0
    for match in _STYLED.finditer(text):
        if before := text[at : match.start()]:
            yield {"type": "text", "text": unescape(before)}
        yield {"type": "text", "text": unescape(match["inner"].strip("*_~")), "style": {_STYLES[match["mark"]]: True}}
        at = match.end()
    if rest := text[at:]:
        yield {"type": "text", "text": unescape(rest)}


def _tag(content: str) -> Json:
    target, _, label = content.partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")}
    if target.startswith("!date^"):
        return {"type": "date", "timestamp": int(target.split("^")[1]), "fallback": label}
    if target.startswith("!"):
        return {"type": "broadcast", "range": target[1:]}
    link: Json = {"type": "link", "url": unescape(target)}
    return link | {"text": unescape(label)} if label else link
