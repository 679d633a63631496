"""SCIM 2.0 for identity providers: users, groups and what this service supports. See docs/scim.md.

The routes are not part of the OpenAPI document: SCIM's own endpoints describe them, and they have its format of errors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath
from psycopg.errors import DiskFull
from pydantic import ValidationError
from scim2_models import Context, ListResponse, Resource, ResourceType, Schema, SCIMException

from resources.core.domain import Access
from resources.core.json import Object
from resources.people import SCIM as SOURCE
from resources.stores.postgres import Connection
from serving.http.origins import accepts
from serving.http.request_limits import limited
from serving.identity.authentication import SCIM
from serving.identity.scim.groups import Groups
from serving.identity.scim.models import CONFIG, PROVIDER
from serving.identity.scim.requests import BASE, MEDIA_TYPE, Caller, body_of, error_body, error_of
from serving.identity.scim.users import Users
from serving.identity.service import IdentityServices
from sql.scim import Scim

OPTIONS = limited("scim") | accepts(None) | {SCIM: True}
KINDS = {"Users": Users, "Groups": Groups}
NOT_IMPLEMENTED = (".search", "Bulk", "Me")
READ_ONLY = ("ServiceProviderConfig", "ResourceTypes", "Schemas")

Work = Callable[[Users | Groups], Any]
ScimRequest = Request[Access, Any, Any]


def respond(status: int, body: Object | None, location: str | None = None) -> Response[Any]:
    """Return a response in SCIM's format."""
    headers = {"Location": location} if location else {}
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


@get(BASE + "/{kind:str}", operation_id="scimList", include_in_schema=False, opt=OPTIONS)
async def scim_list(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str]
) -> Response[Any]:
    """List users or groups, or return what this service supports."""
    if kind in READ_ONLY:
        return await _discovered(request, identity, kind)
    query = dict(request.query_params.items())
    return await _run(request, identity, kind, lambda store: respond(200, store.page(query)))


@post(BASE + "/{kind:str}", operation_id="scimCreate", include_in_schema=False, opt=OPTIONS)
async def scim_create(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str]
) -> Response[Any]:
    """Create a user or group."""
    content, query = await request.body(), dict(request.query_params.items())

    def create(store: Users | Groups) -> Response[Any]:
        location, body = store.create(body_of(content), query)
        return respond(201, body, location)

    return await _run(request, identity, kind, create)


@get(
    BASE + "/{kind:str}/{resource_id:str}",
    operation_id="scimGet",
    include_in_schema=False,
    opt=OPTIONS,
)
async def scim_get(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str], resource_id: FromPath[str]
) -> Response[Any]:
    """Return a user or group, or one of the schemas or resource types."""
    if kind in READ_ONLY:
        return await _discovered(request, identity, kind, resource_id)
    query = dict(request.query_params.items())
    return await _run(request, identity, kind, lambda store: respond(200, store.get(resource_id, query)))


@put(
    BASE + "/{kind:str}/{resource_id:str}",
    operation_id="scimReplace",
    include_in_schema=False,
    opt=OPTIONS,
)
async def scim_replace(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str], resource_id: FromPath[str]
) -> Response[Any]:
    """Replace a user or group."""
    content, query = await request.body(), dict(request.query_params.items())
    return await _run(
        request, identity, kind, lambda store: respond(200, store.replace(resource_id, body_of(content), query))
    )


@patch(
    BASE + "/{kind:str}/{resource_id:str}",
    operation_id="scimPatch",
    include_in_schema=False,
    opt=OPTIONS,
)
async def scim_patch(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str], resource_id: FromPath[str]
) -> Response[Any]:
    """Change a user or group."""
    content, query = await request.body(), dict(request.query_params.items())

    def change(store: Users | Groups) -> Response[Any]:
        changed = store.patch(resource_id, body_of(content), query)
        return respond(204 if changed is None else 200, changed)

    return await _run(request, identity, kind, change)


@delete(
    BASE + "/{kind:str}/{resource_id:str}",
    operation_id="scimDelete",
    status_code=200,
    include_in_schema=False,
    opt=OPTIONS,
)
async def scim_delete(
    request: ScimRequest, identity: NamedDependency[IdentityServices], kind: FromPath[str], resource_id: FromPath[str]
) -> Response[Any]:
    """Delete a user or group. The response has status 204 and no body, unless it is an error."""

    def remove(store: Users | Groups) -> Response[Any]:
        store.delete(resource_id)
        return respond(204, None)

    return await _run(request, identity, kind, remove)


async def _run(request: ScimRequest, identity: IdentityServices, kind: str, work: Work) -> Response[Any]:
    """Run work on users or groups in a transaction, which a refused request takes back."""
    if kind not in KINDS:
        return _refused(kind)
    caller = Caller(request.user.email, identity.http.settings.base_url)

    def store(connection: Connection) -> Response[Any]:
        _hear(identity, connection)
        with connection.transaction():
            response = work(KINDS[kind](connection, caller))
            identity.withholding.people(connection)
            return response

    try:
        return await identity.http.database.in_thread(store)
    except (SCIMException, ValidationError) as error:
        status, body = error_of(error)
        return respond(status, body)


def _refused(kind: str) -> Response[Any]:
    """Return the error of a collection that is not here. 501 is for operations that a service may leave out (RFC 7644 3.12)."""
    if kind in READ_ONLY:
        status, detail = 405, f"{kind} can only be read."
    elif kind in NOT_IMPLEMENTED:
        status, detail = 501, f"{kind} is not supported."
    else:
        status, detail = 404, f"There is no {kind!r} here."
    return respond(status, error_body(status, detail))


def _hear(identity: IdentityServices, connection: Connection) -> None:
    """Note that the client keeps its users and groups up to date. On a full disk they age as if it had not called."""
    with suppress(DiskFull), connection.transaction():
        identity.withholding.groups(connection, SOURCE)
        Scim(connection).heard()


async def _discovered(
    request: ScimRequest, identity: IdentityServices, kind: str, name: str | None = None
) -> Response[Any]:
    """Return what this service supports. Filters are refused. Source: RFC 7644 4."""
    await identity.http.database.in_thread(partial(_hear, identity))
    if request.query_params.get("filter"):
        return respond(403, error_body(403, f"{kind} cannot be filtered."))
    base = identity.http.settings.base_url + BASE
    if kind == "ServiceProviderConfig":
        found = CONFIG if name is None else None
        body = None if found is None else _dumped(found, f"{base}/{kind}", kind)
        return respond(200, body) if body else _missing(kind, name)
    resources: list[Object] = [
        _dumped(one, f"{base}/{kind}/{key}", kind.removesuffix("s")) for key, one in _published(kind).items()
    ]
    if name is not None:
        found = next((one for one in resources if name in {one.get("id"), one.get("name")}), None)
        return respond(200, found) if found else _missing(kind, name)
    listing = ListResponse[ResourceType | Schema](
        total_results=len(resources), start_index=1, items_per_page=len(resources)
    ).model_dump()
    return respond(200, {**listing, "Resources": resources})


def _published(kind: str) -> dict[str, Resource[Any]]:
    if kind == "Schemas":
        return {str(one.id): one for one in PROVIDER.schemas}
    return {str(one.name): one for one in PROVIDER.resource_types}


def _dumped(one: Resource[Any], location: str, resource_type: str) -> Object:
    dumped = one.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)
    return msgspec.json.decode(msgspec.json.encode(dumped)) | {
        "meta": {"resourceType": resource_type, "location": location}
    }


def _missing(kind: str, name: str | None) -> Response[Any]:
    return respond(404, error_body(404, f"There is no {kind} {name!r}."))
