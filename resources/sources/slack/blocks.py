"""Render the blocks and attachments of a message as text, one line each. Pure.

Blocks are what a reader sees; the text beside them is for notifications. Buttons and other controls have no text of their own here.
Source: https://docs.slack.dev/reference/block-kit/blocks
"""

import re
from typing import Any

from resources.core.json import Object, is_list, is_object, list_of, object_of
from resources.sources.slack.render import NOBODY, NameLookups, alias, group_name, link, mention, readable

_PREVIEWS = ("from_url", "original_url", "is_msg_unfurl", "is_share", "channel_id", "channel_name")
"""Fields that only previews of links and shared messages have."""
_TEXTS = (
    "title",
    "subtitle",
    "caption",
    "label",
    "text",
    "body",
    "description",
    "hint",
    "fields",
    "elements",
    "accessory",
)
_CHILDREN = ("cards", "child_blocks", "blocks")
_CONTROLS = frozenset({"actions", "context_actions", "divider", "file"})
_CELL_SPACE = re.compile(r"\s+")
_NO_PREVIEW = "[no preview available]"
"""What Slack writes as the fallback of attachments that consist of blocks."""
_MARKDOWN = (
    (re.compile(r"^#{1,6}[ \t]+", re.MULTILINE), ""),
    (re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"!\[([^\]\n]*)\]\([^)\s]+\)"), r"\1"),
    (re.compile(r"(?<!!)\[([^\]\n]+)\]\((https?://[^)\s]+)\)"), r"\1 (\2)"),
)
_FENCE = re.compile(r"(```.*?```)", re.DOTALL)


def blocks_text(blocks: list[Any], names: NameLookups = NOBODY) -> str:
    """Return the text of a message's blocks; empty if they hold none."""
    return "\n".join(line for block in blocks if (line := _block(block, names)))


def attachments_text(attachments: list[Any], names: NameLookups = NOBODY) -> str:
    """Return the text of integrations' attachments, one line per part.

    Previews of links are left out: they quote other content, possibly of messages that not every reader may see.
    Source: https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
    """
    lines: list[str] = []
    for one in own_attachments(attachments):
        title, link = str(one.get("title") or ""), str(one.get("title_link") or "")
        found = [
            readable(str(one.get("pretext") or ""), names),
            readable(str(one.get("author_name") or ""), names),
            f"{readable(title, names)} ({link})" if title and link else readable(title, names),
            readable(str(one.get("text") or ""), names),
            *(
                f"{field.get('title') or ''}: {readable(str(field.get('value') or ''), names)}".removeprefix(": ")
                for field in list_of(one.get("fields"))
                if is_object(field)
            ),
            blocks_text(list_of(one.get("blocks")), names),
            readable(str(one.get("footer") or ""), names),
        ]
        found = [line for line in found if line]
        fallback = readable(str(one.get("fallback") or ""), names)
        lines.extend(found or [fallback] * (fallback != _NO_PREVIEW))
    return "\n".join(line for line in lines if line)


def own_attachments(attachments: list[Any]) -> list[Object]:
    """Return the attachments that are no previews of links."""
    return [one for one in attachments if is_object(one) and not any(one.get(name) for name in _PREVIEWS)]


def _block(block: Any, names: NameLookups) -> str:
    if not is_object(block):
        return ""
    match block.get("type"):
        case "rich_text":
            return _rich(list_of(block.get("elements")), names)
        case "table" | "data_table":
            caption = _part(block.get("caption"), names) or str(block.get("caption") or "")
            rows = [_row(row, names) for row in list_of(block.get("rows"))]
            return "\n".join(line for line in (caption, *rows) if line)
        case "markdown":
            return _markdown(str(block.get("text") or ""), names)
        case "image" | "video":
            parts = [_part(block.get("title"), names), _part(block.get("description"), names)]
            alt = str(block.get("alt_text") or "").strip()
            return "\n".join(line for line in (*parts, "" if alt in parts else alt) if line)
        case kind if kind in _CONTROLS:
            return ""
        case _:
            lines = [_part(block.get(name), names) for name in _TEXTS]
            lines += [blocks_text(list_of(block.get(name)), names) for name in _CHILDREN]
            return "\n".join(line for line in lines if line)


