"""Receive an upload: stream the file into a blob writer while checking its size and type, and parse its metadata.

The type is detected from the first bytes. A refused upload leaves nothing behind; its body is read to the end, up to a limit, so that
the client can read the response.
"""

import unicodedata
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from resources.core import filetypes
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.core.permissions import normalize
from resources.sources.sidecars import check_plain
from resources.stores.blobs import BlobWriter
from serving.documents.multipart import Multipart
from serving.http.errors import ProblemError
from serving.http.fields import Name, NewTags
from serving.http.invalid import fault_of
from serving.http.threads import Threads

BUFFER_BYTES = 1024 * 1024
_DRAIN_FACTOR = 4
_MAX_NAME = 200
_MB = 1024 * 1024
FILE = "file"
"""Name of the part that contains the file."""
_NO_NAME = "file: give the part a file name, such as notes.md."
FIELDS = ("metadata", "title", "description", "tags", "share")


class UploadMetadata(msgspec.Struct, forbid_unknown_fields=True):
    """The uploader's metadata; `share` lists the principals that may read the file in addition to the uploader."""

    title: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    """Title of the document. Null: that of the file."""
    description: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    """Description of the document. Null: none."""
    tags: NewTags = {}
    """Tags of the document. `source`, `tenant` and `dataset` are reserved for administrators."""
    share: Annotated[list[Name], msgspec.Meta(max_length=200)] = []
    """Principals who may read the file besides you, such as `domain:acme.com`."""


Metadata = TypeVar("Metadata", bound=UploadMetadata)


class Received(NamedTuple, Generic[Metadata]):
    """A received upload, whose bytes are in the writer but not yet committed."""

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
    """Return a file name without folders and control characters, shortened before the extension. Raises `InvalidRequestError`."""
    bare = one_line(name.replace("\\", "/").rpartition("/")[2], 10_000).strip(". ")
    if not bare:
        raise InvalidRequestError(_NO_NAME)
    extension = filetypes.extension(bare)
    return bare if len(bare) <= _MAX_NAME else bare[: _MAX_NAME - len(extension)] + extension


def parse_metadata(fields: Mapping[str, list[str]], kind: type[Metadata]) -> Metadata:
    """Parse metadata from the part `metadata` (JSON) or from separate fields. Raises `InvalidRequestError` naming the field."""
    together = "metadata" in fields
    prefix = "metadata." if together else ""
    if together and (other := next((name for name in fields if name != "metadata"), None)) is not None:
        raise InvalidRequestError(f"{other}: is ignored beside the part metadata. Write it there.")
    try:
        if together:
            metadata = msgspec.json.decode(fields["metadata"][0], type=kind)
        else:
            shares = [name for text in fields.get("share", []) for name in text.replace(",", " ").split()]
            tags: Any = msgspec.json.decode(fields["tags"][0]) if fields.get("tags") else {}
            flat = {name: fields[name][0] for name in ("title", "description") if name in fields}
            metadata = msgspec.convert({**flat, "tags": tags, "share": shares}, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"{prefix}{fault_of(kind, error)}") from None
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"{'metadata' if together else 'tags'}: is not valid JSON: {error}.") from None
    return cleaned(metadata, prefix)


def cleaned(metadata: Metadata, prefix: str = "") -> Metadata:
    """Clean metadata in place, and return it. Raises `InvalidRequestError` naming the field, after the prefix."""
    checked_tags(metadata.tags, f"{prefix}tags")
    metadata.title = one_line(metadata.title, 500) or None if metadata.title else None
    metadata.description = clean_description(metadata.description)
    metadata.share = list(normalize(metadata.share))
    return metadata


def clean_description(text: str | None) -> str | None:
    """Return a description without NUL characters and surrounding white space; None if nothing is left."""
    return text.replace("\x00", "").strip() or None if text else None


def checked_tags(tags: dict[str, Any], field: str) -> dict[str, Any]:
    """Return tags that can be stored. Raises `InvalidRequestError` naming the field."""
    try:
        check_plain(tags)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{field}: {error}.") from None
    return tags


def _unknown_part(name: str) -> InvalidRequestError:
    known = ", ".join(f"`{one}`" for one in (FILE, *FIELDS))
    if name in FIELDS:
        return InvalidRequestError(f"{name}: must not have a file name; only the part `{FILE}` is a file.")
    return InvalidRequestError(f"{name[:100]}: is not a known part; allowed: {known}.")


