"""Routes under `/collections/{name}/points`, and facet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from resources.servers.vector import reads, updates
from resources.servers.vector.collection import Collection
from resources.servers.vector.examples import Recommend, VectorInput
from resources.servers.vector.faults import bad_request, converting, not_found
from resources.servers.vector.groups import GroupsBody, query_groups
from resources.servers.vector.http import Application, Request
from resources.servers.vector.queries import Query, QueryBody
from resources.servers.vector.reads import Count, Facet, Retrieve, Scroll
from resources.servers.vector.vectors import Dense, PointId, Sparse


class Queries(msgspec.Struct):
    """Several queries at once."""

    searches: list[QueryBody]


class NamedVector(msgspec.Struct):
    """A named query vector of the legacy search API."""

    name: str
    vector: Dense | Sparse


class SearchBody(QueryBody, kw_only=True):
    """Body of the legacy search API: `vector` instead of `query` and `using`."""

    vector: Dense | NamedVector


class Searches(msgspec.Struct):
    """Several legacy searches at once."""

    searches: list[SearchBody]


class RecommendBody(QueryBody, kw_only=True):
    """Body of the legacy recommendation API."""

    positive: list[VectorInput] | None = None
    negative: list[VectorInput] | None = None
    strategy: str | None = None


def add_routes(app: Application) -> None:
    """Register the routes."""
    points = "/collections/*/points"
    for method, path, handler in (
        ("PUT", "", upsert),
        ("POST", "", retrieve),
        ("POST", "/delete", delete),
        ("POST", "/batch", batch),
        ("POST", "/payload", set_payload),
        ("PUT", "/payload", overwrite_payload),
        ("POST", "/payload/delete", delete_payload),
        ("POST", "/payload/clear", clear_payload),
        ("PUT", "/vectors", update_vectors),
        ("POST", "/vectors/delete", delete_vectors),
        ("POST", "/scroll", scroll),
        ("POST", "/count", count),
        ("POST", "/query", query),
        ("POST", "/query/batch", query_batch),
        ("POST", "/query/groups", groups),
        ("POST", "/search", search),
        ("POST", "/search/batch", search_batch),
        ("POST", "/recommend", recommend),
        ("GET", "/*", get_point),
    ):
        app.add(method, points + path, handler)
    app.add("POST", "/collections/*/facet", facet)


async def upsert(request: Request) -> Any:
    collection = request.store.get(request.name)
    body = await request.body(updates.Upsert)
    return await _apply(collection, lambda: updates.upsert(collection.layout, body))


async def delete(request: Request) -> Any:
    body = await request.body(updates.Selector)
    return await _apply(request.store.get(request.name), lambda: [updates.delete(body)])


async def set_payload(request: Request) -> Any:
    body = await request.body(updates.SetPayload)
    return await _apply(request.store.get(request.name), lambda: [updates.set_payload(body)])


async def overwrite_payload(request: Request) -> Any:
    body = await request.body(updates.SetPayload)
    return await _apply(request.store.get(request.name), lambda: [updates.set_payload(body, overwrite=True)])


async def delete_payload(request: Request) -> Any:
    body = await request.body(updates.DeletePayload)
    return await _apply(request.store.get(request.name), lambda: [updates.delete_payload(body)])


async def clear_payload(request: Request) -> Any:
    body = await request.body(updates.Selector)
    return await _apply(request.store.get(request.name), lambda: [updates.clear_payload(body)])


async def update_vectors(request: Request) -> Any:
    collection = request.store.get(request.name)
    body = await request.body(updates.UpdateVectors)
    return await _apply(collection, lambda: [updates.update_vectors(collection.layout, body)])


async def delete_vectors(request: Request) -> Any:
    collection = request.store.get(request.name)
    body = await request.body(updates.DeleteVectors)
    return await _apply(collection, lambda: [updates.delete_vectors(collection.layout, body)])


async def batch(request: Request) -> Any:
    collection = request.store.get(request.name)
    body = await request.body(updates.Operations)
    result = await _apply(
        collection,
        lambda: chain.from_iterable(updates.operation(collection.layout, entry) for entry in body.operations),
    )
    return [result] * len(body.operations)


async def retrieve(request: Request) -> Any:
    body = await request.body(Retrieve)
    return reads.retrieve(request.store.get(request.name), body)


async def get_point(request: Request) -> Any:
    raw = request.args[1]
    point_id: PointId = int(raw) if raw.isdigit() else raw
    found = reads.retrieve(request.store.get(request.name), Retrieve([point_id], with_payload=True, with_vector=True))
    if not found:
        raise not_found(f"Point with id {raw} does not exists!")
    return found[0]


async def scroll(request: Request) -> Any:
    body = await request.body(Scroll)
    return reads.scroll(request.store.get(request.name), body)


async def count(request: Request) -> Any:
    body = await request.body(Count)
    return reads.count(request.store.get(request.name), body)


async def facet(request: Request) -> Any:
    body = await request.body(Facet)
    return reads.facet(request.store.get(request.name), body)


async def query(request: Request) -> Any:
    body = await request.body(QueryBody)
    [points] = _query(request, [body])
    return {"points": points}


async def query_batch(request: Request) -> Any:
    body = await request.body(Queries)
    return [{"points": points} for points in _query(request, body.searches)]


async def groups(request: Request) -> Any:
    body = await request.body(GroupsBody)
    return query_groups(request.store, request.store.get(request.name), body)


async def search(request: Request) -> Any:
    body = await request.body(SearchBody)
    [points] = _query(request, [_from_search(body)])
    return points


async def search_batch(request: Request) -> Any:
    body = await request.body(Searches)
    return _query(request, [_from_search(entry) for entry in body.searches])


async def recommend(request: Request) -> Any:
    body = await request.body(RecommendBody)
    body.query = Query(recommend=Recommend(body.positive, body.negative, body.strategy))
    [points] = _query(request, [body])
    return points


async def _apply(collection: Collection, convert: Any) -> Any:
    with converting():
        converted: Iterable[updates.Update] = list(convert())
    return await collection.apply(converted)


def _query(request: Request, bodies: list[QueryBody]) -> list[list[dict[str, Any]]]:
    if not bodies:
        raise bad_request("a batch needs at least one query")
    return reads.scored_batch(request.store, request.store.get(request.name), bodies)


def _from_search(body: SearchBody) -> QueryBody:
    vector = body.vector
    if isinstance(vector, NamedVector):
        body.using, vector = vector.name, vector.vector
    body.query = Query(indices=vector.indices, values=vector.values) if isinstance(vector, Sparse) else vector
    return body
