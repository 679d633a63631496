"""Filters of lists: equality of attributes that are indexed, joined by `and`, and by `or` for values of one attribute."""

from __future__ import annotations

import re
from uuid import UUID

from scim2_models import InvalidFilterException, ScimFilter
from scim2_models.path import CompareOperator, Comparison, FilterNode, LogicalExpr, LogicalOperator

_BARE = re.compile(r'(\beq\s+)(?!")([^\s()"]+)', re.IGNORECASE)
"""A value without the quotes that RFC 7644 3.4.2.2 demands, which some providers leave out."""
Criteria = dict[str, frozenset[str]]
"""The values that each attribute may have, by its name in lower case."""


def criteria(text: str, attributes: frozenset[str]) -> Criteria:
    """Return what a filter demands. Raises `SCIMException` for a filter that is not supported, naming what is."""
    if "\0" in text:
        raise InvalidFilterException(detail="The filter contains a NUL character.")
    try:
        node = ScimFilter(text).ast
    except InvalidFilterException:
        if (quoted := _BARE.sub(r'\1"\2"', text)) == text:
            raise
        node = ScimFilter(quoted).ast
    return _of(node, attributes)


def exact(values: frozenset[str] | None) -> list[str] | None:
    return None if values is None else sorted(values)


def lower(values: frozenset[str] | None) -> list[str] | None:
    return None if values is None else sorted(value.lower() for value in values)


def uuids(values: frozenset[str] | None) -> list[str] | None:
    """Return the values that are ids here. One that is not can't be found, so it is left out."""
    return None if values is None else [one for value in values if (one := as_uuid(value)) is not None]


def states(values: frozenset[str] | None) -> frozenset[bool] | None:
    """Return which states a filter allows, whose values may be text, as some providers send them."""
    try:
        return None if values is None else frozenset({"true": True, "false": False}[value.lower()] for value in values)
    except KeyError as error:
        raise InvalidFilterException(detail=f"The attribute active is true or false, not {error}.") from None


def as_uuid(text: str) -> str | None:
    """Return an id in normal form; None if it is not one of this service."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _of(node: FilterNode, attributes: frozenset[str]) -> Criteria:
    if isinstance(node, Comparison):
        path = node.attr_path
        name = ".".join(filter(None, (path.attr, path.sub_attr))).lower().removesuffix(".value")
        if node.op == CompareOperator.eq and name in attributes:
            value = node.value
            return {name: frozenset({str(value).lower() if isinstance(value, bool) else str(value)})}
    elif isinstance(node, LogicalExpr):
        parts = [_of(term, attributes) for term in node.terms]
        if node.op == LogicalOperator.and_:
            return _all(parts)
        if len({frozenset(part) for part in parts}) == 1 and len(parts[0]) == 1:
            (name,) = parts[0]
            return {name: frozenset[str]().union(*(part[name] for part in parts))}
    raise InvalidFilterException(
        detail=f"Filters compare {', '.join(sorted(attributes))} by `eq`, joined by `and`; `or` joins values of one attribute."
    )


def _all(parts: list[Criteria]) -> Criteria:
    found: Criteria = {}
    for part in parts:
        for name, values in part.items():
            found[name] = found[name] & values if name in found else values
    return found
