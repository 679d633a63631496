"""Python types of schemas: pydantic models for responses, typed dictionaries for requests."""

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import NamedTuple

from clients.python.generator.document import REFERENCE, Operation, Schema, reachable
from resources.core.json import is_list

WIDTH = 120
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Annotations(NamedTuple):
    """Writes the annotations of schemas, those of requests or those of responses.

    Requests accept every mapping, and exactly the documented values of an enum. In responses, a newer service may send other values.
    """

    components: Mapping[str, Schema]
    request: bool
    module: str = ""
    """The prefix of objects' names."""

    def of(self, schema: Schema) -> str:
        """Return the annotation of a schema."""
        if "$ref" in schema:
            return self._component(schema["$ref"].removeprefix(REFERENCE))
        if "anyOf" in schema:
            return " | ".join(self.of(one) for one in schema["anyOf"])
        if "const" in schema:
            return f'Literal["{schema["const"]}"]'
        kinds = schema.get("type", "object")
        if is_list(kinds):
            return " | ".join(self.of(schema | {"type": kind}) for kind in kinds)
        match kinds:
            case "array":
                return f"list[{self.of(schema['items'])}]"
            case "object":
                return self._mapping(schema)
            case "string" if schema.get("format") == "date-time" and not self.request:
                return "datetime"
            case _:
                return PLAIN[kinds]

    def _component(self, name: str) -> str:
        target = self.components[name]
        if "enum" in target:
            return f"literals.{name}" if self.request else f"literals.{name} | str"
        return f"{self.module}{name}" if "properties" in target else self.of(target)

    def _mapping(self, schema: Schema) -> str:
        members = schema.get("additionalProperties", True)
        value = "Any" if members is True else self.of(members)
        return f"{'Mapping' if self.request else 'dict'}[str, {value}]"


def literals(names: list[str], components: Mapping[str, Schema]) -> Iterator[str]:
    """Yield the enums among these components, as aliases of literals."""
    for name in names:
        if "enum" in components[name]:
            yield f"{name}: TypeAlias = Literal{components[name]['enum']!r}"
            yield docstring(components[name]["description"], "")


def models(names: list[str], components: dict[str, Schema]) -> Iterator[str]:
    """Yield a pydantic model for each object among these components."""
    annotations = Annotations(components, request=False)
    for name in names:
        schema = components[name]
        if "properties" not in schema:
            continue
        yield f"class {name}(Model):"
        yield docstring(schema["description"])
        for field, one in schema["properties"].items():
            kind, absent = annotations.of(one), ""
            if field not in schema.get("required", []):
                kind, absent = (kind if kind.endswith("| None") else f"{kind} | None"), " = None"
            yield f"    {field}: {kind}{absent}"
            yield docstring(one["description"])


def dictionaries(names: list[str], components: dict[str, Schema]) -> Iterator[str]:
    """Yield a typed dictionary for each object among these components."""
    for name in names:
        schema = components[name]
        if "properties" in schema:
            required: list[str] = schema.get("required", [])
            fields = {field: (one, field in required) for field, one in schema["properties"].items()}
            yield from _dictionary(name, schema["description"], fields, components)


def options(operation: Operation) -> Iterator[str]:
    """Yield the typed dictionary of an operation's optional fields, if it has any."""
    fields = {name: given for name, given in operation.fields.items() if not given[1]}
    if fields:
        about = f"Options of `{operation.name}`."
        yield from _dictionary(operation.options_name, about, fields, operation.components)


def _dictionary(
    name: str, about: str, fields: Mapping[str, tuple[Schema, bool]], components: Mapping[str, Schema]
) -> Iterator[str]:
    annotations = Annotations(components, request=True)
    yield f"class {name}(TypedDict, total=False):"
    yield docstring(about)
    for field, (schema, required) in fields.items():
        kind = annotations.of(schema)
        yield f"    {field}: {f'Required[{kind}]' if required else kind}"
        yield docstring(schema["description"])


def docstring(text: str, indent: str = "    ") -> str:
    """Return a docstring of one or more paragraphs, wrapped."""
    escaped = text.replace("\\", "\\\\")
    wrapped = "\n\n".join(
        fill(one, WIDTH - 4, initial_indent=indent, subsequent_indent=indent) for one in escaped.split("\n\n")
    ).strip()
    end = "\n" + indent if "\n" in wrapped else ""
    return f'{indent}"""{wrapped}{end}"""'


def events(found: list[Operation]) -> Iterator[str]:
    """Yield the union of the events of a stream, and their models by name."""
    kinds = next(one.events for one in found if one.events)
    yield f"AnswerEvent: TypeAlias = {' | '.join(kind for name, kind in kinds.items() if name != 'error')}"
    yield docstring("An event of a streamed answer; the last one is the answer itself.", "")
    yield f"EVENTS: dict[str, type[Model]] = {{{', '.join(f'{name!r}: {kind}' for name, kind in kinds.items())}}}"
    yield docstring("The data of each event by its name.", "")


def components_of(found: list[Operation], components: dict[str, Schema]) -> tuple[list[str], list[str]]:
    """Return the names of the components in the operations' requests, and of those in their responses and problems."""
    asked = (schema for one in found for schema in (*(field for field, _ in one.fields.values()), one.form))
    names = ("Problem", *(name for one in found for name in (one.returns, *one.events.values()) if name))
    answered = ({"$ref": f"{REFERENCE}{name}"} for name in names)
    return reachable(asked, components), reachable(answered, components)
