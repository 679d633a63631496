"""Writes: validate Qdrant's update bodies and convert them to `Update`s of the engine.

An `Update` names the points that must exist, because the engine raises for a missing one only after changing those before it.
Source: https://api.qdrant.tech/api-reference/points (upsert, batch, set payload, update vectors).
"""

from collections.abc import Callable, Iterable, Iterator
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
    to_named,
)

# Points passed to the engine at once: between two pieces other requests are served. A request of as many is flushed.
PIECE = 500
_made = edge.UpdateOperation


class Update(msgspec.Struct, frozen=True):
    """One operation ready to apply. `points` counts towards the flush; `creates` and `needs` are point ids."""

    operation: edge.UpdateOperation
    points: int = 1
    creates: frozenset[PointId] = frozenset()
    needs: frozenset[PointId] = frozenset()


class PointStruct(msgspec.Struct, forbid_unknown_fields=True):
    id: PointId
    vector: VectorStruct
    payload: dict[str, Any] | None = None


class Columns(msgspec.Struct, forbid_unknown_fields=True):
    """The columnar form: one list per field, all of one length."""

    ids: list[PointId]
    vectors: list[Dense] | dict[str, list[Vector]]
    payloads: list[dict[str, Any] | None] | None = None


class Upsert(msgspec.Struct, forbid_unknown_fields=True):
    points: list[PointStruct] | None = None
    batch: Columns | None = None


class Selector(msgspec.Struct, forbid_unknown_fields=True):
    points: list[PointId] | None = None
    filter: Condition | None = None


class SetPayload(Selector, forbid_unknown_fields=True):
    """`key` sets values below a path of the payload."""

    payload: dict[str, Any] = {}
    key: str | None = None


class DeletePayload(Selector, forbid_unknown_fields=True):
    keys: list[str] = []


class PointVectors(msgspec.Struct, forbid_unknown_fields=True):
    """New vectors of one point; vectors not named are kept."""

    id: PointId
    vector: VectorStruct


class UpdateVectors(msgspec.Struct, forbid_unknown_fields=True):
    points: list[PointVectors]


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of `/points/batch`; exactly one field is set."""

    upsert: Upsert | None = None
    delete: Selector | None = None
    set_payload: SetPayload | None = None
    overwrite_payload: SetPayload | None = None
    delete_payload: DeletePayload | None = None
    clear_payload: Selector | None = None
    update_vectors: UpdateVectors | None = None


class Operations(msgspec.Struct, forbid_unknown_fields=True):
    operations: list[Operation]


def upsert(layout: Layout, body: Upsert) -> Iterator[Update]:
    """Yield updates for points in either form; every point is validated before the first update."""
    remaining = iter(list(_columns(layout, body.batch) if body.batch is not None else _rows(layout, body.points)))
    while piece := list(islice(remaining, PIECE)):
        ids = frozenset(point_id for point_id, _ in piece)
        yield Update(_made.upsert_points([point for _, point in piece]), points=len(piece), creates=ids)


def delete(_layout: Layout, body: Selector) -> Iterable[Update]:
    """Delete points by id (missing ones are not an error) or filter."""
    [update] = _selected(body, _made.delete_points, _made.delete_points_by_filter)
    return [msgspec.structs.replace(update, needs=frozenset[PointId]())]


def set_payload(_layout: Layout, body: SetPayload) -> Iterable[Update]:
    return _selected(body, _made.set_payload, _made.set_payload_by_filter, body.payload, body.key)


def overwrite_payload(_layout: Layout, body: SetPayload) -> Iterable[Update]:
    return _selected(body, _made.overwrite_payload, _made.overwrite_payload_by_filter, body.payload, body.key)


def delete_payload(_layout: Layout, body: DeletePayload) -> Iterable[Update]:
    return _selected(body, _made.delete_payload, _made.delete_payload_by_filter, body.keys)


def clear_payload(_layout: Layout, body: Selector) -> Iterable[Update]:
    return _selected(body, _made.clear_payload, _made.clear_payload_by_filter)


def update_vectors(layout: Layout, body: UpdateVectors) -> Iterable[Update]:
    vectors = [edge.PointVectors(check_id(point.id), to_named(layout, point.vector)) for point in body.points]
    ids = frozenset(check_id(point.id) for point in body.points)
    return [Update(_made.update_vectors(vectors), points=len(vectors), needs=ids)]


CONVERTERS: dict[str, Callable[[Layout, Any], Iterable[Update]]] = {
    "upsert": upsert,
    "delete": delete,
    "set_payload": set_payload,
    "overwrite_payload": overwrite_payload,
    "delete_payload": delete_payload,
    "clear_payload": clear_payload,
    "update_vectors": update_vectors,
}


def batch(layout: Layout, body: Operations) -> Iterator[Update]:
    """Yield the updates of a `/points/batch`."""
    for entry in body.operations:
        given = [name for name in CONVERTERS if getattr(entry, name) is not None]
        if len(given) != 1:
            raise format_error(f"an operation needs one of {', '.join(CONVERTERS)}")
        yield from CONVERTERS[given[0]](layout, getattr(entry, given[0]))


def _rows(layout: Layout, points: list[PointStruct] | None) -> Iterator[tuple[PointId, edge.Point]]:
    if points is None:
        raise format_error("an upsert needs `points` or `batch`")
    for point in points:
        point_id = check_id(point.id)
        yield point_id, edge.Point(point_id, to_named(layout, point.vector), point.payload)


def _columns(layout: Layout, columns: Columns) -> Iterator[tuple[PointId, edge.Point]]:
    named = columns.vectors if isinstance(columns.vectors, dict) else {DEFAULT: columns.vectors}
    payloads = columns.payloads if columns.payloads is not None else [None] * len(columns.ids)
    if any(len(column) != len(columns.ids) for column in (payloads, *named.values())):
        raise bad_request("ids, vectors and payloads of a batch must have the same length")
    for row, (raw_id, payload) in enumerate(zip(columns.ids, payloads, strict=True)):
        point_id = check_id(raw_id)
        vectors = to_named(layout, {name: column[row] for name, column in named.items()})
        yield point_id, edge.Point(point_id, vectors, payload)


def _selected(body: Selector, by_ids: Any, by_filter: Any, *arguments: Any) -> list[Update]:
    """Return the operation on the points that the body names, which must exist, or on those of its filter."""
    if body.points is not None:
        ids = check_ids(body.points)
        return [Update(by_ids(ids, *arguments), points=len(ids), needs=frozenset(ids))]
    chosen = to_filter(body.filter)
    if chosen is None:
        raise bad_request("Must provide either points or filter")
    return [Update(by_filter(chosen, *arguments))]
