"""Render Slack's markup as readable text: names for mentions, labels with URLs for links, emoji as Unicode.

A mention shows only a name that every reader of the text may know: of a public channel, or of an account of this workspace.
Private channels, users of other workspaces and user groups become a general phrase. Slack's own labels inside a mention are
dropped, since Slack writes the name there regardless of who may read it. Code keeps its backticks and its content. Pure: names
come from the given `NameLookups`.
Source: https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import Any, NamedTuple

from resources.core.json import is_object, list_of, object_of


class NameLookups(NamedTuple):
    """Lookups of names by id; each returns None for a name that not every reader may know.

    `author` names the writer of a message, whom its readers see anyway; `person` a user mentioned in it.
    """

    author: Callable[[str], str | None]
    person: Callable[[str], str | None]
    channel: Callable[[str], str | None]


def _unknown(_: str) -> str | None:
    return None


NOBODY = NameLookups(_unknown, _unknown, _unknown)
PRIVATE_CHANNEL = "a private channel"
OUTSIDER = "somebody outside of the workspace"
USER_GROUP = "a user group"

_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_TAG = re.compile(r"<([^<>\n]+)>")
_EMOJI = re.compile(r":([a-z0-9_+'\u00c0-\uffff-]+):(?::skin-tone-[2-6]:)?")
_MARKS = tuple(
    re.compile(rf"(?<![\w{mark}])[{mark}](?=\S)([^{mark}\n]+?)(?<=\S)[{mark}](?![\w{mark}])")
    for mark in ("*", "_", "~")
)
_PREVIEWS = ("from_url", "original_url", "is_msg_unfurl", "is_share", "channel_id", "channel_name")
"""Fields that only previews of links and shared messages have."""
_SCHEME = re.compile(r"^(?:mailto:|tel:|https?://)")


def readable(text: str, names: NameLookups = NOBODY) -> str:
    """Return a message's text as a user would see it, without bold, italic and strike-through marks."""
    parts = _CODE.split(text)
    return "".join(
        _code(part, names) if number % 2 else _prose(part, names) for number, part in enumerate(parts)
    ).strip()


def _code(text: str, names: NameLookups) -> str:
    return unescape(_TAG.sub(lambda match: _tag(match[1], names, plain=True), text))


def _prose(text: str, names: NameLookups) -> str:
    if not text:
        return text
    # formatting marks are removed around tags, never inside a URL or a name
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(_tag(match[1], names))
        return f"\ue000{len(held) - 1}\ue001"

    text = _TAG.sub(hold, text.replace("\ue000", "").replace("\ue001", ""))
    if ":" in text:
        text = _EMOJI.sub(_emoji, text)
    for mark in _MARKS:
        text = mark.sub(r"\1", text)
    text = unescape(text)
    return re.sub("\ue000(\\d+)\ue001", lambda match: held[int(match[1])], text) if held else text


def _tag(content: str, names: NameLookups, *, plain: bool = False) -> str:
    """Return the replacement for `<content>`; `plain` in code, where a URL is not labelled."""
    target, _, label = content.partition("|")
    label = unescape(label).strip()
    match target[:1]:
        case "@":
            person = names.person(target[1:])
            return OUTSIDER if person is None else f"@{person}"
        case "#":
            channel = names.channel(target[1:])
            return PRIVATE_CHANNEL if channel is None else f"#{channel}"
        case "!":
            return _special(target[1:], label)
        case _:
            address = unescape(target)
            shown = address.removeprefix("mailto:").removeprefix("tel:")
            if plain:
                return label or shown
            if not label or label in {shown, address} or _SCHEME.sub("", address).rstrip("/") == label.rstrip("/"):
                return shown
            return f"{label} ({shown})"


def _special(target: str, label: str) -> str:
    command, _, rest = target.partition("^")
    if command == "subteam":
        return USER_GROUP
    if command == "date":
        return label or rest.split("^")[0]
    return label or f"@{command}"


def _emoji(match: re.Match[str]) -> str:
    return _alias(match[1]) or match[0]


