"""Writes: validate Qdrant's update bodies and convert them to `Update`s of the engine.

An `Update` names the points that must exist, because the engine raises for a missing one only after changing those before it.
Source: https://api.qdrant.tech/api-reference/points (upsert, batch, set payload, update vectors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import bad_request, format_error
from resources.servers.vector.filters import Condition, to_filter
from resources.servers.vector.vectors import (
    DEFAULT,
    Dense,
    Layout,
    PointId,
    Vector,
    VectorStruct,
    check_id,
    check_ids,
    check_name,
    to_named,
)

# Points passed to the engine at once: between two chunks other requests are served, and a flush follows each.
PIECE = 500
_MODES = {
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}


class Update(msgspec.Struct, frozen=True):
    """One operation ready to apply. `points` counts towards the flush; `creates` and `needs` are point ids."""

    operation: edge.UpdateOperation
    points: int = 1
    creates: frozenset[PointId] = frozenset()
    needs: frozenset[PointId] = frozenset()


class PointStruct(msgspec.Struct):
    """A point of the list form."""

    id: PointId
    vector: VectorStruct
    payload: dict[str, Any] | None = None


class Columns(msgspec.Struct, forbid_unknown_fields=True):
    """The columnar form: one list per field, all of one length."""

    ids: list[PointId]
    vectors: list[Dense] | dict[str, list[Vector]]
    payloads: list[dict[str, Any] | None] | None = None


class Upsert(msgspec.Struct):
    """`points` or `batch`."""

    points: list[PointStruct] | None = None
    batch: Columns | None = None
    update_filter: Condition | None = None
    update_mode: str | None = None


class Selector(msgspec.Struct):
    """Points by id or by filter."""

    points: list[PointId] | None = None
    filter: Condition | None = None


class SetPayload(Selector):
    """`key` sets values below a path of the payload."""

    payload: dict[str, Any] = {}
    key: str | None = None


class DeletePayload(Selector):
    """Keys to remove."""

    keys: list[str] = []


class DeleteVectors(Selector):
    """Vector names to remove."""

    vector: list[str] = []


class PointVectors(msgspec.Struct):
    """New vectors of one point; vectors not named are kept."""

    id: PointId
    vector: VectorStruct


class UpdateVectors(msgspec.Struct):
    """Vectors of existing points."""

    points: list[PointVectors]
    update_filter: Condition | None = None


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of `/points/batch`; exactly one field is set."""

    upsert: Upsert | None = None
    delete: Selector | None = None
    set_payload: SetPayload | None = None
    overwrite_payload: SetPayload | None = None
    delete_payload: DeletePayload | None = None
    clear_payload: Selector | None = None
    update_vectors: UpdateVectors | None = None
    delete_vectors: DeleteVectors | None = None


