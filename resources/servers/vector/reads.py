"""Reads of points. They call the engine directly and never wait."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import qdrant_edge as edge

from resources.servers.vector.collection import VectorCollection
from resources.servers.vector.faults import converting, engine
from resources.servers.vector.filters import Condition, to_filter
from resources.servers.vector.queries import (
    QueryBody,
    WithPayload,
    WithVector,
    limit_of,
    to_request,
    to_with_payload,
)
from resources.servers.vector.sharing import shared, without_prefetch
from resources.servers.vector.vectors import DEFAULT, PointId, check_id, check_ids, from_vectors

_DIRECTIONS = {"asc": edge.Direction.Asc, "desc": edge.Direction.Desc}


class Retrieve(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[PointId]
    with_payload: WithPayload = None
    with_vector: WithVector = None


class OrderBy(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    direction: Literal["asc", "desc"] = "asc"
    start_from: int | float | str | None = None


class Scroll(msgspec.Struct, forbid_unknown_fields=True):
    """A page of points, by id or by a payload field."""

    offset: PointId | None = None
    limit: int | None = None
    filter: Condition | None = None
    with_payload: WithPayload = None
    with_vector: WithVector = None
    order_by: str | OrderBy | None = None


class CountBody(msgspec.Struct, forbid_unknown_fields=True):
    filter: Condition | None = None
    exact: bool | None = None


_DELETED = object()
"""In place of the payload of a hit that was deleted meanwhile."""


def query_batch(collection: VectorCollection, bodies: list[QueryBody]) -> list[list[dict[str, Any]]]:
    """Return the hits of each query in response format.

    Payloads are fetched once the hits are known, once for all queries: read within the queries they take three times as long.
    """
    plain = [msgspec.structs.replace(body, with_payload=False) for body in bodies]
    answers = _run_batch(collection, plain)
    by_selector: dict[str, tuple[WithPayload, list[dict[str, Any]]]] = {}
    for body, hits in zip(bodies, answers, strict=True):
        if body.with_payload:
            by_selector.setdefault(repr(body.with_payload), (body.with_payload, []))[1].extend(hits)
    for selector, hits in by_selector.values():
        with engine():
            records = collection.shard.retrieve(
                list({hit["id"] for hit in hits}), to_with_payload(selector, default=False), with_vector=False
            )
        payloads = {record.id: record.payload for record in records}
        for hit in hits:
            hit["payload"] = payloads.get(hit["id"], _DELETED)
    return [[hit for hit in hits if hit.get("payload") is not _DELETED] for hits in answers]


def _run_batch(collection: VectorCollection, bodies: list[QueryBody]) -> list[list[dict[str, Any]]]:
    """Return the hits of each query, planned by the engine as one batch; a search that queries share runs once."""

    def whole(body: QueryBody) -> bool:
        # with a graph, or for sparse vectors, single values take two to three times as long; otherwise three quarters of the time
        return not collection.graph and body.prefetch is None and (body.using or DEFAULT) in collection.layout.dense

    def run(requests: Mapping[int, edge.QueryRequest]) -> dict[int, list[dict[str, Any]]]:
        with engine():
            if len(requests) == 1:
                found = [collection.shard.query(one) for one in requests.values()]
            else:
                found = collection.shard.query_batch(edge.QueryBatchRequest(list(requests.values())))
        return {place: _hits(bodies[place], points) for place, points in zip(requests, found, strict=True)}

    scoring = shared(bodies)
    resolve = collection.vector_of
    with converting():
        first = {
            place: to_request(body, resolve, spreading=whole(body))
            for place, body in enumerate(bodies)
            if place not in scoring
        }
    answers = run(first)
    if scoring:
        with converting():
            second = {
                place: to_request(without_prefetch(bodies[place]), resolve, hits=[hit["id"] for hit in answers[of]])
                for place, of in scoring.items()
            }
        answers |= run(second)
    return [answers[place] for place in range(len(bodies))]


def retrieve(collection: VectorCollection, body: Retrieve) -> list[dict[str, Any]]:
    """Return points by id, in the order of the request, without unknown ids."""
    ids = check_ids(body.ids)
    with engine():
        records = collection.shard.retrieve(
            ids, to_with_payload(body.with_payload, default=True), body.with_vector or False
        )
    by_id = {str(record.id): record for record in records}
    return [_record(by_id[key]) for key in dict.fromkeys(map(str, ids)) if key in by_id]


def scroll(collection: VectorCollection, body: Scroll) -> dict[str, Any]:
    """Return one page and the id that starts the next (none when ordered by a field)."""
    order = OrderBy(body.order_by) if isinstance(body.order_by, str) else body.order_by
    with converting():
        request = edge.ScrollRequest(
            offset=None if body.offset is None else check_id(body.offset),
            limit=limit_of(body.limit),
            filter=to_filter(body.filter),
            with_payload=to_with_payload(body.with_payload, default=True),
            with_vector=body.with_vector or False,
            order_by=edge.OrderBy(order.key, _DIRECTIONS[order.direction], order.start_from) if order else None,
        )
    with engine():
        records, following = collection.shard.scroll(request)
    return {"points": [_record(record) for record in records], "next_page_offset": following}


def count(collection: VectorCollection, body: CountBody) -> dict[str, int]:
    with converting():
        request = edge.CountRequest(exact=body.exact is not False, filter=to_filter(body.filter))
    with engine():
        return {"count": collection.shard.count(request)}


def _hits(body: QueryBody, points: list[edge.ScoredPoint]) -> list[dict[str, Any]]:
    """Return the points of a query without their payloads. Every attribute is made anew when it is read, an id as a `UUID`."""
    hits = [{"id": point.id, "version": point.version, "score": point.score} for point in points]
    if body.with_vector:
        for hit, point in zip(hits, points, strict=True):
            hit.update(_fields(point))
    return hits


def _record(record: edge.Record) -> dict[str, Any]:
    fields = {"id": record.id} | _fields(record)
    return fields if record.order_value is None else fields | {"order_value": record.order_value}


def _fields(point: edge.ScoredPoint | edge.Record) -> dict[str, Any]:
    """Return the payload and the vectors; what was not asked for is left out, as in Qdrant's answers."""
    fields = {} if point.payload is None else {"payload": point.payload}
    return fields if point.vector is None else fields | {"vector": from_vectors(point.vector)}
