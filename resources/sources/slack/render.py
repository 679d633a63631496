"""Render Slack's markup as readable text: names for mentions, labels with URLs for links, emoji as Unicode.

A mention shows only a name that every reader of the text may know: of a public channel, or of an account of this workspace.
Private channels, users of other workspaces and unknown user groups become a general phrase. Slack's own labels inside a mention are
dropped, since Slack writes the name there regardless of who may read it. Code keeps its backticks and its content. Pure: names
come from the given `NameLookups`.
Source: https://docs.slack.dev/messaging/formatting-message-text
"""

import re
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import NamedTuple


class NameLookups(NamedTuple):
    """Lookups of names by id; each returns None for a name that not every reader may know.

    `author` names the writer of a message, whom its readers see anyway; `person` a user mentioned in it. `stranger` names a writer whom
    Slack does not list, at the price of a call.
    """

    author: Callable[[str], str | None]
    person: Callable[[str], str | None]
    channel: Callable[[str], str | None]
    group: Callable[[str], str | None] = lambda _: None
    stranger: Callable[[str], str | None] = lambda _: None


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
_SCHEME = re.compile(r"^(?:mailto:|tel:|https?://)")


def readable(text: str, names: NameLookups = NOBODY) -> str:
    """Return a message's text as a user would see it, without bold, italic and strike-through marks."""
    parts = _CODE.split(text)
    return "".join(
        _code(part, names) if number % 2 else _prose(part, names) for number, part in enumerate(parts)
    ).strip()


def _code(text: str, names: NameLookups) -> str:
    return unescape(_TAG.sub(lambda match: mention(match[1], names, plain=True), text))


def _prose(text: str, names: NameLookups) -> str:
    if not text:
        return text
    # formatting marks are removed around tags, never inside a URL or a name
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(mention(match[1], names))
        return f"\ue000{len(held) - 1}\ue001"

    text = _TAG.sub(hold, text.replace("\ue000", "").replace("\ue001", ""))
    if ":" in text:
        text = _EMOJI.sub(_emoji, text)
    for mark in _MARKS:
        text = mark.sub(r"\1", text)
    text = unescape(text)
    return re.sub("\ue000(\\d+)\ue001", lambda match: held[int(match[1])], text) if held else text


def mention(content: str, names: NameLookups, *, plain: bool = False) -> str:
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
            return _special(target[1:], label, names)
        case _:
            address = unescape(target)
            return (label or shown_address(address)) if plain else link(address, label)


def link(address: str, label: str) -> str:
    """Return a link's label with its address, or the address alone if the label says no more."""
    shown = shown_address(address)
    if not label or label in {shown, address} or _SCHEME.sub("", address).rstrip("/") == label.rstrip("/"):
        return shown
    return f"{label} ({shown})"


def shown_address(address: str) -> str:
    return address.removeprefix("mailto:").removeprefix("tel:")


def group_name(group: str, names: NameLookups) -> str:
    name = names.group(group)
    return USER_GROUP if name is None else f"@{name}"


def _special(target: str, label: str, names: NameLookups) -> str:
    command, _, rest = target.partition("^")
    if command == "subteam":
        return group_name(rest, names)
    if command == "date":
        return label or rest.split("^")[0]
    return label or f"@{command}"


def _emoji(match: re.Match[str]) -> str:
    return alias(match[1]) or match[0]


@lru_cache(maxsize=4096)
def alias(name: str) -> str | None:
    """Return the emoji for Slack's short name; None for a workspace's custom emoji."""
    from emoji import emojize  # takes 80 ms to import and is only needed for messages with emoji

    for spelled in (name, name.replace("-", "_")):
        found = emojize(f":{spelled}:", language="alias")
        if found != f":{spelled}:":
            return found
    return None
