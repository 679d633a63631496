"""Receiving an upload: the request's stream enters, a stored blob with checked type and clean metadata leaves.

The size limit is enforced while the bytes stream in, and the type is told from the first bytes: a refused upload leaves nothing
behind. Its body is read to the end (up to a bound) before the refusal, so that the client gets to read the answer.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from resources.core import filetypes
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.core.permissions import normalize
from resources.sources.sidecars import check_plain
from resources.stores.blobs import BlobWriter
from serving.errors import ProblemError
from serving.multipart import Multipart
from serving.schemas import MAX_TAGS, Name

BUFFER_BYTES = 1024 * 1024
_DRAIN_FACTOR = 4
_MAX_NAME = 200
_MB = 1024 * 1024


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    """What the uploader says of the file; `share` are the principals that may read it beside the uploader."""

    title: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    description: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    tags: Annotated[dict[str, Any], msgspec.Meta(max_length=MAX_TAGS)] = {}
    share: Annotated[list[Name], msgspec.Meta(max_length=200)] = []


class Received(NamedTuple):
    """A complete upload, its bytes in the writer but not yet committed."""

    file_name: str
    mime_type: str
    metadata: Metadata


def one_line(text: str, limit: int) -> str:
    """Return the text in NFC without control characters, white space collapsed, at most `limit` characters."""
    clean = "".join(
        " " if unicodedata.category(character)[0] in "CZ" else character
        for character in unicodedata.normalize("NFC", text)
    )
    return " ".join(clean.split())[:limit].strip()


def clean_name(name: str) -> str:
    """Return a bare file name: no folders, no control characters, the extension kept. Raises `InvalidRequestError`."""
    bare = one_line(name.replace("\\", "/").rpartition("/")[2], 10_000).strip(". ")
    if not bare:
        raise InvalidRequestError("file: give the part a file name, such as notes.md.")
    extension = filetypes.extension(bare)
    return bare if len(bare) <= _MAX_NAME else bare[: _MAX_NAME - len(extension)] + extension


def parse_metadata(fields: Mapping[str, list[str]]) -> Metadata:
    """Return the metadata from part `metadata` (JSON) or from flat fields. Raises `InvalidRequestError` naming the field."""
    try:
        if "metadata" in fields:
            metadata = msgspec.json.decode(fields["metadata"][0], type=Metadata)
        else:
            shares = [one for text in fields.get("share", []) for one in text.replace(",", " ").split()]
            tags = msgspec.json.decode(fields["tags"][0], type=dict[str, Any]) if fields.get("tags") else {}
            flat = {name: fields[name][0] for name in ("title", "description") if name in fields}
            metadata = msgspec.convert({**flat, "tags": tags, "share": shares}, Metadata)
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"metadata: is not valid: {error}.") from None
    try:
        check_plain(metadata.tags)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"metadata.tags: {error}.") from None
    metadata.title = one_line(metadata.title, 500) or None if metadata.title else None
    metadata.description = metadata.description.replace("\x00", "").strip() or None if metadata.description else None
    metadata.share = list(normalize(metadata.share))
    return metadata


def too_large(limit: int) -> ProblemError:
    """Return the refusal of an upload past the limit."""
    return ProblemError(
        "too-large", f"The file is larger than the limit of {limit / _MB:.0f} MB. Split it or compress its pictures."
    )


class Receiver:
    """Takes one multipart body into a blob writer."""

    def __init__(self, content_type: str, writer: BlobWriter, limit: int) -> None:
        self._multipart = Multipart(content_type)
        self._writer = writer
        self._limit = limit
        self._file_name: str | None = None
        self._mime_type: str | None = None
        self._head = bytearray()
        self._buffer = bytearray()
        self._size = 0
        self._fields: dict[str, list[str]] = {}

    async def receive(self, stream: AsyncIterator[bytes], announced: int | None) -> Received:
        """Read the stream and return what came.

        Raises the problems `too-large` and `unsupported-type`, or `InvalidRequestError`.
        """
        drain = self._limit * _DRAIN_FACTOR
        if announced is not None and announced > self._limit + BUFFER_BYTES:
            if announced <= drain:
                await _discard(stream, drain)
            raise too_large(self._limit)
        try:
            async for piece in stream:
                await self._take(piece)
            self._multipart.close()
        except ConcordanceError:
            await _discard(stream, drain)
            raise
        if self._file_name is None:
            raise InvalidRequestError("file: is missing; send the file as a part named `file`.")
        if self._size == 0:
            raise InvalidRequestError("file: is empty.")
        await self._flush()
        return Received(self._file_name, self._sniffed(), parse_metadata(self._fields))

    async def _take(self, piece: bytes) -> None:
        for event in self._multipart.feed(piece) if piece else ():
            if event.kind == "field":
                self._fields.setdefault(event.name, []).append(event.data.decode("utf-8", "replace"))
            elif event.kind == "file":
                if self._file_name is not None:
                    raise InvalidRequestError("file: send one file at a time.")
                self._file_name = clean_name(event.name)
                filetypes.declared(self._file_name)
            else:
                self._add(event.data)
        if len(self._buffer) >= BUFFER_BYTES:
            await self._flush()

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise too_large(self._limit)
        self._buffer += data
        if self._mime_type is None:
            self._head += data[: filetypes.HEAD_BYTES]
            if len(self._head) >= filetypes.HEAD_BYTES:
                self._sniffed()

    def _sniffed(self) -> str:
        if self._mime_type is None:
            self._mime_type = filetypes.mime_type(self._file_name or "", bytes(self._head[: filetypes.HEAD_BYTES]))
        return self._mime_type

    async def _flush(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        await asyncio.to_thread(self._writer.write, data)


async def _discard(stream: AsyncIterator[bytes], most: int) -> None:
    seen = 0
    async for piece in stream:
        seen += len(piece)
        if seen > most:
            return
