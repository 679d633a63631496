"""Partial responses: parse the `fields` parameter to a mask, validated against Google's discovery document.

Example: `nextPageToken,files(id,owners/emailAddress)`. A name that the schema does not have is rejected, as by Google.
Source: https://developers.google.com/workspace/drive/api/guides/fields-parameter
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import googleapiclient
import msgspec

from resources.sources.drive.simulator.errors import ApiError

Mask = dict[str, Any] | None
"""Name → mask of the fields below; None: everything."""

_TOKEN = re.compile(r"[A-Za-z][\w$.]*|[(),/*]")


@cache
def discovery() -> dict[str, Any]:
    """Return the discovery document of Drive v3 that the client library ships."""
    path = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / "drive.v3.json"
    return msgspec.json.decode(path.read_bytes())


@lru_cache(maxsize=1_000)
def mask(text: str, schema: str) -> Mask:
    """Parse a `fields` parameter. Raises `ApiError`."""
    compact = re.sub(r"\s+", "", text)
    tokens = _TOKEN.findall(compact)
    if "".join(tokens) != compact or not tokens:
        raise _invalid(text)
    found, rest = _list(tokens, discovery()["schemas"][schema])
    if rest:
        raise _invalid(text)
    return found


def pick(value: Any, chosen: Mask) -> Any:
    """Return the part of a response that a mask selects; in a list, of each element."""
    if chosen is None:
        return value
    if isinstance(value, list):
        return [pick(element, chosen) for element in value]
    if not isinstance(value, dict):
        return value
    return {name: pick(value[name], below) for name, below in chosen.items() if name in value}


def _list(tokens: list[str], schema: dict[str, Any]) -> tuple[Mask, list[str]]:
    found: dict[str, Any] = {}
    everything = False
    while True:
        name, below, tokens = _path(tokens, schema)
        if name == "*" and below is None:
            everything = True
        for one in _names(schema) if name == "*" else [name]:
            found[one] = below if one not in found else _union(found[one], below)
        if not tokens or tokens[0] != ",":
            return None if everything else found, tokens
        tokens = tokens[1:]


def _path(tokens: list[str], schema: dict[str, Any]) -> tuple[str, Mask, list[str]]:
    if not tokens or tokens[0] in "(),/":
        raise _invalid(tokens[0] if tokens else "")
    name, tokens = tokens[0], tokens[1:]
    inner = _inside(schema, name)
    if tokens[:1] == ["("]:
        below, tokens = _list(tokens[1:], inner)
        if tokens[:1] != [")"]:
            raise _invalid(name)
        return name, below, tokens[1:]
    if tokens[:1] == ["/"]:
        last, below, tokens = _path(tokens[1:], inner)
        return name, None if last == "*" and below is None else {last: below}, tokens
    return name, None, tokens


def _inside(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of a field, with references resolved and lists unwrapped."""
    if name == "*":
        return {}
    if not schema:  # below a `*`, which matches fields of several schemas
        return schema
    found = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
    if found is None:
        raise _invalid(name)
    while "items" in found or "$ref" in found:
        found = found["items"] if "items" in found else discovery()["schemas"][found["$ref"]]
    return found


def _names(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("properties", {}))


def _union(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return None
    return {name: _union(one.get(name, {}), other.get(name, {})) for name in {**one, **other}}


def _invalid(name: str) -> ApiError:
    return ApiError(400, "invalidParameter", f"Invalid field selection {name}", location="fields")
