"""Reading requests and writing responses in SCIM's format, application/scim+json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from pydantic import ValidationError
from scim2_models import (
    Context,
    Error,
    InvalidSyntaxException,
    InvalidValueException,
    ListResponse,
    Meta,
    PatchOp,
    Resource,
    ResponseParameters,
    SCIMException,
)

from resources.core.json import Object, is_list, is_object
from resources.core.permissions import MAX_LENGTH
from serving.identity.scim.models import MAX_RESULTS, POLICY
from sql.scim import ProvisionedGroup, ProvisionedUser

MEDIA_TYPE = "application/scim+json"
BASE = "/scim/v2"

R = TypeVar("R", bound=Resource[Any])


class Caller(NamedTuple):
    """The client that sends a request: the address of its key, and where this service is reached."""

    email: str
    base_url: str

    @property
    def domain(self) -> str:
        return self.email.rpartition("@")[2]

    def location(self, endpoint: str, resource_id: str) -> str:
        return f"{self.base_url}{BASE}/{endpoint}/{resource_id}"


class PageRequest(NamedTuple):
    """Requested page of a list: entries to skip, and most entries to return."""

    skip: int
    most: int


def page_of(query: Mapping[str, str]) -> PageRequest:
    """Return the page that `startIndex` and `count` ask for. Source: RFC 7644 3.4.2.4."""
    start, count = _number(query, "startIndex", 1), _number(query, "count", MAX_RESULTS)
    return PageRequest(max(1, start) - 1, min(max(0, count), MAX_RESULTS))


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    try:
        return min(int(query.get(name) or default), 2**31)
    except ValueError:
        raise InvalidSyntaxException(detail=f"{name} must be a whole number.") from None


def body_of(content: bytes) -> Object:
    """Return the JSON object of a body. Raises `InvalidSyntaxException`."""
    if b"\\u0000" in content:
        raise InvalidSyntaxException(detail="The body contains a NUL character.")
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidSyntaxException(detail="The body is not valid JSON in UTF-8.") from None
    if not is_object(body):
        raise InvalidSyntaxException(detail="The body must be a JSON object.")
    return body


def resource_of(kind: type[R], body: Object, *, replacing: bool = False) -> R:
    """Return the resource of a request that creates or replaces one. Raises pydantic's `ValidationError`."""
    context = Context.RESOURCE_REPLACEMENT_REQUEST if replacing else Context.RESOURCE_CREATION_REQUEST
    return kind.model_validate(body, scim_ctx=context, scim_policy=POLICY)


def patched(kind: type[R], resource: R, body: Object) -> R:
    """Return a copy of the resource with the operations of a PATCH applied; nothing is changed if one of them fails."""
    operations = body.get("Operations")
    if is_list(operations):
        body = {**body, "Operations": [one for operation in operations for one in _with_paths(operation)]}
    patch: Any = PatchOp.__class_getitem__(kind)
    changed = resource.model_copy(deep=True)
    patch.model_validate(body, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY).patch(
        changed, scim_policy=POLICY
    )
    return changed


def _with_paths(operation: Any) -> list[Any]:
    """Return an operation without a path whose value has keys with filters, such as Entra ID's, as operations with paths."""
    if not is_object(operation) or operation.get("path") or not is_object(operation.get("value")):
        return [operation]
    value: Object = operation["value"]
    filtered = [name for name in value if "[" in name]
    plain = {name: one for name, one in value.items() if name not in filtered}
    return [
        *([{**operation, "value": plain}] if plain or not filtered else []),
        *({**operation, "path": name, "value": value[name]} for name in filtered),
    ]


def with_meta(resource: R, stored: ProvisionedUser | ProvisionedGroup, kind: str, caller: Caller) -> R:
    """Return the resource with its id and metadata."""
    resource.id = stored.id
    resource.meta = Meta(
        resource_type=kind,
        created=stored.created_at,
        last_modified=stored.modified_at,
        location=caller.location(f"{kind}s", stored.id),
    )
    return resource


def parameters_of(kind: type[Resource[Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a dump that `attributes` and `excludedAttributes` ask for."""
    wanted = {name: query[name] for name in ("attributes", "excludedAttributes") if query.get(name)}
    read: Any = ResponseParameters.__class_getitem__(kind)
    return {"scim_ctx": Context.RESOURCE_QUERY_RESPONSE, "response_parameters": read.model_validate(wanted)}


def listed(kind: type[R], resources: list[R], total: int, page: PageRequest, query: Mapping[str, str]) -> Object:
    """Return a list response. `Resources` is there even if it is empty, as Entra ID expects."""
    response: Any = ListResponse.__class_getitem__(kind)
    made = response(
        total_results=total, start_index=page.skip + 1, items_per_page=len(resources), resources=resources
    ).model_dump(**parameters_of(kind, query))
    return {"Resources": [], **made}


def short(**texts: str | None) -> None:
    """Raise `InvalidValueException` for an attribute that is too long to be looked up."""
    for name, text in texts.items():
        if text is not None and len(text) > MAX_LENGTH:
            raise InvalidValueException(detail=f"{name}: has more than {MAX_LENGTH} characters.")


def error_body(status: int, detail: str) -> Object:
    """Return an error. Source: RFC 7644 3.12."""
    return Error(status=status, detail=detail).model_dump()


def error_of(error: SCIMException | ValidationError) -> tuple[int, Object]:
    """Return the status and body of a request that is not valid."""
    found = error.to_error() if isinstance(error, SCIMException) else Error.from_validation_errors(error)[0]
    return found.status or 400, found.model_dump()
