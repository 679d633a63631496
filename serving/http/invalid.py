"""Errors of a request's fields: each one's name, the fault and what is allowed, from the schema that validates it."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import ValidationException
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition
from msgspec import UNSET, UnsetType

from serving.http.json_schema import Components, Schema, kind_of, of_parameter, resolved

MAX_NAME = 100
MAX_MESSAGE = 300
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_MISSING_PARAMETER = re.compile(r"Missing required \w+ parameter '(\w+)'")
_NO_BODY = "'data'"
"""Litestar's message for an empty body."""
_TOO_LONG = re.compile(r"Expected `str` of length <= \d+")
COLLAPSED = "x-collapsed"
"""In a schema: the most characters of a text once its white space is collapsed. As it is sent, `maxLength` allows more."""
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """Error of a field of a request."""

    field: str
    """The field, with the fields that contain it: `filters.date_range.start`. `body` is the whole body."""
    message: str
    """What is wrong with it."""
    allowed: str | UnsetType = UNSET
    """What is allowed, in words."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" + (f"; allowed: {self.allowed}" if self.allowed else "") + "."


def faults(request: Request[Any, Any, Any], error: ValidationException) -> list[FieldError]:
    """Return what is wrong with each field of the request that Litestar refused."""
    parameters: Mapping[str, FieldDefinition] = request.route_handler.parsed_fn_signature.parameters
    if missing := _MISSING_PARAMETER.search(error.detail):
        return [_of_parameter(parameters, missing[1], "is required")]
    extra: list[Any] = error.extra if isinstance(error.extra, list) else []
    return [_fault(parameters, str(one.get("key") or "data"), str(one.get("message", ""))) for one in extra]


def fault_of(kind: Any, error: msgspec.ValidationError) -> FieldError:
    """Return a validation error of msgspec as a fault of a field of `kind`."""
    message, _, place = str(error).partition(" - at `$")
    return body_fault(kind, place.rstrip("`").lstrip("."), message)


def _fault(parameters: Mapping[str, FieldDefinition], key: str, message: str) -> FieldError:
    body = parameters.get("data")
    if body is None or (key in parameters and key != "data"):
        return _of_parameter(parameters, key, _plain(message))
    return body_fault(body.annotation, "" if key == "data" else key, message)


def body_fault(kind: Any, path: str, message: str) -> FieldError:
    """Return msgspec's message about the value at `path` of a body of this type as a fault of a field."""
    schema, components = _schema_of(kind)
    for step in _STEP.findall(path):
        schema = _below(schema, step, components)
    before = f"{path}." if path else ""
    if message == _NO_BODY:
        message = "is required"
    if unknown := _UNKNOWN.match(message):
        known = ", ".join(_properties(schema, components))
        return FieldError(field=before + unknown[1][:MAX_NAME], message="is not a known field", allowed=known)
    if missing := _MISSING.match(message):
        below = _below(schema, missing[1], components)
        return FieldError(field=before + missing[1], message="is required", allowed=allowed(below, components) or UNSET)
    return FieldError(field=path or "body", message=_plain(message), allowed=allowed(schema, components) or UNSET)


def _of_parameter(parameters: Mapping[str, FieldDefinition], key: str, message: str) -> FieldError:
    for name, field in parameters.items():
        kwarg = field.kwarg_definition
        if isinstance(kwarg, QueryParameter) and key in {name, kwarg.name}:
            schema, components = _schema_of(kind_of(field))
            known = allowed(of_parameter(field, schema), components)
            return FieldError(field=kwarg.name or name, message=message, allowed=known)
    return FieldError(field=key[:MAX_NAME], message=message)


def _plain(message: str) -> str:
    """Return a message of msgspec as a phrase that follows the name of a field."""
    message = message.removesuffix(".")
    if _TOO_LONG.fullmatch(message):
        return "is too long"  # how long it may be is what is allowed
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}…"  # it quotes the value
    return message[:1].lower() + message[1:]


@lru_cache
def _schema_of(kind: Any) -> tuple[Schema, Mapping[str, Schema]]:
    components = Components([kind])
    return components.of(kind), components.schemas


def _choices(schema: Schema, components: Mapping[str, Schema]) -> Iterator[Schema]:
    """Yield the schemas of which a value must match one."""
    for one in schema.get("anyOf", [schema]):
        yield resolved(one, components)


def _properties(schema: Schema, components: Mapping[str, Schema]) -> dict[str, Schema]:
    return {name: one for choice in _choices(schema, components) for name, one in choice.get("properties", {}).items()}


def _below(schema: Schema, step: str, components: Mapping[str, Schema]) -> Schema:
    """Return the schema of a field or an item; an empty schema if it is unknown."""
    if not step.startswith("["):
        return _properties(schema, components).get(step, {})
    nothing: Schema = {}
    return next((one["items"] for one in _choices(schema, components) if "items" in one), nothing)


def allowed(schema: Schema, components: Mapping[str, Schema]) -> str:
    """Return in words what a schema allows."""
    words = dict.fromkeys(
        _words(choice, kind, components)
        for choice in _choices(schema, components)
        for kind in ([choice.get("type", "")] if isinstance(choice.get("type", ""), str) else choice["type"])
    )
    return " or ".join(word for word in words if word)


def _words(schema: Schema, kind: str, components: Mapping[str, Schema]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match kind:
        case "integer" | "number":
            span = f" from {least} to {most}" if least is not None and most is not None else ""
            return ("a whole number" if kind == "integer" else "a number") + span
        case "string":
            if schema.get("format") == "date-time":
                return "a time, such as 2026-11-22T10:00:00Z"
            least, most = schema.get("minLength"), schema.get(COLLAPSED, schema.get("maxLength"))
            limit = f" of {least} to {most} characters" if least else f" of at most {most} characters"
            limit = limit if most else ""
            return f"a text{limit}" + (f" that matches {schema['pattern']}" if "pattern" in schema else "")
        case "array":
            limit = f" of at most {schema['maxItems']}" if "maxItems" in schema else ""
            return f"a list{limit}: {allowed(schema.get('items', {}), components) or 'any values'}"
        case "object":
            names = ", ".join(schema.get("properties", ()))
            return f"an object with the fields {names}" if names else "an object"
        case "boolean":
            return "true or false"
        case _:
            return kind
