"""Types for decoded JSON of other services, of which nothing is known until it is checked."""

from __future__ import annotations

from typing import Any, TypeGuard, cast

Object = dict[str, Any]


def is_object(value: Any) -> TypeGuard[Object]:
    """Return True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return True for a JSON list."""
    return isinstance(value, list)


def object_of(value: Any) -> Object:
    """Return a field's object; an empty one if the field is missing, null or empty."""
    return cast("Object", value or {})


def list_of(value: Any) -> list[Any]:
    """Return a field's list; an empty one if the field is missing, null or empty."""
    return cast("list[Any]", value or [])
