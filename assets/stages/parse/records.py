"""Parse JSON and JSON Lines into indented `key: value` text, one block per top-level entry."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed
from resources.core.json import is_object

_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""Characters that end lines of other texts; within a string of JSON they end nothing."""
_MAX_INDENT = 8
"""Deeper levels are not indented further, to save tokens."""
_INLINE_ITEMS = 120
"""A list of scalars shorter than this many characters is written on one line."""


class _Repeated(dict[str, Any]):
    """An object that has a key several times; a dictionary keeps the last value only."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(pairs)


def _items(value: dict[str, Any]) -> list[tuple[str, Any]]:
    return value.pairs if isinstance(value, _Repeated) else list(value.items())


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return " ".join(value.split()) or '""'
        case _:
            return str(value)


def _inline(value: Any) -> str | None:
    """Return the value as one line, or None if it needs several lines."""
    if isinstance(value, dict):
        return None if value else "{}"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if any(isinstance(item, dict | list) for item in items):
            return None
        text = ", ".join(map(_scalar, items))
        return (text or "[]") if len(text) <= _INLINE_ITEMS else None
    return _scalar(value)


def _lines(label: str, value: Any) -> Iterator[str]:
    """Yield a value's lines, depth first, without recursion."""
    stack: list[tuple[int, str, Any]] = [(0, label, value)]
    while stack:
        depth, name, item = stack.pop()
        indent = "  " * min(depth, _MAX_INDENT)
        text = _inline(item)
        if text is not None:
            yield f"{indent}{name}: {text}" if name and name != "-" else f"{indent}{name + ' ' if name else ''}{text}"
            continue
        if name:
            yield f"{indent}{name}:" if name != "-" else f"{indent}-"
        below = depth + 1 if name else depth
        children = _items(item) if is_object(item) else [("-", child) for child in item]
        stack.extend((below, str(key), child) for key, child in reversed(children))


def _drafts(value: Any) -> Iterator[BlockDraft]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield BlockDraft(kind="list", text="\n".join(_lines("", item)))
        return
    if not isinstance(value, dict):
        yield BlockDraft(kind="paragraph", text=_scalar(value))
        return
    plain: list[str] = []
    for key, item in _items(cast("dict[str, Any]", value)):
        text = _inline(item)
        if text is not None:
            plain.append(f"{key}: {text}")
            continue
        if plain:
            yield BlockDraft(kind="list", text="\n".join(plain))
            plain = []
        yield BlockDraft(kind="list", text="\n".join(_lines(key, item)))
    if plain:
        yield BlockDraft(kind="list", text="\n".join(plain))


class _Figure(str):
    """A number with a fraction, as it is written: 19.90 is not 19.9."""


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=_Figure).decode


def _load(text: str) -> Any:
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > 1 and error.msg == "Extra data":
            return [_decode(line) for line in lines]
        raise


def parse(data: bytes) -> Parsed:
    """Return the entries of a JSON file; an invalid or too deeply nested file is indexed as plain text."""
    decoded, warnings = decode(data)
    text = clean(_LINE_ENDS.sub(" ", decoded))
    try:
        value = _load(text)
    except (ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else f"is not valid JSON ({error})"
        return Parsed(
            drafts=[BlockDraft(kind="code", text=text)],
            warnings=[*warnings, f"The file {reason}; it was indexed as plain text."],
        )
    title = cast("dict[str, Any]", value).get("title") if isinstance(value, dict) else None
    return Parsed(drafts=list(_drafts(value)), title=title if type(title) is str else None, warnings=warnings)
