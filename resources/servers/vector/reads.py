"""Reads of points. They call the engine directly and never wait."""

from __future__ import annotations

from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.collection import Collection
from resources.servers.vector.examples import Resolver
from resources.servers.vector.faults import converting, engine
from resources.servers.vector.filters import Condition, spread, to_filter
from resources.servers.vector.queries import (
    Lookup,
    OrderBy,
    QueryBody,
    limit_of,
    to_order,
    to_request,
    to_with_payload,
    to_with_vector,
)
from resources.servers.vector.sharing import over, shared
from resources.servers.vector.store import Store
from resources.servers.vector.vectors import DEFAULT, PointId, check_id, check_ids, from_vectors

WithPayload = bool | list[str] | dict[str, list[str]] | None
WithVector = bool | list[str] | None


class Retrieve(msgspec.Struct):
    """Points by id."""

    ids: list[PointId]
    with_payload: WithPayload = None
    with_vector: WithVector = None


class Scroll(msgspec.Struct):
    """A page of points, by id or by a payload field."""

    offset: PointId | None = None
    limit: int | None = None
    filter: Condition | None = None
    with_payload: WithPayload = None
    with_vector: WithVector = None
    order_by: str | OrderBy | None = None


class Count(msgspec.Struct):
    """Number of matching points."""

    filter: Condition | None = None
    exact: bool | None = None


class Facet(msgspec.Struct):
    """Number of points per value of a field."""

    key: str
    limit: int | None = None
    filter: Condition | None = None
    exact: bool | None = None


def query_batch(store: Store, collection: Collection, bodies: list[QueryBody]) -> list[list[edge.ScoredPoint]]:
    """Return the scored points of each query, planned by the engine as one batch; a search that queries share runs once."""

    def resolver(lookup: Lookup | None, using: str) -> tuple[Resolver, bool]:
        source = collection if lookup is None else store.get(lookup.collection)
        name = using if lookup is None or lookup.vector is None else lookup.vector
        return lambda point_id: source.vector_of(point_id, name), source is collection

    def planned(body: QueryBody) -> QueryBody:
        # with a graph, or for sparse vectors, this takes two to three times as long; otherwise three quarters of the time
        whole = not collection.graph and body.prefetch is None and (body.using or DEFAULT) in collection.layout.dense
        return msgspec.structs.replace(body, filter=spread(body.filter)) if whole else body

    def run(wanted: dict[int, QueryBody]) -> dict[int, list[edge.ScoredPoint]]:
        with converting():
            requests = [to_request(planned(body), resolver) for body in wanted.values()]
        with engine():
            if len(requests) == 1:
                found = [collection.shard.query(requests[0])]
            else:
                found = collection.shard.query_batch(edge.QueryBatchRequest(requests))
        return dict(zip(wanted, found, strict=True))

    scoring = shared(bodies)
    answers = run({place: body for place, body in enumerate(bodies) if place not in scoring})
    if scoring:
        answers |= run({at: over(bodies[at], (hit.id for hit in answers[of])) for at, of in scoring.items()})
    return [answers[place] for place in range(len(bodies))]


def scored_batch(store: Store, collection: Collection, bodies: list[QueryBody]) -> list[list[dict[str, Any]]]:
    """Return the hits of each query in response format.

    Payloads are fetched once the hits are known, once for all queries: read within the queries they take three times as long.
    """
    plain = [msgspec.structs.replace(body, with_payload=False) for body in bodies]
    answers = [[to_scored(point) for point in points] for points in query_batch(store, collection, plain)]
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
            hit["payload"] = payloads[hit["id"]]
    return answers


def retrieve(collection: Collection, body: Retrieve) -> list[dict[str, Any]]:
    """Return points by id, in the order of the request, without unknown ids."""
    ids = check_ids(body.ids)
    with engine():
        records = collection.shard.retrieve(
            ids, to_with_payload(body.with_payload, default=True), to_with_vector(body.with_vector)
        )
    by_id = {str(record.id): record for record in records}
    return [to_record(by_id[key]) for key in dict.fromkeys(map(str, ids)) if key in by_id]


def scroll(collection: Collection, body: Scroll) -> dict[str, Any]:
    """Return one page and the id that starts the next (none when ordered by a field)."""
    with converting():
        request = edge.ScrollRequest(
            offset=None if body.offset is None else check_id(body.offset),
            limit=limit_of(body.limit),
            filter=to_filter(body.filter),
            with_payload=to_with_payload(body.with_payload, default=True),
            with_vector=to_with_vector(body.with_vector),
            order_by=None if body.order_by is None else to_order(body.order_by),
        )
    with engine():
        records, following = collection.shard.scroll(request)
    return {"points": [to_record(record) for record in records], "next_page_offset": following}


def count(collection: Collection, body: Count) -> dict[str, int]:
    """Return the number of matching points."""
    with converting():
        request = edge.CountRequest(exact=body.exact is not False, filter=to_filter(body.filter))
    with engine():
        return {"count": collection.shard.count(request)}


def facet(collection: Collection, body: Facet) -> dict[str, Any]:
    """Return the values of an indexed field with their counts, most frequent first."""
    with converting():
        request = edge.FacetRequest(body.key, limit_of(body.limit), bool(body.exact), to_filter(body.filter))
    with engine():
        hits = collection.shard.facet(request).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}


def to_scored(point: edge.ScoredPoint) -> dict[str, Any]:
    """Return a scored point in response format."""
    scored = {"id": point.id, "version": point.version, "score": point.score}
    return _complete(scored, point)


def to_record(record: edge.Record) -> dict[str, Any]:
    """Return a stored point in response format."""
    return _complete({"id": record.id}, record)


def _complete(plain: dict[str, Any], point: edge.ScoredPoint | edge.Record) -> dict[str, Any]:
    payload, vector, order_value = point.payload, point.vector, point.order_value
    if payload is not None:
        plain["payload"] = payload
    if vector is not None:
        plain["vector"] = from_vectors(vector)
    if order_value is not None:
        plain["order_value"] = order_value
    return plain