@lru_cache(maxsize=4096)
def _alias(name: str) -> str | None:
    """Return the emoji for Slack's short name; None for a workspace's custom emoji."""
    from emoji import emojize  # takes 80 ms to import and is only needed for messages with emoji

    for spelled in (name, name.replace("-", "_")):
        found = emojize(f":{spelled}:", language="alias")
        if found != f":{spelled}:":
            return found
    return None


def blocks_text(blocks: list[Any], names: NameLookups = NOBODY) -> str:
    """Return the text of a message's blocks, one line each. Source: https://docs.slack.dev/reference/block-kit/blocks"""
    lines: list[str] = []
    for block in blocks:
        if not is_object(block):
            continue
        if block.get("type") == "rich_text":
            lines.append(_rich(list_of(block.get("elements")), names))
            continue
        parts = [block.get("text"), *list_of(block.get("fields")), *list_of(block.get("elements")), block.get("title")]
        lines.extend(_object(part, names) for part in parts)
    return "\n".join(line for line in lines if line)


def attachments_text(attachments: list[Any], names: NameLookups = NOBODY) -> str:
    """Return the text of integrations' attachments, one line per part.

    Previews of links are left out: they quote other content, possibly of messages that not every reader may see.
    Source: https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
    """
    lines: list[str] = []
    for one in attachments:
        if not is_object(one) or any(one.get(name) for name in _PREVIEWS):
            continue
        title, link = str(one.get("title") or ""), str(one.get("title_link") or "")
        found = [
            readable(str(one.get("pretext") or ""), names),
            f"{readable(title, names)} ({link})" if title and link else readable(title, names),
            readable(str(one.get("text") or ""), names),
            *(
                f"{field.get('title') or ''}: {readable(str(field.get('value') or ''), names)}".removeprefix(": ")
                for field in list_of(one.get("fields"))
                if is_object(field)
            ),
            blocks_text(list_of(one.get("blocks")), names),
        ]
        found = [line for line in found if line]
        lines.extend(found or [readable(str(one.get("fallback") or ""), names)])
    return "\n".join(line for line in lines if line)


def _object(part: Any, names: NameLookups) -> str:
    if not is_object(part):
        return ""
    text = part.get("text")
    if is_object(text):  # a button
        return ""
    if part.get("type") in {"mrkdwn", "plain_text"}:
        return readable(str(text or ""), names)
    return ""


def _rich(elements: list[Any], names: NameLookups, bullet: str = "") -> str:
    lines: list[str] = []
    for number, element in enumerate(elements, 1):
        inside: list[Any] = element.get("elements") or []
        match element.get("type"):
            case "rich_text_list":
                mark = "{}. " if element.get("style") == "ordered" else "- "
                indent = "  " * int(element.get("indent") or 0)
                lines.append(_rich(inside, names, indent + mark))
            case "rich_text_preformatted":
                lines.append(f"```\n{_line(inside, names)}\n```")
            case "rich_text_quote":
                lines.append("\n".join(f"> {line}" for line in _line(inside, names).split("\n")))
            case _:
                lines.append(bullet.format(number) + _line(inside, names).rstrip("\n"))
    return "\n".join(line for line in lines if line)


def _line(elements: list[Any], names: NameLookups) -> str:
    parts: list[str] = []
    for element in elements:
        match element.get("type"):
            case "text":
                text = str(element.get("text") or "")
                parts.append(f"`{text}`" if object_of(element.get("style")).get("code") else text)
            case "link":
                url, label = str(element.get("url") or ""), str(element.get("text") or "")
                parts.append(f"{label} ({url})" if label and label != url else url)
            case "user":
                parts.append(_tag(f"@{element.get('user_id')}", names))
            case "channel":
                parts.append(_tag(f"#{element.get('channel_id')}", names))
            case "usergroup":
                parts.append(USER_GROUP)
            case "broadcast":
                parts.append(f"@{element.get('range')}")
            case "emoji":
                name = str(element.get("name") or "")
                parts.append(_alias(name) or f":{name}:")
            case "date":
                parts.append(str(element.get("fallback") or element.get("timestamp") or ""))
            case _:
                pass
    return "".join(parts)