class Operations(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `/points/batch`."""

    operations: list[Operation]


def upsert(layout: Layout, body: Upsert) -> Iterator[Update]:
    """Yield updates for points in either form; every point is validated before the first update."""
    points = list(_columns(layout, body.batch) if body.batch is not None else _rows(layout, body.points))
    mode = _MODES.get(body.update_mode) if body.update_mode else None
    if body.update_mode and mode is None:
        raise format_error(f"unknown update_mode {body.update_mode}, expected one of {', '.join(_MODES)}")
    condition = to_filter(body.update_filter)
    remaining = iter(points)
    while piece := list(islice(remaining, PIECE)):
        made = frozenset[PointId]() if condition or mode else frozenset(point_id for point_id, _ in piece)
        operation = edge.UpdateOperation.upsert_points([point for _, point in piece], condition, mode)
        yield Update(operation, points=len(piece), creates=made)


def delete(body: Selector) -> Update:
    """Delete points by id (missing ones are not an error) or filter."""
    ids = _ids(body)
    if ids is not None:
        return Update(edge.UpdateOperation.delete_points(ids), points=len(ids))
    return Update(edge.UpdateOperation.delete_points_by_filter(_filter(body)))


def set_payload(body: SetPayload, *, overwrite: bool = False) -> Update:
    """Merge into the payload, or replace it."""
    ids, made = _ids(body), edge.UpdateOperation
    if ids is not None:
        by_ids = made.overwrite_payload if overwrite else made.set_payload
        return _existing(by_ids(ids, body.payload, body.key), ids)
    by_filter = made.overwrite_payload_by_filter if overwrite else made.set_payload_by_filter
    return Update(by_filter(_filter(body), body.payload, body.key))


def delete_payload(body: DeletePayload) -> Update:
    """Remove keys."""
    ids = _ids(body)
    if ids is not None:
        return _existing(edge.UpdateOperation.delete_payload(ids, body.keys), ids)
    return Update(edge.UpdateOperation.delete_payload_by_filter(_filter(body), body.keys))


def clear_payload(body: Selector) -> Update:
    """Remove the whole payload."""
    ids = _ids(body)
    if ids is not None:
        return _existing(edge.UpdateOperation.clear_payload(ids), ids)
    return Update(edge.UpdateOperation.clear_payload_by_filter(_filter(body)))


def update_vectors(layout: Layout, body: UpdateVectors) -> Update:
    """Replace the named vectors of existing points."""
    ids = [check_id(point.id) for point in body.points]
    vectors = [
        edge.PointVectors(point_id, to_named(layout, point.vector))
        for point_id, point in zip(ids, body.points, strict=True)
    ]
    return _existing(edge.UpdateOperation.update_vectors(vectors, to_filter(body.update_filter)), ids)


def delete_vectors(layout: Layout, body: DeleteVectors) -> Update:
    """Remove the named vectors."""
    for name in body.vector:
        check_name(layout, name)
    ids = _ids(body)
    if ids is not None:
        return _existing(edge.UpdateOperation.delete_vectors(ids, body.vector), ids)
    return Update(edge.UpdateOperation.delete_vectors_by_filter(_filter(body), body.vector))


def operation(layout: Layout, body: Operation) -> Iterable[Update]:
    """Return the updates of one entry of `/points/batch`."""
    if body.upsert is not None:
        return upsert(layout, body.upsert)
    if body.delete is not None:
        return (delete(body.delete),)
    if body.set_payload is not None:
        return (set_payload(body.set_payload),)
    if body.overwrite_payload is not None:
        return (set_payload(body.overwrite_payload, overwrite=True),)
    if body.delete_payload is not None:
        return (delete_payload(body.delete_payload),)
    if body.clear_payload is not None:
        return (clear_payload(body.clear_payload),)
    if body.update_vectors is not None:
        return (update_vectors(layout, body.update_vectors),)
    if body.delete_vectors is not None:
        return (delete_vectors(layout, body.delete_vectors),)
    raise format_error("an operation needs one of upsert, delete, set_payload, update_vectors and their like")


def _rows(layout: Layout, points: list[PointStruct] | None) -> Iterator[tuple[PointId, edge.Point]]:
    if points is None:
        raise format_error("an upsert needs `points` or `batch`")
    for point in points:
        point_id = check_id(point.id)
        yield point_id, edge.Point(point_id, to_named(layout, point.vector), point.payload)


def _columns(layout: Layout, batch: Columns) -> Iterator[tuple[PointId, edge.Point]]:
    named = batch.vectors if isinstance(batch.vectors, dict) else {DEFAULT: batch.vectors}
    payloads = batch.payloads if batch.payloads is not None else [None] * len(batch.ids)
    if any(len(column) != len(batch.ids) for column in (payloads, *named.values())):
        raise bad_request("ids, vectors and payloads of a batch must have the same length")
    for row, (raw_id, payload) in enumerate(zip(batch.ids, payloads, strict=True)):
        point_id = check_id(raw_id)
        yield (
            point_id,
            edge.Point(point_id, to_named(layout, {name: column[row] for name, column in named.items()}), payload),
        )


def _existing(operation: edge.UpdateOperation, ids: list[PointId]) -> Update:
    return Update(operation, points=len(ids), needs=frozenset(ids))


def _ids(body: Selector) -> list[Any] | None:
    return None if body.points is None else check_ids(body.points)


def _filter(body: Selector) -> edge.Filter:
    filter_ = to_filter(body.filter)
    if filter_ is None:
        raise bad_request("Must provide either points or filter")
    return filter_
