"""Convert Qdrant's JSON filter conditions to the engine's `Filter`.

All condition kinds share one struct, because the JSON has no tag: the field that is present determines the kind.
Source: https://api.qdrant.tech/api-reference (schema Filter).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import qdrant_edge as edge

from resources.servers.vector.faults import format_error

PointId = int | str


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """Any of the match kinds; exactly one field is set."""

    value: bool | int | str | None = None
    text: str | None = None
    text_any: str | None = None
    phrase: str | None = None
    prefix: str | None = None
    substring: str | None = None
    any: list[int | str] | None = None
    except_: list[int | str] | None = msgspec.field(default=None, name="except")


class Range(msgspec.Struct, forbid_unknown_fields=True):
    """Bounds: numbers, or RFC 3339 strings for datetimes."""

    gt: float | str | None = None
    gte: float | str | None = None
    lt: float | str | None = None
    lte: float | str | None = None


class Count(msgspec.Struct, forbid_unknown_fields=True):
    """Bounds on the number of values in a field."""

    gt: int | None = None
    gte: int | None = None
    lt: int | None = None
    lte: int | None = None


class GeoPoint(msgspec.Struct, forbid_unknown_fields=True):
    """Coordinates in degrees."""

    lon: float
    lat: float


class GeoBox(msgspec.Struct, forbid_unknown_fields=True):
    """A rectangle given by two corners."""

    top_left: GeoPoint
    bottom_right: GeoPoint


class GeoRadius(msgspec.Struct, forbid_unknown_fields=True):
    """A circle; `radius` in metres."""

    center: GeoPoint
    radius: float


class GeoRing(msgspec.Struct, forbid_unknown_fields=True):
    """A closed ring of points."""

    points: list[GeoPoint]


class GeoPolygon(msgspec.Struct, forbid_unknown_fields=True):
    """An outline with holes."""

    exterior: GeoRing
    interiors: list[GeoRing] | None = None


class Key(msgspec.Struct, forbid_unknown_fields=True):
    """`{"key": path}` of is_empty and is_null."""

    key: str


class Slice(msgspec.Struct, forbid_unknown_fields=True):
    """One of `total` disjoint parts of the id space."""

    total: int
    index: int


class Nested(msgspec.Struct, forbid_unknown_fields=True):
    """A filter on each element of an array of objects."""

    key: str
    filter: Condition


class MinShould(msgspec.Struct, forbid_unknown_fields=True):
    """At least `min_count` of the conditions."""

    conditions: list[Condition]
    min_count: int


class Condition(msgspec.Struct, forbid_unknown_fields=True):
    """A filter or any single condition."""

    must: list[Condition] | Condition | None = None
    should: list[Condition] | Condition | None = None
    must_not: list[Condition] | Condition | None = None
    min_should: MinShould | None = None
    key: str | None = None
    match: Match | None = None
    range: Range | None = None
    geo_bounding_box: GeoBox | None = None
    geo_radius: GeoRadius | None = None
    geo_polygon: GeoPolygon | None = None
    values_count: Count | None = None
    is_empty: bool | Key | None = None
    is_null: bool | Key | None = None
    has_id: list[PointId] | None = None
    has_vector: str | None = None
    nested: Nested | None = None
    slice: Slice | None = None


_CONDITIONS = [name for name in Condition.__struct_fields__ if name not in {"must", "should", "must_not", "min_should"}]


def to_filter(condition: Condition | None) -> edge.Filter | None:
    """Convert a request's `filter`; None stays None. 400 for a bare condition, which would filter nothing."""
    if condition is None:
        return None
    bare = [name for name in _CONDITIONS if getattr(condition, name) is not None]
    if bare:
        raise format_error(
            f"unknown field `{bare[0]}` of a filter, expected one of `must`, `should`, `must_not`, `min_should`"
        )
    minimum = condition.min_should
    return edge.Filter(
        must=_many(condition.must),
        should=_many(condition.should),
        must_not=_many(condition.must_not),
        min_should=edge.MinShould(_all(minimum.conditions), minimum.min_count) if minimum else None,
    )


