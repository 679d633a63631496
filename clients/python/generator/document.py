"""The part of the OpenAPI document that the client covers."""

import keyword
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from resources.core.json import is_list, is_object

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/"
JSON = "application/json"
FORM = "multipart/form-data"
EVENTS = "text/event-stream"
LEFT_OUT = {"compatibility", "pages", "sessions"}
"""Tags of operations that are for browsers, or have an equivalent."""


class Operation(NamedTuple):
    """An operation, with its parameters by place."""

    id: str
    method: str
    path: str
    described: Schema
    components: dict[str, Schema]

    @property
    def name(self) -> str:
        """The method's name: `listDocuments` is `list_documents`."""
        return re.sub(r"(?<!^)([A-Z])", r"_\1", self.id).lower()

    @property
    def options_name(self) -> str:
        """The name of the typed dictionary of its optional fields."""
        return f"{self.id[0].upper()}{self.id[1:]}Options"

    @property
    def path_parameters(self) -> list[str]:
        return [one["name"] for one in self.described.get("parameters", []) if one["in"] == "path"]

    @property
    def fields(self) -> dict[str, tuple[Schema, bool]]:
        """The query parameters, or the fields of the JSON body, by name, and whether each is required."""
        parameters = [one for one in self.described.get("parameters", []) if one["in"] == "query"]
        body = self.body
        if parameters and body:
            raise ValueError(f"{self.id}: the client cannot tell fields of the query from those of the body.")
        required: list[str] = body.get("required", [])
        found = {
            one["name"]: (one["schema"] | {"description": one["description"]}, one["required"]) for one in parameters
        }
        found |= {
            name: (schema, name in required)
            for name, schema in body.get("properties", {}).items()
            if not (self.streams and name == "stream")  # the client streams with a method of its own
        }
        for name in (*found, *self.path_parameters):
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{self.id}: {name!r} cannot be an argument in Python.")
        return found

    @property
    def body(self) -> Schema:
        """The schema of the JSON body, or an empty one."""
        content = self.described.get("requestBody", {}).get("content", {})
        return resolved(content[JSON]["schema"], self.components) if JSON in content else {}

    @property
    def form(self) -> Schema:
        """The schema of the form that it takes instead of JSON, or an empty one."""
        content = self.described.get("requestBody", {}).get("content", {})
        return content[FORM]["schema"] if FORM in content and JSON not in content else {}

    @property
    def streams(self) -> bool:
        return EVENTS in self._success

    @property
    def repeatable(self) -> bool:
        return self.method in {"GET", "PUT"} or self.described.get("x-repeatable", False)

    @property
    def returns(self) -> str | None:
        """The component that it returns as JSON; None if it returns anything else."""
        if not set(self._success) <= {JSON, EVENTS}:
            return None
        reference: str = self._success.get(JSON, {}).get("schema", {}).get("$ref", "")
        return reference.removeprefix(REFERENCE) or None

    @property
    def entries(self) -> tuple[str, Schema] | None:
        """The list of a page and the schema of its entries, if it returns pages."""
        properties: dict[str, Schema] = self.components[self.returns]["properties"] if self.returns else {}
        if "next_cursor" not in properties or "cursor" not in self.fields:
            return None
        return next((name, one["items"]) for name, one in properties.items() if one.get("type") == "array")

    @property
    def events(self) -> dict[str, str]:
        """The component of each event's data, by the name of the event."""
        if not self.streams:
            return {}
        kinds = [one["properties"] for one in self._success[EVENTS]["schema"]["oneOf"]]
        return {one["event"]["const"]: one["data"]["contentSchema"]["$ref"].removeprefix(REFERENCE) for one in kinds}

    @property
    def _success(self) -> dict[str, Any]:
        statuses = [status for status in self.described["responses"] if status.startswith("2")]
        return self.described["responses"][statuses[0]].get("content", {})


def resolved(schema: Schema, components: dict[str, Schema]) -> Schema:
    """Return the component that a schema refers to, or the schema itself."""
    name = schema.get("$ref", "").removeprefix(REFERENCE)
    return components[name] if name else schema


def operations(document: Schema) -> list[Operation]:
    """Return the operations that a caller with a token uses, ordered by name."""
    components = document["components"]["schemas"]
    found = [
        Operation(one["operationId"], method.upper(), path, one, components)
        for path, item in document["paths"].items()
        for method, one in item.items()
        if {"bearer": []} in one["security"] and not LEFT_OUT.intersection(one["tags"])
    ]
    return sorted(found, key=lambda one: one.name)


def _references(part: Any) -> Iterator[str]:
    """Yield the names of the components that a schema refers to directly."""
    if is_object(part):
        if "$ref" in part:
            yield part["$ref"].removeprefix(REFERENCE)
        for value in part.values():
            yield from _references(value)
    elif is_list(part):
        for one in part:
            yield from _references(one)


def reachable(roots: Iterable[Any], components: dict[str, Schema]) -> list[str]:
    """Return the names of all components that schemas refer to, directly or not, each after those that it refers to."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for inner in sorted(_references(components[name])):
                visit(inner)
            found[name] = None

    for name in sorted({name for root in roots for name in _references(root)}):
        visit(name)
    return list(found)
