"""Routes of collections, aliases, payload indexes, vector names and compaction."""

from __future__ import annotations

from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.config import to_config
from resources.servers.vector.faults import converting, wrong_input
from resources.servers.vector.http import Application, Request
from resources.servers.vector.store import AliasAction
from resources.servers.vector.updates import Update
from resources.servers.vector.vectors import check_name


class CreateIndex(msgspec.Struct):
    """A payload index; the schema is a type's name or an object."""

    field_name: str
    field_schema: str | dict[str, Any]


class Actions(msgspec.Struct):
    """Alias actions, applied together."""

    actions: list[AliasAction]


def add_routes(app: Application) -> None:
    """Register the routes."""
    one = "/collections/*"
    for method, path, handler in (
        ("GET", "/collections", list_all),
        ("POST", "/collections/aliases", change_aliases),
        ("GET", "/aliases", list_aliases),
        ("PUT", one, create),
        ("GET", one, info),
        ("PATCH", one, patch),
        ("DELETE", one, delete),
        ("GET", f"{one}/exists", exists),
        ("GET", f"{one}/aliases", aliases_of),
        ("PUT", f"{one}/index", create_index),
        ("DELETE", f"{one}/index/*", delete_index),
        ("PUT", f"{one}/vectors/*", create_vector),
        ("DELETE", f"{one}/vectors/*", delete_vector),
        ("POST", f"{one}/compact", compact),
    ):
        app.add(method, path, handler)


async def list_all(request: Request) -> Any:
    return {"collections": [{"name": name} for name in sorted(request.store.collections)]}


async def create(request: Request) -> Any:
    body = await request.body(dict[str, Any])
    return request.store.create(request.name, body)


async def info(request: Request) -> Any:
    return request.store.get(request.name).info()


async def exists(request: Request) -> Any:
    return {"exists": request.name in request.store.collections or request.name in request.store.aliases}


async def patch(request: Request) -> Any:
    body = await request.body(dict[str, Any])
    await request.store.get(request.name).patch(body)
    return True


async def delete(request: Request) -> Any:
    return await request.store.delete(request.name)


async def change_aliases(request: Request) -> Any:
    body = await request.body(Actions)
    return request.store.change_aliases(body.actions)


async def list_aliases(request: Request) -> Any:
    return _described(sorted(request.store.aliases.items()))


async def aliases_of(request: Request) -> Any:
    name = request.store.get(request.name).name
    return _described([(alias, target) for alias, target in sorted(request.store.aliases.items()) if target == name])


async def create_index(request: Request) -> Any:
    body = await request.body(CreateIndex)
    return await request.store.get(request.name).create_index(body.field_name, body.field_schema)


async def delete_index(request: Request) -> Any:
    return await request.store.get(request.name).delete_index(request.args[1])


async def create_vector(request: Request) -> Any:
    collection, name = request.store.get(request.name), request.args[1]
    body = await request.body(dict[str, Any])
    kind = next((kind for kind in ("dense", "sparse") if isinstance(body.get(kind), dict)), None)
    if kind is None:
        raise wrong_input("a vector needs `dense` or `sparse`")
    with converting():
        config, layout = to_config(
            {"vectors": {name: body["dense"]}} if kind == "dense" else {"sparse_vectors": {name: body["sparse"]}}
        )
        if kind == "dense":
            made = config.vectors[name]
            operation = edge.UpdateOperation.create_dense_vector(
                name, layout.dense[name], made.distance, made.multivector_config, made.datatype
            )
        else:
            operation = edge.UpdateOperation.create_sparse_vector(name, config.sparse_vectors[name].modifier)
    result = await collection.apply([Update(operation)])
    collection.save_vectors("vectors" if kind == "dense" else "sparse_vectors", name, body[kind])
    return result


async def delete_vector(request: Request) -> Any:
    collection, name = request.store.get(request.name), request.args[1]
    check_name(collection.layout, name)
    field = "vectors" if name in collection.layout.dense else "sparse_vectors"
    result = await collection.apply([Update(edge.UpdateOperation.delete_vector_name(name))])
    collection.save_vectors(field, name, None)
    return result


async def compact(request: Request) -> Any:
    """Compact now. `?erase=true` also rewrites every file that may hold deleted points. Not part of Qdrant's interface."""
    return {"points": await request.store.compact(request.name, erase=request.query("erase") == "true")}


def _described(aliases: list[tuple[str, str]]) -> dict[str, Any]:
    return {"aliases": [{"alias_name": alias, "collection_name": target} for alias, target in aliases]}
