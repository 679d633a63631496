"""Values of settings: durations, and several entries as words, JSON, or `@path` of a file with JSON."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from resources.core.durations import PATTERN, kept_for


def words(value: Any) -> Any:
    """Return the entries of a text: a JSON list, or words separated by spaces or commas. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json_value(value)
    return [word for word in re.split(r"[\s,]+", value) if word]


def json_or_file(value: Any) -> Any:
    """Return the list in a variable that holds JSON, or `@path` of a file with it. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    text = text_or_file(value)
    return json_value(text) if text else []


def text_or_file(text: str) -> str:
    """Return the text of a variable, or of the file that `@path` names. Raises `ValueError`."""
    found = text.strip()
    if not found.startswith("@"):
        return found
    path = Path(found[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def json_value(text: str) -> Any:
    """Return the value. Raises `ValueError`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error}") from error


def _in_range(text: str) -> str:
    kept_for(text)
    return text


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)]
Duration = Annotated[str, Field(pattern=r"^\d+[smhd]$"), AfterValidator(_in_range)]
Period = Annotated[str, Field(pattern=PATTERN), AfterValidator(_in_range)]
"""A duration, or `forever`."""
