"""Multipart bodies as they stream in: pieces of a body enter, fields and pieces of the one file leave; nothing is held whole.

Fields are bounded; the file's bytes are handed on at once, so the caller counts them and can stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from multipart import (
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from resources.core.errors import InvalidRequestError

MAX_FIELD_BYTES = 256 * 1024
"""All fields beside the file together."""
MAX_PARTS = 50
MAX_CONTENT_TYPE = 1024
MAX_BOUNDARY = 70
"""Source: RFC 2046, 5.1.1."""
MAX_PART_HEADER = 2048
"""One header of a part: a file name of 255 bytes, each escaped with three."""
MAX_PART_HEADERS = 4


class Event(NamedTuple):
    """What the body just said: a file began (`name` is its file name), gave bytes, or a field is complete."""

    kind: Literal["file", "data", "field"]
    name: str
    data: bytes = b""


def boundary(content_type: str) -> str:
    """Return the boundary of a multipart/form-data header. Raises `InvalidRequestError`."""
    if len(content_type) > MAX_CONTENT_TYPE:
        raise InvalidRequestError(f"The header Content-Type has more than {MAX_CONTENT_TYPE} characters.")
    kind, options = parse_options_header(content_type)
    found = options.get("boundary", "")
    if kind != "multipart/form-data" or not found:
        raise InvalidRequestError(
            "The body must be multipart/form-data with a part `file` and, if you like, `metadata`."
        )
    if len(found) > MAX_BOUNDARY or not found.isascii() or not found.isprintable():
        raise InvalidRequestError(f"The multipart boundary must be at most {MAX_BOUNDARY} printable ASCII characters.")
    return found


class Multipart:
    """A push parser: `feed` pieces of the body, get events. Raises `InvalidRequestError` for a malformed body."""

    def __init__(self, content_type: str) -> None:
        self._parser = PushMultipartParser(
            boundary(content_type),
            max_header_size=MAX_PART_HEADER,
            max_header_count=MAX_PART_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        self._field_bytes = 0
        self._name = ""
        self._in_file = False
        self._value = bytearray()

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events of the next piece of the body. What follows the last boundary is ignored."""
        if self._parser.closed:
            return
        try:
            for event in self._parser.parse(piece):
                yield from self._take(event)
        except ParserLimitReached as error:
            raise InvalidRequestError(
                f"The form is too large: {error}. It may have {MAX_PARTS} parts with {MAX_PART_HEADERS} headers each,"
                f" of {MAX_PART_HEADER} bytes."
            ) from error
        except MultipartError as error:
            raise InvalidRequestError(f"The multipart body is malformed: {error}.") from error

    def close(self) -> None:
        """Raise `InvalidRequestError` if the body ended too early."""
        try:
            self._parser.close()
        except MultipartError as error:
            raise InvalidRequestError("The multipart body ends before its last boundary; send it again.") from error

    def _take(self, event: MultipartSegment | bytes | None) -> Iterator[Event]:
        if isinstance(event, MultipartSegment):
            self._name, self._in_file, self._value = event.name or "", event.filename is not None, bytearray()
            if event.filename is not None:
                yield Event("file", event.filename, self._name.encode())
        elif event is None:
            if not self._in_file:
                yield Event("field", self._name, bytes(self._value))
        elif self._in_file:
            yield Event("data", self._name, event)
        else:
            self._field_bytes += len(event)
            if self._field_bytes > MAX_FIELD_BYTES:
                raise InvalidRequestError(
                    f"The form's fields hold more than {MAX_FIELD_BYTES // 1024} kB beside the file."
                )
            self._value += event
