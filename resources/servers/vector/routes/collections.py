"""Routes of collections, aliases, payload indexes and compaction."""

from typing import Any

import msgspec

from resources.servers.vector.config import Patch
from resources.servers.vector.http import Application, Request
from resources.servers.vector.store import AliasAction


class CreateIndex(msgspec.Struct, forbid_unknown_fields=True):
    """A payload index; the schema is a type's name or an object."""

    field_name: str
    field_schema: str | dict[str, Any]


class Actions(msgspec.Struct, forbid_unknown_fields=True):
    actions: list[AliasAction]


def add_routes(app: Application) -> None:
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
        ("POST", f"{one}/compact", compact),
    ):
        app.add(method, path, handler)


async def list_all(request: Request) -> Any:
    return {"collections": [{"name": name} for name in sorted(request.store.collections)]}


async def create(request: Request) -> Any:
    return request.store.create(request.name, await request.body(dict[str, Any]))


async def info(request: Request) -> Any:
    return request.collection.info()


async def exists(request: Request) -> Any:
    return {"exists": request.name in request.store.collections or request.name in request.store.aliases}


async def patch(request: Request) -> Any:
    await request.collection.patch(await request.body(Patch))
    return True


async def delete(request: Request) -> Any:
    return await request.store.delete(request.name)


async def change_aliases(request: Request) -> Any:
    return request.store.change_aliases((await request.body(Actions)).actions)


async def list_aliases(request: Request) -> Any:
    return _described(request.store.aliases)


async def aliases_of(request: Request) -> Any:
    name = request.collection.name
    return _described({alias: target for alias, target in request.store.aliases.items() if target == name})


async def create_index(request: Request) -> Any:
    body = await request.body(CreateIndex)
    return await request.collection.create_index(body.field_name, body.field_schema)


async def delete_index(request: Request) -> Any:
    return await request.collection.delete_index(request.args[1])


async def compact(request: Request) -> Any:
    """Compact now. `?erase=true` also rewrites every file that may hold deleted points. Not part of Qdrant's interface."""
    return {"points": await request.store.compact(request.name, erase=request.query("erase") == "true")}


def _described(aliases: dict[str, str]) -> dict[str, Any]:
    return {"aliases": [{"alias_name": alias, "collection_name": aliases[alias]} for alias in sorted(aliases)]}
