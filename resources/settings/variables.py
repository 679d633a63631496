"""The environment variables: nested ones are mapped to their fields, old names are read or ignored with a warning.

`CONCORDANCE_LIMITS__PARSE_WORKERS=4` sets a setting of a group, `CONCORDANCE_LIMITS={"parse_workers": 4}` several at once, as
pydantic-settings reads nested models. Fields are flat, because code that uses a setting should not depend on its group.
"""

import json
import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from resources.settings.limits import FixedFigures, LimitSettings, RetentionSettings
from resources.settings.search import IndexSettings, SearchSettings
from resources.settings.service import HttpSettings
from resources.settings.sources import DriveSettings
from resources.settings.values import json_value

PREFIX = "concordance_"
DELIMITER = "__"


def _parts(group: str, kind: type[BaseModel]) -> dict[str, str]:
    return {field.removeprefix(f"{group}_"): field for field in kind.model_fields}


GROUPS = {
    group: _parts(group, kind)
    for group, kind in {
        "limits": LimitSettings,
        "retention": RetentionSettings,
        "http": HttpSettings,
        "search": SearchSettings,
        "index": IndexSettings,
        "drive": DriveSettings,
    }.items()
}
"""The settings of each group by name, and the field that each sets."""
NESTED = {field: f"{group}{DELIMITER}{part}" for group, parts in GROUPS.items() for part, field in parts.items()}
"""The variable of each grouped field, in lower case without `CONCORDANCE_`."""
MOVED = frozenset({"cors_origins", "dagster_public_url"})
"""Settings that used to be in the group `limits`."""
FIXED = frozenset({*FixedFigures.model_fields, "keyword_engine", "max_index_bytes"})
"""Former settings that are ignored."""
NOT_ALONE = FIXED | NESTED.keys()
"""Fields without a variable of their own name."""

_COMMA = re.compile(r",(?![^{}\[\]]*[}\]])")
"""The end of an entry of a comma list. A comma within braces or brackets belongs to a value that is JSON."""

log = logging.getLogger("settings")


def fields(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the variables (lower case, with prefix) by the names of the fields that they set. Raises `ValueError`.

    A nested variable takes precedence over its group's, and that over the name that the setting had before it was grouped.
    """
    found = dict(variables)
    given = {name.removeprefix(PREFIX): value for name, value in variables.items() if name.startswith(PREFIX)}
    for name in given:
        if name in NESTED:
            warn(name, f"is now CONCORDANCE_{NESTED[name].upper()}")
        elif name in FIXED:
            warn(name, "is now fixed and ignored")
            del found[PREFIX + name]
    for group in GROUPS:
        for part, value in _of_group(group, found.pop(PREFIX + group, None) or "").items():
            found[PREFIX + _field(group, part)] = value
    for name, value in given.items():
        group, nested, part = name.partition(DELIMITER)
        if nested and group in GROUPS:
            del found[PREFIX + name]
            found[PREFIX + _field(group, part)] = value
    return found


def _of_group(group: str, text: str) -> dict[str, str]:
    """Return the settings in a group's variable, a JSON object, and the texts of their values."""
    if not text.strip():
        return {}
    if not text.lstrip().startswith("{"):
        return _from_list(group, text)
    try:
        given = json_value(text)
    except ValueError as error:
        raise ValueError(f"CONCORDANCE_{group.upper()}: {error}") from error
    return {part: value if isinstance(value, str) else json.dumps(value) for part, value in given.items()}


def _from_list(group: str, text: str) -> dict[str, str]:
    """Return the settings in a comma list of `part=value`, which is read for one version more."""
    found: dict[str, str] = {}
    for entry in filter(None, map(str.strip, _COMMA.split(text))):
        part, equals, value = map(str.strip, entry.partition("="))
        if not equals:
            raise ValueError(f"CONCORDANCE_{group.upper()}: {entry!r} is neither JSON nor a setting: {_example(group)}")
        if part in found:
            raise ValueError(f"CONCORDANCE_{group.upper()}: names {part} twice; write it once")
        found[part] = value
    warn(group, f"is a comma list, which the next version does not read: {_example(group, *found)}")
    return found


def _example(group: str, *parts: str) -> str:
    part = parts[0] if parts else next(iter(GROUPS[group]))
    return (
        f"write each setting as a variable of its own, such as CONCORDANCE_{f'{group}{DELIMITER}{part}'.upper()}=VALUE"
    )


def _field(group: str, part: str) -> str:
    """Return the field that a setting of a group sets."""
    part = part.removeprefix(f"{group}_")
    if part in GROUPS[group]:
        return GROUPS[group][part]
    if group == "limits" and part in MOVED:
        warn(f"{group}{DELIMITER}{part}", f"is now CONCORDANCE_{NESTED[part].upper()}")
        return part
    raise ValueError(f"CONCORDANCE_{group.upper()}: {part!r} is not one of {', '.join(sorted(GROUPS[group]))}")


def grouped(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups' variables for these values of fields, as JSON; settings without a value are left out."""
    made: dict[str, str] = {}
    for group, parts in GROUPS.items():
        given = {part: values[field] for part, field in parts.items() if values.get(field) is not None}
        if given:
            made[f"CONCORDANCE_{group.upper()}"] = json.dumps(to_jsonable_python(given, exclude_none=True))
    return made


def assignment(field: str, value: str) -> str:
    """Return the line of `.env` that sets a field: `CONCORDANCE_LIMITS__PARSE_WORKERS=4`."""
    return f"{variable_of(field)}={value}"


def variable_of(field: str) -> str:
    """Return the variable that sets a field: `CONCORDANCE_HOME`, or `CONCORDANCE_LIMITS__PARSE_WORKERS`."""
    return f"{PREFIX}{NESTED.get(field, field)}".upper()


@cache
def warn(name: str, what: str) -> None:
    """Log a warning about a variable, once per process."""
    log.warning("CONCORDANCE_%s %s.", name.upper(), what)
