"""JSON schemas (2020-12) of msgspec structs, with a description of every property.

msgspec gives the schemas. This module adds the docstrings below the fields, and shapes the result so that generated clients get one
named type for each enum and object, and `T | null` instead of a union of numbered classes.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from litestar.typing import FieldDefinition
from msgspec import UnsetType
from msgspec import inspect as types

REFERENCE = "#/components/schemas/"
TEMPLATE = REFERENCE + "{name}"

Schema = dict[str, Any]


@lru_cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings below the fields of each class of a module."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ClassDef):
            docs = found.setdefault(node.name, {})
            for field, text in zip(node.body, node.body[1:], strict=False):
                if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                    continue
                if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                    docs[field.target.id] = " ".join(str(text.value.value).split())
    return found


def field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of a struct's fields, inherited ones included, by the names that are sent."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            docs |= _module_docs(base.__module__).get(base.__name__, {})
    return {field.encode_name: docs[field.name] for field in msgspec.structs.fields(struct) if field.name in docs}


def _structs(kinds: Iterable[Any]) -> dict[str, type[msgspec.Struct]]:
    """Return all structs that these types contain, by the name of their component."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting: list[Any] = list(types.multi_type_info(list(kinds)))
    while waiting:
        kind = waiting.pop()
        match kind:
            case types.StructType():
                if kind.cls.__name__ not in found:
                    found[kind.cls.__name__] = kind.cls
                    waiting += [field.type for field in kind.fields]
            case types.UnionType():
                waiting += kind.types
            case types.ListType():
                waiting.append(kind.item_type)
            case types.DictType():
                waiting.append(kind.value_type)
            case types.Metadata():
                waiting.append(kind.type)
            case _:
                pass
    return found


class Components:
    """The schemas of a set of types, and the components that they refer to."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        wanted = list(dict.fromkeys(kinds))
        schemas, components = msgspec.json.schema_components(wanted, ref_template=TEMPLATE)
        structs = _structs(wanted)
        self.schemas: dict[str, Schema] = {}
        for name, schema in components.items():
            struct = structs[name]
            self.schemas[public(name)] = self._object(struct, schema)
        self._of = {kind: self._shaped(schema) for kind, schema in zip(wanted, schemas, strict=True)}
        self.schemas = dict(sorted(self.schemas.items()))

    def of(self, kind: Any) -> Schema:
        """Return the schema of one of the types."""
        return self._of[kind]

    def _object(self, struct: type[msgspec.Struct], schema: Schema) -> Schema:
        """Return the schema of a struct. One that refuses unknown fields is a request, any other a response.

        Responses contain every field but those that are left out when unset, whether or not the struct has a default for it. Defaults of
        requests are part of the description: with the keyword `default`, generators for TypeScript make the field a required one.
        """
        docs, response = field_docs(struct), not struct.__struct_config__.forbid_unknown_fields
        properties: dict[str, Schema] = {}
        for name, raw in schema["properties"].items():
            shaped = self._shaped(raw)
            default = shaped.pop("default", None)
            described = docs.get(name, "")
            if not response and default not in (None, [], {}):
                described += f" Default: `{msgspec.json.encode(default).decode()}`."
            shaped["description"] = described
            properties[name] = shaped
        required = schema["required"]
        if response and not struct.__struct_config__.omit_defaults:
            fields = types.type_info(struct)
            assert isinstance(fields, types.StructType)  # noqa: S101
            required = [field.encode_name for field in msgspec.structs.fields(struct) if not _may_be_unset(field.type)]
        shaped: Schema = {
            "type": "object",
            "description": inspect.cleandoc(schema.get("description", "")).replace("\n", " ").replace("  ", " "),
            "properties": properties,
        }
        if required:
            shaped["required"] = required
        if not response:
            shaped["additionalProperties"] = False
        return shaped

    def _shaped(self, schema: Any) -> Schema:
        """Return a schema with named enums and objects as references, and null as one of its types."""
        if "$ref" in schema:
            return schema | {"$ref": REFERENCE + public(schema["$ref"].removeprefix(REFERENCE))}
        shaped = {
            name: [self._shaped(one) for one in value] if name == "anyOf" else value for name, value in schema.items()
        }
        for inner in ("items", "additionalProperties"):
            if isinstance(shaped.get(inner), Mapping):
                shaped[inner] = self._shaped(shaped[inner])
        if shaped.get("type") == "object":
            shaped.setdefault("additionalProperties", True)  # without it, openapi-typescript allows no member
        if "enum" in shaped:
            shaped = {"type": "string"} | shaped
            if len(shaped["enum"]) == 1:
                shaped["const"] = shaped.pop("enum")[0]
            elif "title" not in shaped:
                raise ValueError(f"The enum {shaped['enum']} needs a title, which names it in generated clients.")
        if "title" in shaped:
            return self._hoisted(shaped)
        return _nullable(shaped)

    def _hoisted(self, schema: Schema) -> Schema:
        name, default = schema.pop("title"), schema.pop("default", msgspec.UNSET)
        if self.schemas.setdefault(name, schema) != schema:
            raise ValueError(f"Two schemas have the title {name}.")
        return {"$ref": REFERENCE + name} | ({} if default is msgspec.UNSET else {"default": default})


def public(name: str) -> str:
    """Return the name of a struct without the underscore that keeps it apart from a builtin."""
    return name.rstrip("_")


def _may_be_unset(annotation: Any) -> bool:
    return UnsetType in getattr(annotation, "__args__", ())


def _nullable(schema: Schema) -> Schema:
    """Replace `anyOf: [T, null]` with `type: [T, null]`, unless T is a reference."""
    parts = schema.get("anyOf", [])
    if len(parts) != 2 or parts[1] != {"type": "null"} or not isinstance(parts[0].get("type"), str):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**parts[0], "type": [parts[0]["type"], "null"], **rest}


def resolved(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    """Return the component that a schema refers to, or the schema itself."""
    name = schema.get("$ref", "").removeprefix(REFERENCE)
    return components[name] if name else schema


BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "max_items": "maxItems",
    "pattern": "pattern",
}


def kind_of(field: FieldDefinition) -> Any:
    """Return the type of a parameter with msgspec's constraints and title, which Litestar takes apart from it."""
    given = [one for one in getattr(field.raw, "__metadata__", ()) if isinstance(one, msgspec.Meta)]
    return Annotated[field.annotation, *given] if given else field.annotation


def of_parameter(field: FieldDefinition, schema: Schema) -> Schema:
    """Return the schema of a path or query parameter, given that of its type. An absent parameter is none, not null."""
    if isinstance(schema.get("type"), list):
        schema = schema | {"type": next(kind for kind in schema["type"] if kind != "null")}
    else:
        schema = dict(schema)
    for bound, keyword in BOUNDS.items():
        if (value := getattr(field.kwarg_definition, bound, None)) is not None:
            schema[keyword] = value
    if field.has_default and field.default is not None:
        schema["default"] = field.default
    return schema
