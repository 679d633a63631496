"""A streaming parser of multipart bodies: yields fields, and the file piece by piece.

Fields are limited in size; the file's bytes are passed on as they arrive, so the caller can count them and stop.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple
from urllib.parse import unquote

from multipart import (
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from resources.core.errors import InvalidRequestError

MAX_FIELD_BYTES = 256 * 1024
"""Total of all fields except the file."""
MAX_PARTS = 50
MAX_CONTENT_TYPE = 1024
MAX_BOUNDARY = 70
"""Source: RFC 2046, 5.1.1."""
MAX_PART_HEADER = 2048
"""Fits a file name of 255 bytes, each escaped with three."""
MAX_PART_HEADERS = 4
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*("(?:\\.|[^\\"])*"|[^\s;"]*)')
_CHARSETS = frozenset({"utf-8", "iso-8859-1"})
"""Source: RFC 5987, 3.2."""


class MultipartEvent(NamedTuple):
    """The start of a file (`name` is its file name, `data` the name of its part), a piece of its data, or a complete field."""

    kind: Literal["file", "data", "field"]
    name: str
    data: bytes = b""


def boundary(content_type: str) -> str:
    """Return the boundary of a multipart/form-data header. Raises `InvalidRequestError`."""
    if len(content_type) > MAX_CONTENT_TYPE:
        raise InvalidRequestError(f"The header Content-Type has more than {MAX_CONTENT_TYPE} characters.")
    kind, options = parse_options_header(content_type)
    value = options.get("boundary", "")
    if kind != "multipart/form-data" or not value:
        raise InvalidRequestError(
            "The body must be multipart/form-data with a part `file` and, optionally, `metadata`."
        )
    if len(value) > MAX_BOUNDARY or not value.isascii() or not value.isprintable():
        raise InvalidRequestError(f"The multipart boundary must be at most {MAX_BOUNDARY} printable ASCII characters.")
    return value


class Multipart:
    """A push parser. Raises `InvalidRequestError` for a malformed body."""

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

    def feed(self, piece: bytes) -> Iterator[MultipartEvent]:
        """Yield the events of the next piece of the body. Data after the last boundary is ignored."""
        if self._parser.closed:
            return
        try:
            for event in self._parser.parse(piece):
                yield from self._events(event)
        except ParserLimitReached as error:
            raise InvalidRequestError(
                f"The form is too large: {error}. It may have {MAX_PARTS} parts with {MAX_PART_HEADERS} headers each,"
                f" of {MAX_PART_HEADER} bytes."
            ) from error
        except MultipartError as error:
            raise InvalidRequestError(f"The multipart body is malformed: {error.args[0]}.") from error

    def close(self) -> None:
        """Raise `InvalidRequestError` if the body ended too early."""
        try:
            self._parser.close()
        except MultipartError as error:
            raise InvalidRequestError("The multipart body ends before its last boundary; send it again.") from error

    def _events(self, event: MultipartSegment | bytes | None) -> Iterator[MultipartEvent]:
        if isinstance(event, MultipartSegment):
            file_name = _file_name(event)
            self._name, self._in_file, self._value = event.name or "", file_name is not None, bytearray()
            if file_name is not None:
                yield MultipartEvent("file", file_name, self._name.encode())
        elif event is None:
            if not self._in_file:
                yield MultipartEvent("field", self._name, bytes(self._value))
        elif self._in_file:
            yield MultipartEvent("data", self._name, event)
        else:
            self._field_bytes += len(event)
            if self._field_bytes > MAX_FIELD_BYTES:
                raise InvalidRequestError(
                    f"The form's fields have more than {MAX_FIELD_BYTES // 1024} kB in addition to the file."
                )
            self._value += event


def _file_name(part: MultipartSegment) -> str | None:
    """Return the name of a part's file, `filename*` before `filename`, which .NET encodes as for mail; None for a field."""
    for name, value in _PARAMETER.findall(part.header("Content-Disposition", "")):
        charset, *encoded = value.split("'", 2)
        if name.lower() == "filename*" and len(encoded) == 2 and charset.lower() in _CHARSETS:
            with suppress(UnicodeDecodeError):
                return unquote(encoded[1], charset, "strict")
    return part.filename
