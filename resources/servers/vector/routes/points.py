"""Routes under `/collections/{name}/points`."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from resources.servers.vector import reads, updates
from resources.servers.vector.faults import bad_request, converting, not_found
from resources.servers.vector.http import Application, Handler, Request
from resources.servers.vector.queries import QueryBody
from resources.servers.vector.vectors import PointId
from resources.servers.vector.writing import in_writing_thread


class QueryBatch(msgspec.Struct, forbid_unknown_fields=True):
    searches: list[QueryBody]


def add_routes(app: Application) -> None:
    points = "/collections/*/points"
    for method, path, handler in (
        ("PUT", "", _write(updates.Upsert, updates.upsert)),
        ("POST", "", retrieve),
        ("POST", "/delete", _write(updates.Selector, updates.delete)),
        ("POST", "/batch", batch),
        ("POST", "/payload", _write(updates.SetPayload, updates.set_payload)),
        ("PUT", "/payload", _write(updates.SetPayload, updates.overwrite_payload)),
        ("POST", "/payload/delete", _write(updates.DeletePayload, updates.delete_payload)),
        ("POST", "/payload/clear", _write(updates.Selector, updates.clear_payload)),
        ("PUT", "/vectors", _write(updates.UpdateVectors, updates.update_vectors)),
        ("POST", "/scroll", scroll),
        ("POST", "/count", count),
        ("POST", "/query", query),
        ("POST", "/query/batch", query_batch),
        ("GET", "/*", get_point),
    ):
        app.add(method, points + path, handler)


async def batch(request: Request) -> Any:
    body = await request.body(updates.Operations)
    return [await _apply(request, updates.batch, body)] * len(body.operations)


async def retrieve(request: Request) -> Any:
    return reads.retrieve(request.collection, await request.body(reads.Retrieve))


async def get_point(request: Request) -> Any:
    raw = request.args[1]
    point_id: PointId = int(raw) if raw.isdigit() else raw
    found = reads.retrieve(request.collection, reads.Retrieve([point_id], with_payload=True, with_vector=True))
    if not found:
        raise not_found(f"Point with id {raw} does not exists!")
    return found[0]


async def scroll(request: Request) -> Any:
    return reads.scroll(request.collection, await request.body(reads.Scroll))


async def count(request: Request) -> Any:
    return reads.count(request.collection, await request.body(reads.CountBody))


async def query(request: Request) -> Any:
    [points] = reads.query_batch(request.collection, [await request.body(QueryBody)])
    return {"points": points}


async def query_batch(request: Request) -> Any:
    body = await request.body(QueryBatch)
    if not body.searches:
        raise bad_request("a batch needs at least one query")
    return [{"points": points} for points in reads.query_batch(request.collection, body.searches)]


def _write(kind: type[Any], convert: Callable[..., Iterable[updates.Update]]) -> Handler:
    async def handle(request: Request) -> Any:
        return await _apply(request, convert, await request.body(kind))

    return handle


async def _apply(request: Request, convert: Callable[..., Iterable[updates.Update]], body: Any) -> Any:
    collection = request.collection
    with converting():
        converted = await in_writing_thread(lambda: list(convert(collection.layout, body)))
    return await collection.apply(converted)
