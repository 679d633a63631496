"""Types for decoded JSON of other services, of which nothing is known until it is checked."""

from __future__ import annotations

import re
from typing import Any, TypeGuard, cast

Object = dict[str, Any]
_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")
"""NUL within a JSON text; after a backslash that is escaped itself, `u0000` is text."""


def is_object(value: Any) -> TypeGuard[Object]:
    """Return True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return True for a JSON list."""
    return isinstance(value, list)


def has_nul(text: str) -> bool:
    """Return True if a string in a JSON text has a NUL character, which Postgres does not store."""
    return _NUL.search(text) is not None


def object_of(value: Any) -> Object:
    """Return a field's object; an empty one if the field is missing, null or empty."""
    return cast("Object", value or {})


def list_of(value: Any) -> list[Any]:
    """Return a field's list; an empty one if the field is missing, null or empty."""
    return cast("list[Any]", value or [])
