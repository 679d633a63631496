"""Messages on valid values of a setting, in place of the validator's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_KINDS = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a JSON list",
    "dict_type": "must be a JSON object",
    "string_type": "must be a text",
}
_PATTERNS = (
    ("forever", "must be a duration such as 12h or 90d, or forever"),
    ("[smhd]", "must be a duration such as 30m, 24h or 7d"),
    ("0-9]{1,5}", "must be a host and a port such as code:4000"),
    ("a-z0-9_-", "must begin with a lower-case letter or digit and consist of these, hyphens and underscores"),
    (
        "A-Za-z0-9",
        "must begin with a letter or digit and consist of at most 64 letters, digits, dots, underscores and hyphens",
    ),
)


def message(fault: ErrorDetails, field: FieldInfo | None) -> str:
    """Return what is wrong with a value and what it should be. The value is quoted unless it is a secret."""
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return "is missing: add it"
    if kind == "extra_forbidden":
        return "is not a field: check its spelling"
    return f"{_wanted(fault, context, field)}{_given(fault['input'])}"


def _wanted(fault: ErrorDetails, context: Mapping[str, Any], field: FieldInfo | None) -> str:
    kind = fault["type"]
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if kind == "string_pattern_mismatch":
        return next(text for part, text in _PATTERNS if part in context["pattern"])
    if kind in _KINDS:
        return f"{_KINDS[kind]}{_range(field)}"
    if kind in {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}:
        return f"must be a number{_range(field)}"
    return fault["msg"][:1].lower() + fault["msg"][1:]


def _range(field: FieldInfo | None) -> str:
    limits: Mapping[type, Any] = {type(one): one for one in field.metadata} if field is not None else {}
    if Ge in limits and Le in limits:
        return f" from {limits[Ge].ge} to {limits[Le].le}"
    if Ge in limits:
        return f" of at least {limits[Ge].ge}"
    return f" greater than {limits[Gt].gt}" if Gt in limits else ""


def _given(value: object) -> str:
    return f", not {value!r}" if isinstance(value, str | int | float) and not isinstance(value, SecretStr) else ""
