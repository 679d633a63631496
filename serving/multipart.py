"""Multipart bodies as they stream in: pieces of a body enter, fields and pieces of the one file leave; nothing is held whole.

Fields are bounded; the file's bytes are handed on at once, so the caller counts them and can stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from typing import Literal, NamedTuple

from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser

from resources.errors import InvalidRequestError

MAX_FIELD_BYTES = 256 * 1024
"""All fields beside the file together."""
MAX_PARTS = 50


class Event(NamedTuple):
    """What the body just said: a file began (`name` is its file name), gave bytes, or a field is complete."""

    kind: Literal["file", "data", "field"]
    name: str
    data: bytes = b""


def boundary(content_type: str) -> str:
    """Return the boundary of a multipart/form-data header. Raises `InvalidRequestError`."""
    header = Message()
    header["content-type"] = content_type
    found = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data" or not isinstance(found, str) or not found:
        raise InvalidRequestError(
            "The body must be multipart/form-data with a part `file` and, if you like, `metadata`."
        )
    return found


class Multipart:
    """A push parser: `feed` pieces of the body, get events. Raises `InvalidRequestError` for a malformed body."""

    def __init__(self, content_type: str) -> None:
        self._events: list[Event] = []
        self._field_bytes = self._parts = 0
        self._header_name = self._header_value = b""
        self._disposition = Message()
        self._name = ""
        self._in_file = False
        self._value = bytearray()
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary(content_type),
                {
                    "on_part_begin": self._part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise InvalidRequestError(f"The multipart boundary is not valid: {error}.") from error

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events of the next piece of the body."""
        try:
            self._parser.write(piece)
        except MultipartParseError as error:
            raise InvalidRequestError(f"The multipart body is malformed: {error}.") from error
        events, self._events = self._events, []
        yield from events

    def close(self) -> None:
        """Raise `InvalidRequestError` if the body ended too early."""
        if not self._ended:
            raise InvalidRequestError("The multipart body ends before its last boundary; send it again.")

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidRequestError(f"The form has more than {MAX_PARTS} parts.")
        self._disposition = Message()
        self._value = bytearray()
        self._in_file = False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_end(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition["content-disposition"] = self._header_value.decode("utf-8", "replace")
        self._header_name = self._header_value = b""

    def _headers_finished(self) -> None:
        name = self._disposition.get_param("name", header="content-disposition")
        self._name = name if isinstance(name, str) else ""
        file_name = self._disposition.get_filename()
        self._in_file = file_name is not None
        if file_name is not None:
            self._events.append(Event("file", file_name, self._name.encode()))

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._events.append(Event("data", self._name, data[start:end]))
            return
        self._field_bytes += end - start
        if self._field_bytes > MAX_FIELD_BYTES:
            raise InvalidRequestError(f"The form's fields hold more than {MAX_FIELD_BYTES // 1024} kB beside the file.")
        self._value += data[start:end]

    def _part_end(self) -> None:
        if not self._in_file:
            self._events.append(Event("field", self._name, bytes(self._value)))

    def _end(self) -> None:
        self._ended = True
