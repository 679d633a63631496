"""Cursors: where the next page begins, opaque to callers.

A cursor holds only what its caller has seen and grants nothing: every page checks permissions again. So cursors are not signed.
"""

import base64
import binascii
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from resources.core.errors import InvalidRequestError
from resources.core.moments import bounded

MAX_CURSOR = 8000
"""Characters of a cursor: the 200 documents that pages of a search may have shown take 4,300."""

_T = TypeVar("_T")
_encoder = msgspec.msgpack.Encoder()


def encode(place: Any) -> str:
    """Return a place as a cursor."""
    return base64.urlsafe_b64encode(_encoder.encode(place)).decode().rstrip("=")


def decode(cursor: str, kind: type[_T]) -> _T:
    """Return the place of a cursor. Raises `InvalidRequestError`."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = msgspec.msgpack.decode(data, type=kind)
    except (binascii.Error, ValueError, OverflowError, msgspec.DecodeError):
        raise _invalid() from None
    if not all(bounded(part) for part in _parts(place) if isinstance(part, datetime)):
        raise _invalid()
    return place


def _invalid() -> InvalidRequestError:
    return InvalidRequestError("cursor: is not one of this list. Send `next_cursor` of the page before, unchanged.")


def _parts(place: Any) -> tuple[Any, ...]:
    if isinstance(place, msgspec.Struct):
        return msgspec.structs.astuple(place)
    return cast("tuple[Any, ...]", place) if isinstance(place, tuple) else (place,)