def _part(part: Any, names: NameLookups) -> str:
    """Return the text of a text object, an image, rich text, or a list of these; none of a control."""
    if is_list(part):
        return "\n".join(line for one in part if (line := _part(one, names)))
    if not is_object(part):
        return ""
    match part.get("type"):
        case "mrkdwn" | "plain_text":
            return readable(str(part.get("text") or ""), names)
        case "image":
            return str(part.get("alt_text") or "").strip()
        case "rich_text" | "card" | "markdown":
            return _block(part, names)
        case _:
            return ""


def _row(row: Any, names: NameLookups) -> str:
    """Return a row of a table with a bar between its cells."""
    cells: list[Any] = list_of(row) if is_list(row) else list_of(object_of(row).get("cells"))
    found = [_cell(cell, names) for cell in cells]
    return " | ".join(found) if any(found) else ""


def _cell(cell: Any, names: NameLookups) -> str:
    if not is_object(cell):
        return ""
    plain = cell.get("text")
    text = str(plain) if isinstance(plain, str | int | float) else _block(cell, names) or str(cell.get("value") or "")
    return _CELL_SPACE.sub(" ", text).strip().replace("|", "\\|")


def _markdown(text: str, names: NameLookups) -> str:
    """Return standard Markdown as it is shown, with names for mentions; code keeps its text."""
    parts = _FENCE.split(text)
    for number in range(0, len(parts), 2):
        for pattern, shown in _MARKDOWN:
            parts[number] = pattern.sub(shown, parts[number])
    return readable("".join(parts), names)


def _rich(elements: list[Any], names: NameLookups, bullet: str = "", start: int = 1) -> str:
    lines: list[str] = []
    for number, element in enumerate(filter(is_object, elements), start):
        inside = list_of(element.get("elements"))
        match element.get("type"):
            case "rich_text_list":
                mark = "{}. " if element.get("style") == "ordered" else "- "
                indent = "  " * int(element.get("indent") or 0)
                lines.append(_rich(inside, names, indent + mark, 1 + int(element.get("offset") or 0)))
            case "rich_text_preformatted":
                lines.append(f"```\n{_line(inside, names, code=True)}\n```")
            case "rich_text_quote":
                lines.append("\n".join(f"> {line}" for line in _line(inside, names).rstrip("\n").split("\n")))
            case _:
                lines.append(bullet.format(number) + _line(inside, names).rstrip("\n"))
    return "\n".join(line for line in lines if line)


def _line(elements: list[Any], names: NameLookups, *, code: bool = False) -> str:
    """Return the text of a line's elements; what is written as code has backticks, unless the whole line is `code`."""
    parts: list[str] = []
    for element in filter(is_object, elements):
        text = _element(element, names)
        as_code = text and not code and object_of(element.get("style")).get("code")
        parts.append(f"`{text}`" if as_code else text)
    return "".join(parts)


def _element(element: Object, names: NameLookups) -> str:
    match element.get("type"):
        case "text":
            return str(element.get("text") or "")
        case "link":
            return link(str(element.get("url") or ""), str(element.get("text") or "").strip())
        case "user":
            return mention(f"@{element.get('user_id')}", names)
        case "channel":
            return mention(f"#{element.get('channel_id')}", names)
        case "usergroup":
            return group_name(str(element.get("usergroup_id") or ""), names)
        case "broadcast":
            return f"@{element.get('range')}"
        case "emoji":
            name = str(element.get("name") or "")
            return alias(name) or f":{name}:"
        case "date":
            return str(element.get("fallback") or element.get("timestamp") or "")
        case "color":
            return str(element.get("value") or "")
        case _:
            return ""
