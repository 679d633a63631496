"""All faults of a JSON body at once. msgspec stops at the first, so each field is checked by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

import msgspec
from msgspec import Struct

from resources.core.json import is_list, is_object
from serving.http.invalid import FieldError, body_fault

MOST_FAULTS = 20


def every_fault(kind: Any, body: Any) -> list[FieldError]:
    """Return what is wrong with a decoded body of this type, up to `MOST_FAULTS` faults; nothing if it is valid."""
    return [body_fault(kind, path, message) for path, message in islice(_faults(kind, body, ""), MOST_FAULTS)]


def _faults(kind: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the place and msgspec's message of each fault of a value."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        within = list(islice(_within(kind, value, path), MOST_FAULTS))
        if within:
            yield from within
            return
        message, _, place = str(error).partition(" - at `$")
        yield (path + place.rstrip("`")).lstrip("."), message


def _within(kind: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of the fields of an object, or of the items of a list; nothing for other values."""
    choices = _choices(kind)
    structs = [one for one in choices if isinstance(one, type) and issubclass(one, Struct)]
    if is_object(value) and len(structs) == 1:
        yield from _of_object(structs[0], value, path)
    elif is_list(value):
        items = [
            args[0] for one in choices if (args := get_args(one)) and getattr(one, "__origin__", None) in {list, tuple}
        ]
        for index, item in enumerate(value if len(items) == 1 else ()):
            yield from _faults(items[0], item, f"{path}[{index}]")


def _of_object(kind: type[Struct], value: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        if name in value:
            yield from _faults(field.type, value[name], f"{path}.{name}" if path else name)
        elif field.required:
            yield path, f"Object missing required field `{name}`"
    if kind.__struct_config__.forbid_unknown_fields:
        for name in [one for one in value if one not in fields]:
            yield path, f"Object contains unknown field `{name}`"


def _choices(kind: Any) -> list[Any]:
    """Return the types that a value may have, without annotations."""
    if hasattr(kind, "__metadata__"):  # Annotated
        return _choices(kind.__origin__)
    args = get_args(kind)
    if args and getattr(kind, "__origin__", None) is None:  # a union written with |
        return [choice for one in args for choice in _choices(one)]
    return [kind]
