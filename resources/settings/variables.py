"""The environment variables: grouped ones are taken apart, old names are read or ignored with a warning."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from resources.settings.limits import FixedFigures, LimitSettings, RetentionSettings
from resources.settings.search import SearchSettings
from resources.settings.service import HttpSettings
from resources.settings.sources import DriveSettings
from resources.settings.values import json_value

PREFIX = "concordance_"


def _parts(kind: type[BaseModel], prefix: str = "") -> dict[str, str]:
    return {field.removeprefix(prefix): field for field in kind.model_fields}


GROUPS = {
    "limits": _parts(LimitSettings),
    "retention": _parts(RetentionSettings),
    "http": _parts(HttpSettings, "http_"),
    "search": _parts(SearchSettings),
    "drive": _parts(DriveSettings, "drive_"),
}
"""Settings that are comma lists of `part=value` or JSON objects, and the field that each part sets. A later one takes precedence."""
MOVED = frozenset({"cors_origins", "dagster_public_url"})
"""Parts of CONCORDANCE_HTTP that used to be in CONCORDANCE_LIMITS."""
FIXED = frozenset({*FixedFigures.model_fields, "max_index_bytes"})
"""Former settings that are ignored."""
NOT_ALONE = FIXED.union(*(parts.values() for parts in GROUPS.values()))
"""Fields without a variable of their own."""

_COMMA = re.compile(r",(?![^{}\[\]]*[}\]])")
"""The end of an entry of a group. A comma within braces or brackets belongs to a value that is JSON."""

log = logging.getLogger("settings")


def fields(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the variables (lower case, with prefix) by the names of the fields that they set. Raises `ValueError`.

    The parts of a group were settings of their own: their old names are read for one version and give way to the group.
    """
    found = dict(variables)
    given = {name.removeprefix(PREFIX) for name in variables if name.startswith(PREFIX)}
    for group, parts in GROUPS.items():
        for part, field in parts.items():
            if field in given:
                warn(field, f"is now a part of CONCORDANCE_{group.upper()}: write {part}=VALUE there")
        written = list(_entries(group, found.pop(PREFIX + group, None) or ""))
        for part, value in written:
            if [name for name, _ in written].count(part) > 1:
                raise ValueError(f"CONCORDANCE_{group.upper()}: names {part} twice; write it once")
            found[PREFIX + _field(group, part)] = value
    for name in FIXED & given:
        warn(name, "is now fixed and ignored")
        del found[PREFIX + name]
    return found


def _entries(group: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts that a group's variable sets, and the text of their values."""
    if text.lstrip().startswith("{"):
        try:
            given = json_value(text)
        except ValueError as error:
            raise ValueError(f"CONCORDANCE_{group.upper()}: {error}") from error
        for part, value in given.items():
            yield part, value if isinstance(value, str) else json.dumps(value)
        return
    for entry in filter(None, map(str.strip, _COMMA.split(text))):
        part, equals, value = map(str.strip, entry.partition("="))
        if not equals:
            raise ValueError(
                f"CONCORDANCE_{group.upper()}: {entry!r} must have the form PART=VALUE; spaces separate the entries of a list"
            )
        yield part, value


def _field(group: str, part: str) -> str:
    """Return the field that a part sets."""
    if part in GROUPS[group]:
        return GROUPS[group][part]
    if group == "limits" and part in MOVED:
        warn(group, f"no longer has the part {part}: write it in CONCORDANCE_HTTP")
        return part
    raise ValueError(f"CONCORDANCE_{group.upper()}: {part!r} is not one of {', '.join(sorted(GROUPS[group]))}")


def grouped(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups' variables for these values of fields, as JSON; parts without a value are left out."""
    made: dict[str, str] = {}
    for group, parts in GROUPS.items():
        given = {part: values[field] for part, field in parts.items() if values.get(field) is not None}
        if given:
            made[f"CONCORDANCE_{group.upper()}"] = json.dumps(to_jsonable_python(given, exclude_none=True))
    return made


def assignment(field: str, value: str) -> str:
    """Return the line of `.env` that sets a field: `CONCORDANCE_LIMITS=parse_workers=4`."""
    part, group = _place(field)
    return f"CONCORDANCE_{field.upper()}={value}" if group is None else f"CONCORDANCE_{group.upper()}={part}={value}"


def variable_of(field: str) -> str:
    """Return the name of a setting for people: `CONCORDANCE_HOME`, or `parse_workers in CONCORDANCE_LIMITS`."""
    part, group = _place(field)
    return f"CONCORDANCE_{field.upper()}" if group is None else f"{part} in CONCORDANCE_{group.upper()}"


def _place(field: str) -> tuple[str, str | None]:
    """Return a field's part and group; None without a group."""
    return next(
        ((part, group) for group, parts in GROUPS.items() for part, one in parts.items() if one == field),
        (field, None),
    )


@cache
def warn(name: str, what: str) -> None:
    """Log a warning about a variable, once per process."""
    log.warning("CONCORDANCE_%s %s.", name.upper(), what)
