"""Methods of operations, for a synchronous and an asynchronous client."""

from collections.abc import Iterator
from typing import NamedTuple

from clients.python.generator.document import Operation
from clients.python.generator.types import Annotations, docstring


class Flavor(NamedTuple):
    """What differs between the two classes."""

    name: str
    about: str
    define: str
    wait: str
    iterator: str
    each: str


SYNC = Flavor("Operations", "The operations of the service.", "def", "", "Iterator", "yield from page.{entries}")
ASYNC = Flavor(
    "AsyncOperations",
    "The operations of the service, as coroutines.",
    "async def",
    "await ",
    "AsyncIterator",
    "for entry in page.{entries}:\n                yield entry",
)


def operations_class(found: list[Operation], flavor: Flavor) -> Iterator[str]:
    """Yield a class with a method for each operation, and one more for each that returns pages."""
    yield f"class {flavor.name}(ABC):"
    yield docstring(flavor.about)
    yield "    @abstractmethod"
    yield f"    {flavor.define} send(self, call: Call[T]) -> T:"
    yield docstring("Send a call and return its result.", " " * 8)
    for one in found:
        if not one.form:  # a form is sent by a method written by hand
            yield from _method(one, flavor)
            if one.entries:
                yield from _pages(one, flavor)


def _method(one: Operation, flavor: Flavor) -> Iterator[str]:
    returned = f"models.{one.returns}" if one.returns else "bytes"
    yield f"    {flavor.define} {one.name}({_arguments(one)}) -> {returned}:"
    yield docstring(f"{one.described['summary'].rstrip('?')}.\n\n{one.described['description']}", " " * 8)
    yield f"        return {flavor.wait}self.send({_call(one, returned)})"


def _pages(one: Operation, flavor: Flavor) -> Iterator[str]:
    assert one.entries is not None  # noqa: S101
    entries, schema = one.entries
    entry = Annotations(one.components, request=False, module="models.").of(schema)
    given = "".join(f"{name}, " for name in _required(one))
    yield f"    {flavor.define} iter_{one.name.removeprefix('list_')}({_arguments(one)}) -> {flavor.iterator}[{entry}]:"
    yield docstring(f"Yield the {entries} of all pages of `{one.name}`, which are fetched when needed.", " " * 8)
    yield "        while True:"
    yield f"            page = {flavor.wait}self.{one.name}({given}**options)"
    yield f"            {flavor.each.format(entries=entries)}"
    yield "            if page.next_cursor is None:"
    yield "                return"
    yield '            options["cursor"] = page.next_cursor'


def _required(one: Operation) -> list[str]:
    return [*one.path_parameters, *(name for name, (_, required) in one.fields.items() if required)]


def _arguments(one: Operation) -> str:
    annotations = Annotations(one.components, request=True, module="params.")
    kinds = dict.fromkeys(one.path_parameters, "str")
    kinds |= {name: annotations.of(schema) for name, (schema, required) in one.fields.items() if required}
    arguments = ["self", *(f"{name}: {kind}" for name, kind in kinds.items())]
    if len(one.fields) > len(kinds) - len(one.path_parameters):
        arguments.append(f"**options: Unpack[params.{one.options_name}]")
    return ", ".join(arguments)


def _call(one: Operation, returned: str) -> str:
    path = f'"{one.path}"'
    for name in one.path_parameters:
        path = f"f{path.removeprefix('f')}".replace(f"{{{name}}}", f"{{quoted({name})}}")
    parts = [f'"{one.method}"', path, returned]
    given = [f'"{name}": {name}' for name, (_, required) in one.fields.items() if required]
    if one.fields:
        everything = [*given, "**options"] if len(given) < len(one.fields) else given
        parts.append(f"{'body' if one.body else 'query'}={{{', '.join(everything)}}}")
    parts.append(f"repeatable={one.repeatable}")
    return f"Call({', '.join(parts)})"
