"""Read the front matter of a Markdown file (YAML between `---`, TOML between `+++`), of which some fields are shown and searched for."""

import re
import tomllib
from collections.abc import Mapping
from typing import cast

from assets.stages.normalize import one_line

_YAML = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)\n\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w-]{0,40})[ \t]*+:(?:[ \t]++(.*)|[ \t]*)")
_LINE = re.compile(r"[ \t].*|[#\]}].*|-(?:[ \t].*)?|[\"']?[\w$@][\w .$@/-]{0,40}[\"']?[ \t]*+:(?:[ \t].*)?")
"""A continuation, a comment or an end of a list, an item, or a key. A text between two rules has other lines, too."""
_FOLDED = re.compile(r"[|>][-+\d]*")
_ITEM = re.compile(r"[ \t]*-[ \t]++(.*)")
_TEXTS = ("subtitle", "description", "summary", "abstract", "excerpt")
_LISTS = ("tags", "keywords", "categories", "aliases")
_MAX_FIELDS = 200
_MAX_LENGTH = 20_000
"""Characters of front matter that are read."""


def split(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the fields with their values, and the rest of the text. Only plain values and lists of them are read."""
    if (found := _YAML.match(text)) is not None and _is_yaml(found.group(1)):
        return _yaml(found.group(1)[:_MAX_LENGTH]), text[found.end() :]
    if (found := _TOML.match(text)) is not None:
        try:
            return _values(tomllib.loads(found.group(1))), text[found.end() :]
        except tomllib.TOMLDecodeError:
            return {}, text
    return {}, text


def shown(fields: Mapping[str, list[str]]) -> list[str]:
    """Return the paragraphs that describe the document: its description, and a line for each list."""
    texts = [one_line(" ".join(fields[name])) for name in _TEXTS if fields.get(name)]
    lists = [f"{name.capitalize()}: {', '.join(fields[name])}" for name in _LISTS if fields.get(name)]
    return [*filter(None, dict.fromkeys(texts)), *lists]


def _is_yaml(text: str) -> bool:
    """Return True if this has keys and no other lines; after a blank line, which people put below rules, it begins with a small letter."""
    lines = [line for line in text.split("\n") if line.strip()]
    begins = text[:1].strip() or (lines and lines[0][:1].islower())
    return bool(begins) and any(map(_KEY.fullmatch, lines)) and all(map(_LINE.fullmatch, lines))


def _yaml(text: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        if (key := _KEY.fullmatch(line)) is not None and len(fields) < _MAX_FIELDS:
            value = (key.group(2) or "").strip()
            current = fields[key.group(1).lower()] = [] if not value or _FOLDED.fullmatch(value) else _inline(value)
        elif current is None or not line.strip() or line.lstrip().startswith("#"):
            continue
        elif (item := _ITEM.fullmatch(line)) is not None:
            current += _inline(item.group(1).strip())
        elif line[:1] in " \t":  # a text that goes on in the next line
            current[-1:] = [f"{current[-1]} {line.strip()}" if current else line.strip()]
    return fields


def _inline(value: str) -> list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [text for part in value[1:-1].split(",") if (text := _bare(part))]
    return [text] if (text := _bare(value)) else []


def _bare(value: str) -> str:
    return value.strip().strip("\"'").strip()


def _values(table: Mapping[str, object]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in table.items():
        values: list[object] = list(cast("list[object]", value)) if isinstance(value, list) else [value]
        fields[name.lower()] = [str(one) for one in values if isinstance(one, str | int | float)]
    return fields