def spread(condition: Condition | None) -> Condition | None:
    """Return the filter with its single match-any condition split into a choice of single values: the same points, each visited once."""
    must = condition.must if condition is not None else None
    if condition != Condition(must=must) or not isinstance(must, list) or len(must) != 1:
        return condition
    match = must[0].match
    if match is None or not match.any or not all(isinstance(value, str) for value in match.any):
        return condition
    if must[0] != Condition(key=must[0].key, match=Match(any=match.any)):
        return condition
    return Condition(should=[Condition(key=must[0].key, match=Match(value=value)) for value in match.any])


def excluding(filter_: edge.Filter | None, ids: Iterable[PointId]) -> edge.Filter | None:
    """Return the filter with the given points excluded, as a query by a point's id excludes that point."""
    excluded: set[Any] = set(ids)
    if not excluded:
        return filter_
    must: list[Any] | None = [filter_] if filter_ else None
    must_not: list[Any] = [edge.HasIdCondition(excluded)]
    return edge.Filter(must=must, must_not=must_not)


def to_condition(condition: Condition) -> Any:
    """Convert one condition or a nested filter."""
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
    if condition.slice is not None:
        return edge.SliceCondition(condition.slice.total, condition.slice.index)  # pyright: ignore[reportAttributeAccessIssue] missing from the stubs
    if condition.nested is not None:
        return edge.NestedCondition(condition.nested.key, to_filter(condition.nested.filter) or edge.Filter())
    return to_filter(condition)


def _many(conditions: list[Condition] | Condition | None) -> list[Any] | None:
    if conditions is None:
        return None
    return _all(conditions if isinstance(conditions, list) else [conditions])


def _all(conditions: list[Condition]) -> list[Any]:
    return [to_condition(condition) for condition in conditions]


def _field(key: str, condition: Condition) -> edge.FieldCondition:
    return edge.FieldCondition(
        key,
        match=_match(condition.match) if condition.match else None,
        range=_range(condition.range) if condition.range else None,
        geo_bounding_box=_box(condition.geo_bounding_box) if condition.geo_bounding_box else None,
        geo_radius=edge.GeoRadius(_point(condition.geo_radius.center), condition.geo_radius.radius)
        if condition.geo_radius
        else None,
        geo_polygon=_polygon(condition.geo_polygon) if condition.geo_polygon else None,
        values_count=edge.ValuesCount(**msgspec.structs.asdict(condition.values_count))
        if condition.values_count
        else None,
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
    for value, kind in (
        (match.text, edge.MatchText),
        (match.text_any, edge.MatchTextAny),
        (match.phrase, edge.MatchPhrase),
        (match.prefix, edge.MatchPrefix),
        (match.substring, edge.MatchSubstring),
    ):
        if value is not None:
            return kind(value)
    raise format_error("`match` needs one of value, any, except, text, text_any, phrase, prefix, substring")


def _range(bounds: Range) -> Any:
    given: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(bounds).items() if value is not None}
    strings = [isinstance(value, str) for value in given.values()]
    if any(strings):
        if not all(strings):
            raise format_error("`range` mixes numbers and datetimes")
        return edge.RangeDateTime(**given)
    return edge.RangeFloat(**given)


def _point(point: GeoPoint) -> edge.GeoPoint:
    return edge.GeoPoint(point.lon, point.lat)


def _box(box: GeoBox) -> edge.GeoBoundingBox:
    return edge.GeoBoundingBox(_point(box.top_left), _point(box.bottom_right))


def _polygon(polygon: GeoPolygon) -> edge.GeoPolygon:
    rings = [[_point(point) for point in ring.points] for ring in polygon.interiors or ()]
    return edge.GeoPolygon([_point(point) for point in polygon.exterior.points], rings or None)
