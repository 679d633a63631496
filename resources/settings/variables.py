"""The environment variables: grouped ones are taken apart, old names are read or ignored with a warning."""

import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from resources.settings.limits import FixedFigures, LimitSettings, RetentionSettings

PREFIX = "concordance_"
GROUPS = {"limits": frozenset(LimitSettings.model_fields), "retention": frozenset(RetentionSettings.model_fields)}
"""Settings that are comma lists of `part=value`, and their parts."""
FIXED = frozenset({*FixedFigures.model_fields, "max_index_bytes"})
"""Former settings that are ignored."""
NOT_ALONE = FIXED.union(*GROUPS.values())
"""Fields without a variable of their own."""

_ENTRY = re.compile(r"(?:\{[^}]*\}|[^,{])+")
"""An entry of a group. A comma within braces belongs to a value that is a JSON object."""

log = logging.getLogger("settings")


def fields(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the variables (lower case, with prefix) by the names of the fields that they set. Raises `ValueError`.

    The parts of a group were settings of their own: their old names are read for one version and give way to the group.
    """
    found = dict(variables)
    for group, parts in GROUPS.items():
        for part in parts & {name.removeprefix(PREFIX) for name in variables}:
            warn(part, f"is now a part of CONCORDANCE_{group.upper()}: write {part}=VALUE there")
        text = found.pop(PREFIX + group, None) or ""
        for entry in filter(None, map(str.strip, _ENTRY.findall(text))):
            part, _, value = entry.partition("=")
            if part not in parts:
                raise ValueError(
                    f"CONCORDANCE_{group.upper()}: {entry!r} is not one of {', '.join(sorted(parts))} with =VALUE"
                )
            found[PREFIX + part] = value
    for name in FIXED & {name.removeprefix(PREFIX) for name in variables}:
        warn(name, "is now fixed and ignored")
        del found[PREFIX + name]
    return found


def grouped(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups' variables for these values of their parts; parts without a value are left out."""
    made: dict[str, str] = {}
    for group, parts in GROUPS.items():
        given = [
            f"{name}={_text(value)}" for name, value in sorted(values.items()) if name in parts and value is not None
        ]
        if given:
            made[f"CONCORDANCE_{group.upper()}"] = ",".join(given)
    return made


def _text(value: Any) -> str:
    """Return the value of a part; the entries of a list are separated by spaces, since commas separate parts."""
    if isinstance(value, BaseModel):
        return value.model_dump_json(exclude_none=True)
    return " ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)


def variable_of(field: str) -> str:
    group = next((name for name, parts in GROUPS.items() if field in parts), None)
    return f"CONCORDANCE_{field.upper()}" if group is None else f"{field} in CONCORDANCE_{group.upper()}"


@cache
def warn(name: str, what: str) -> None:
    """Log a warning about a variable, once per process."""
    log.warning("CONCORDANCE_%s %s.", name.upper(), what)