def _missing(other: str | None) -> InvalidRequestError:
    """Return the error of a form without the part `file`; `other` is a part that it has instead, or `file` without a file name."""
    if other == FILE:
        return InvalidRequestError(_NO_NAME)
    instead = f", with its file name. The form has the part `{other[:100]}` instead" if other is not None else ""
    return InvalidRequestError(f"{FILE}: is missing; send the file as a part named `{FILE}`{instead}.")


def too_large(limit: int) -> ProblemError:
    return ProblemError(
        "too-large", f"The file is larger than the limit of {limit / _MB:.0f} MB. Split it or compress its images."
    )


class ContentCheck:
    """Checks the bytes of a file on their way into the blob store: how many they are, and by the first ones of which type."""

    def __init__(self, file_name: str, limit: int) -> None:
        """Raises `SkipDocumentError` for the name of an unsupported type."""
        filetypes.declared(file_name)
        self.file_name = file_name
        self.size = 0
        self._limit = limit
        self._head = bytearray()

    def add(self, piece: bytes) -> None:
        """Raises the problem `too-large`, and `SkipDocumentError` as soon as the type is known to be another one."""
        self.size += len(piece)
        if self.size > self._limit:
            raise too_large(self._limit)
        if missing := filetypes.HEAD_BYTES - len(self._head):
            self._head += piece[:missing]
            if len(self._head) == filetypes.HEAD_BYTES:
                self.mime_type()

    def mime_type(self) -> str:
        """Return the type. Raises `SkipDocumentError` if it is not supported, or not that of the name."""
        return filetypes.mime_type(self.file_name, bytes(self._head))


class UploadReceiver(Generic[Metadata]):
    """Reads one multipart body into a blob writer."""

    def __init__(
        self, content_type: str, writer: BlobWriter, threads: Threads, limit: int, kind: type[Metadata]
    ) -> None:
        """`threads` write."""
        self._multipart = Multipart(content_type)
        self._kind = kind
        self._writer = writer
        self._threads = threads
        self._limit = limit
        self._file: ContentCheck | None = None
        self._buffer = bytearray()
        self._fields: dict[str, list[str]] = {}
        self._unknown: str | None = None

    async def receive(self, stream: AsyncIterator[bytes], announced: int | None) -> Received[Metadata]:
        """Read the stream. `announced` is its `Content-Length`.

        Raises the problems `too-large` and `unsupported-type`, or `InvalidRequestError`.
        """
        drain = self._limit * _DRAIN_FACTOR
        if announced is not None and announced > self._limit + BUFFER_BYTES:
            if announced <= drain:
                await _discard(stream, drain)
            raise too_large(self._limit)
        try:
            async for piece in stream:
                await self._feed(piece)
            self._multipart.close()
        except ConcordanceError:
            await _discard(stream, drain)
            raise
        if self._file is None:
            raise _missing(self._unknown)
        if self._unknown is not None:
            raise _unknown_part(self._unknown)
        if self._file.size == 0:
            raise InvalidRequestError(f"{self._file.file_name} is empty.")
        await self._flush()
        return Received(self._file.file_name, self._file.mime_type(), parse_metadata(self._fields, self._kind))

    async def _feed(self, piece: bytes) -> None:
        for event in self._multipart.feed(piece) if piece else ():
            if event.kind == "field":
                if event.name not in FIELDS:
                    self._unknown = self._unknown or event.name
                self._fields.setdefault(event.name, []).append(event.data.decode("utf-8", "replace"))
            elif event.kind == "file":
                if (part := event.data.decode("utf-8", "replace")) != FILE:
                    raise _unknown_part(part) if self._file is not None else _missing(part)
                if self._file is not None:
                    raise InvalidRequestError("file: send one file at a time.")
                self._file = ContentCheck(clean_name(event.name), self._limit)
            elif self._file is not None:
                self._file.add(event.data)
                self._buffer += event.data
        if len(self._buffer) >= BUFFER_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        await self._threads.run(self._writer.write, data)


async def _discard(stream: AsyncIterator[bytes], most: int) -> None:
    seen = 0
    async for piece in stream:
        seen += len(piece)
        if seen > most:
            return
