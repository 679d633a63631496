"""Partial responses: parse the `fields` parameter to a mask, validated against Google's discovery document.

Example: `nextPageToken,files(id,owners(emailAddress))`. A name that the schema does not have is rejected, as by Google.

Source: https://developers.google.com/workspace/drive/api/guides/fields-parameter
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import googleapiclient
import msgspec

from resources.core.json import is_list
from simulators.drive.errors import ApiError

Mask = dict[str, Any] | None
"""Name → mask of the fields below; None: everything."""

_TOKEN = re.compile(r"\w+|\S")


DRIVE, DIRECTORY = "drive.v3", "admin.directory_v1"


@cache
def discovery(api: str = DRIVE) -> dict[str, Any]:
    """Return the discovery document of an API that the client library ships."""
    path = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / f"{api}.json"
    return msgspec.json.decode(path.read_bytes())


@lru_cache(maxsize=1_000)
def mask(text: str, schema: str, api: str = DRIVE) -> Mask:
    """Parse a `fields` parameter. Raises `ApiError`."""
    if text == "*":
        return None
    tokens = _TOKEN.findall(text)
    schemas = discovery(api)["schemas"]
    found = _names(tokens, schemas[schema], schemas)
    if tokens:
        raise _invalid(text)
    return found


def pick(value: Any, chosen: Mask) -> Any:
    """Return the part of a response that a mask selects; in a list, of each element."""
    if chosen is None:
        return value
    if is_list(value):
        return [pick(element, chosen) for element in value]
    if not isinstance(value, dict):
        return value
    return {name: pick(value[name], below) for name, below in chosen.items() if name in value}


def _names(tokens: list[str], schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Take a list of names from the front of the tokens."""
    found: dict[str, Any] = {}
    while True:
        name = tokens.pop(0) if tokens else ""
        inner = _inside(schema, name, schemas)
        found[name] = None
        if tokens[:1] == ["("]:
            del tokens[0]
            found[name] = _names(tokens, inner, schemas)
            if tokens[:1] != [")"]:
                raise _invalid(name)
            del tokens[0]
        if tokens[:1] != [","]:
            return found
        del tokens[0]


def _inside(schema: dict[str, Any], name: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, with references resolved and lists unwrapped."""
    found = schema.get("properties", {}).get(name)
    if found is None:
        raise _invalid(name)
    while "items" in found or "$ref" in found:
        found = found["items"] if "items" in found else schemas[found["$ref"]]
    return found


def _invalid(name: str) -> ApiError:
    return ApiError(400, "invalidParameter", f"Invalid field selection {name}", location="fields")
