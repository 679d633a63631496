"""Texts from outside that neither Postgres nor UTF-8 can hold: with a NUL, or with half of a surrogate pair.

JSON can express both (`"\\u0000"`, `"\\ud83d"`), so names, titles and messages of other services may contain them.
"""

import json
import re
from typing import Any, cast

import msgspec

from resources.core.json import is_list, is_object

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Return True if the text has neither a NUL nor half of a surrogate pair."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Return the text with U+FFFD in place of each NUL and each half of a surrogate pair."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: Any) -> Any:
    """Return a value of JSON in which every text is storable, names of fields included."""
    if isinstance(value, str):
        return storable(value)
    if is_object(value):
        return {storable_value(name): storable_value(one) for name, one in value.items()}
    if is_list(value) or isinstance(value, tuple):
        return [storable_value(one) for one in cast("list[Any]", value)]
    return value


def decoded(content: bytes) -> Any:
    """Return the value of a JSON document with storable texts. Raises `ValueError` if it is none."""
    try:
        value: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:  # also for half of a surrogate pair
        return storable_value(json.loads(content))
    return storable_value(value) if b"\\u0000" in content else value
