"""Pushed documents: what a program sends of each, and how it is checked and stored."""

import re
import uuid
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.core.moments import checked
from resources.settings import Settings
from resources.settings.urls import http_url
from resources.sources import find
from resources.sources.push import place_of
from resources.stores.blobs import BlobWriter
from serving.documents.files import Received, UploadMetadata, cleaned
from serving.documents.intake import MAX_CONTENT, inline_content
from serving.documents.receiver import Kept, keep, new_upload, write
from serving.documents.service import DocumentServices
from serving.http.bodies import check_encoding
from serving.http.errors import ProblemError
from serving.http.invalid import fault_of

MAX_ID = 512
MAX_DOCUMENTS = 100
"""Documents of a batch."""
CLOCK_SKEW = timedelta(days=1)
"""A later time of change would keep every version of the real present from being stored."""
T = TypeVar("T")
_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
"""Uploads are collected by days."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PushMetadata(UploadMetadata, forbid_unknown_fields=True):
    """Metadata of a document from its source. `share` lists the principals that may read it in addition to you."""

    link: Annotated[str, Meta(max_length=2000, pattern=r"^https?://[^\s/]")] | None = None
    """Address of the document at its source, which citations open. Null: this service's own page of the document."""
    modified_at: Annotated[datetime, Meta(tz=True)] | None = None
    """Last change at the source: a version that is older than the latest one with a time is ignored. Null: now."""


class PushRequest(PushMetadata, forbid_unknown_fields=True):
    """A document: `content` (text) or `content_base64` (bytes), and what the source says of it."""

    content: Annotated[str, Meta(max_length=MAX_CONTENT)] | None = None
    """The text of the document."""
    content_base64: Annotated[bytes, Meta(max_length=MAX_CONTENT)] | None = None
    """The bytes of the document, in Base64."""
    filename: Annotated[str, Meta(max_length=1000)] | None = None
    """Name of the file, which tells its type. Null: derived from the content."""
    content_type: Annotated[str, Meta(max_length=200)] | None = None
    """MIME type of the content. Null: that of `filename`, otherwise Markdown."""


class BatchDocument(PushRequest, forbid_unknown_fields=True, kw_only=True):
    """A document of a batch."""

    id: Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
    """Your own id of the document."""


def decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return a JSON body as a struct. Raises the problem `invalid-request` naming the field."""
    check_encoding(bytes(body))
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        fault = fault_of(kind, error)
        raise ProblemError("invalid-request", str(fault), errors=[fault]) from None
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"body: is not valid JSON: {error}.") from None


def valid_collection(name: str) -> str:
    """Return the name of a pushed source. Raises `InvalidRequestError` for one that no pushed source can have."""
    if not _COLLECTION.fullmatch(name):
        raise InvalidRequestError(
            "source: must have 1 to 63 characters a-z, 0-9, - and _, and begin with a letter or digit."
        )
    return name


def checked_collection(settings: Settings, name: str) -> str:
    """Return the name of a pushed source. Raises `InvalidRequestError` for one that is not valid or that means something else here."""
    valid_collection(name)
    if (spec := find(name)) is not None:
        raise InvalidRequestError(f"source: {name} is the name of the source {spec.label}. Choose another one.")
    taken = {root.name for root in settings.file_roots} | {one.collection.partition("/")[0] for one in settings.widgets}
    if name in {one.lower() for one in taken} or _DAY.fullmatch(name):
        raise InvalidRequestError(f"source: {name} is the name of another collection here. Choose another one.")
    return name


def checked_id(own_id: str) -> str:
    """Return a program's own id of a document. Raises `InvalidRequestError` for one that cannot be stored."""
    if not 0 < len(own_id) <= MAX_ID or _CONTROL.search(own_id):
        raise InvalidRequestError(f"id: must have 1 to {MAX_ID} characters and no control characters.")
    return own_id


def checked_link(link: str) -> str:
    """Return a document's address at its source. Raises `InvalidRequestError` for one that no browser opens or that breaks a citation."""
    with suppress(ValueError):
        if link.isprintable():
            return http_url(link)
    raise InvalidRequestError("link: must be a web address such as https://wiki.example/tea; write a space as %20.")


def write_inline(
    documents: DocumentServices, request: PushRequest, own_id: str, writer: BlobWriter
) -> Received[PushMetadata]:
    """Write the content of a request, and return what it is. Blocking.

    Raises `InvalidRequestError` naming the field, `SkipDocumentError` for an unsupported type, and the problem `too-large`.
    """
    if (request.content is None) == (request.content_base64 is None):
        raise InvalidRequestError("content: give one of content and content_base64.")
    inline = inline_content(request, own_id)
    mime_type = write(inline.pieces, inline.file_name, documents.http.settings.max_upload_bytes, writer)
    return Received(inline.file_name, mime_type, cleaned(request))


async def store(
    documents: DocumentServices,
    access: Access,
    collection: str,
    own_id: str,
    received: Received[PushMetadata],
    writer: BlobWriter,
) -> Kept:
    """Store a document whose bytes are written. Raises as `keep` does."""
    metadata = received.metadata
    modified_at = None if metadata.modified_at is None else checked(metadata.modified_at, "modified_at")
    if modified_at is not None and modified_at > documents.http.clock() + CLOCK_SKEW:
        raise InvalidRequestError("modified_at: lies in the future.")
    link = None if metadata.link is None else checked_link(metadata.link)
    place = place_of(access.email, collection, own_id, link, modified_at)
    return await keep(documents, access, new_upload(access, received, writer, place), writer, str(uuid.uuid4()))
