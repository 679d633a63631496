"""Convert Qdrant's JSON filter conditions to the engine's `Filter`.

All condition kinds share one struct, because the JSON has no tag: the field that is present determines the kind.
Source: https://api.qdrant.tech/api-reference (schema Filter).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import qdrant_edge as edge

from resources.servers.vector.faults import format_error
from resources.servers.vector.vectors import PointId


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """Any of the match kinds; exactly one field is set."""

    value: bool | int | str | None = None
    any: list[int | str] | None = None
    except_: list[int | str] | None = msgspec.field(default=None, name="except")


class Range(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds: numbers, or RFC 3339 strings for datetimes."""

    gt: float | str | None = None
    gte: float | str | None = None
    lt: float | str | None = None
    lte: float | str | None = None


class ValuesCount(msgspec.Struct, forbid_unknown_fields=True):
    gt: int | None = None
    gte: int | None = None
    lt: int | None = None
    lte: int | None = None


class Key(msgspec.Struct, forbid_unknown_fields=True):
    key: str


class Condition(msgspec.Struct, forbid_unknown_fields=True):
    """A filter or any single condition."""

    must: list[Condition] | Condition | None = None
    should: list[Condition] | Condition | None = None
    must_not: list[Condition] | Condition | None = None
    key: str | None = None
    match: Match | None = None
    range: Range | None = None
    values_count: ValuesCount | None = None
    is_empty: bool | Key | None = None
    is_null: bool | Key | None = None
    has_id: list[PointId] | None = None
    has_vector: str | None = None


KEPT_FILTERS = 256
KEPT_BYTES = 8192
"""Longest filter, as JSON, that is kept with the others: one of 50 principals has 1,800 bytes."""
KEPT_LONG, KEPT_LONG_BYTES = 16, 2**18
"""Longer filters that are kept: those of people with thousands of principals. The longest ones list points, each time others."""
SPREAD_VALUES = 100
"""Most values that are written as single ones. 50 take three quarters of the time of one condition, 500 three times it."""

_CLAUSES = ("must", "should", "must_not")
_decoder = msgspec.json.Decoder(Condition | None)
_CONDITIONS = tuple(name for name in Condition.__struct_fields__ if name not in _CLAUSES)


def read_filter(data: msgspec.Raw, *, spreading: bool = False) -> edge.Filter | None:
    """Return the filter in a body of a query; None without one. With `spreading`, as `spread` writes it.

    Filters repeat, since they hold the principals of a caller, and reading one with 50 takes as long as a keyword search.
    """
    text = bytes(data)
    if len(text) <= KEPT_BYTES:
        return _kept(text, spreading)
    return _kept_long(text) if len(text) <= KEPT_LONG_BYTES else _read(text, spreading)


@lru_cache(KEPT_FILTERS)
def _kept(data: bytes, spreading: bool) -> edge.Filter | None:
    return _read(data, spreading)


@lru_cache(KEPT_LONG)
def _kept_long(data: bytes) -> edge.Filter | None:
    return _read(data, spreading=False)


def _read(data: bytes, spreading: bool) -> edge.Filter | None:
    if not data:
        return None
    try:
        condition = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise format_error(f"filter: {error}") from error
    return to_filter(spread(condition) if spreading else condition)


def to_filter(condition: Condition | None) -> edge.Filter | None:
    """Convert a request's `filter`; None stays None. 400 for a bare condition, which would filter nothing."""
    return None if condition is None else _converted(condition)


def _converted(condition: Condition) -> edge.Filter:
    bare = [name for name in _CONDITIONS if getattr(condition, name) is not None]
    if bare:
        raise format_error(f"unknown field `{bare[0]}` of a filter, expected one of {', '.join(_CLAUSES)}")
    return edge.Filter(_many(condition.must), _many(condition.should), _many(condition.must_not))


def spread(condition: Condition | None) -> Condition | None:
    """Return the filter with its single match-any condition split into a choice of single values: the same points, each visited once."""
    must = condition.must if condition is not None else None
    if condition != Condition(must=must) or not isinstance(must, list) or len(must) != 1:
        return condition
    match = must[0].match
    if (
        match is None
        or not match.any
        or len(match.any) > SPREAD_VALUES
        or not all(isinstance(value, str) for value in match.any)
    ):
        return condition
    if must[0] != Condition(key=must[0].key, match=Match(any=match.any)):
        return condition
    return Condition(should=[Condition(key=must[0].key, match=Match(value=value)) for value in match.any])


def among(filter_: edge.Filter | None, ids: Iterable[edge.PointId]) -> edge.Filter:
    """Return the filter restricted to these points."""
    chosen = edge.HasIdCondition(set(ids))
    return edge.Filter(must=[chosen] if filter_ is None else [chosen, filter_])


def excluding(filter_: edge.Filter | None, point_id: PointId) -> edge.Filter:
    """Return the filter without a point, as a query by a point's id excludes that point."""
    must_not: list[Any] = [edge.HasIdCondition({point_id})]
    return edge.Filter(must=[filter_] if filter_ else None, must_not=must_not)


def _many(conditions: list[Condition] | Condition | None) -> list[Any] | None:
    if conditions is None:
        return None
    return [_condition(one) for one in (conditions if isinstance(conditions, list) else [conditions])]


def _condition(condition: Condition) -> Any:
    if condition.key is not None:
        return _field(condition.key, condition)
    if condition.has_id is not None:
        return edge.HasIdCondition(set(condition.has_id))
    if condition.has_vector is not None:
        return edge.HasVectorCondition(condition.has_vector)
    if isinstance(condition.is_empty, Key):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if isinstance(condition.is_null, Key):
        return edge.IsNullCondition(condition.is_null.key)
    return _converted(condition)


def _field(key: str, condition: Condition) -> edge.FieldCondition:
    if condition == Condition(key=key):
        raise format_error(f"the condition on `{key}` needs one of match, range, values_count, is_empty, is_null")
    count = condition.values_count
    return edge.FieldCondition(
        key,
        match=_match(condition.match) if condition.match else None,
        range=_range(condition.range) if condition.range else None,
        values_count=edge.ValuesCount(**msgspec.structs.asdict(count)) if count else None,
        is_empty=condition.is_empty if isinstance(condition.is_empty, bool) else None,
        is_null=condition.is_null if isinstance(condition.is_null, bool) else None,
    )


def _match(match: Match) -> Any:
    if match.value is not None:
        # The engine's binding reads Python's bool as an integer, which matches nothing; NumPy's bool has no __index__ and stays a bool.
        return edge.MatchValue(np.bool_(match.value) if isinstance(match.value, bool) else match.value)  # pyright: ignore[reportArgumentType] see above
    if match.any is not None:
        return edge.MatchAny(match.any)  # pyright: ignore[reportArgumentType] the engine rejects a mixed list
    if match.except_ is not None:
        return edge.MatchExcept(match.except_)  # pyright: ignore[reportArgumentType] the engine rejects a mixed list
    raise format_error("`match` needs one of value, any, except")


def _range(bounds: Range) -> Any:
    given: dict[str, Any] = msgspec.to_builtins(bounds)
    strings = [isinstance(value, str) for value in given.values()]
    if any(strings) and not all(strings):
        raise format_error("`range` mixes numbers and datetimes")
    return edge.RangeDateTime(**given) if any(strings) else edge.RangeFloat(**given)
