"""Ingest a document from a request's content or from a file root, as an upload of the caller with a job to follow.

A file root's file is named by its path there; other addresses are not fetched. Only its readers may ingest it, and the copy can be
shared with these readers only. Precedence of metadata: request, sidecar, path, defaults.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta

from resources.core import filetypes, permissions
from resources.core.domain import Access, Item, SourceName, document_id
from resources.core.errors import FailedDocumentError, InvalidRequestError, RetryLaterError, SkipDocumentError
from resources.settings import FileRoot, Settings
from resources.sources import sidecars
from resources.sources.files import Files
from resources.sources.tree import parts_of
from resources.stores.blobs import BlobWriter
from resources.stores.uploads import NewUpload, Origin
from serving.documents.files import clean_description, clean_name, one_line, too_large
from serving.documents.receiver import write
from serving.documents.sharing import check_provenance, check_tenant
from serving.http.errors import ProblemError
from serving.http.fields import Name, NewTags

SCHEMES = ("file://", "s3://", "az://", "azure://", "abfs://", "abfss://", "gs://")
OWN_ID_TAG = "external_id"
"""Tag with the caller's own `doc_id`, to filter searches by."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|//|data:|[A-Za-z]+:\\", re.IGNORECASE)


MAX_CONTENT = 8 * 1024 * 1024
"""Largest body of an ingest; what is larger is uploaded, or named by its path in a file root."""
OWN_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"


class IngestRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document: one of `blob_path` (in a file root), `content` (text) and `content_base64` (bytes).

    `doc_id` is a name of your own for it, unique among your documents of the tenant: sent again, it replaces the content.
    `share` lists the principals that may read it in addition to you; what was taken from a root is never shared wider than there.
    """

    blob_path: Annotated[str, Meta(min_length=1, max_length=4000)] | None = None
    """A file in a file root: `ROOT/folder/file.pdf`, or its address in the root's storage."""
    content: Annotated[str, Meta(max_length=MAX_CONTENT)] | None = None
    """The text of the document."""
    content_base64: Annotated[bytes, Meta(max_length=MAX_CONTENT)] | None = None
    """The bytes of the document, in Base64."""
    filename: Annotated[str, Meta(max_length=1000)] | None = None
    """Name of the file, which tells its type. Null: derived from the content."""
    content_type: Annotated[str, Meta(max_length=200)] | None = None
    """MIME type of the content. Null: that of `filename`, otherwise Markdown."""
    doc_id: Annotated[str, Meta(pattern=OWN_ID)] | None = None
    """Your own name of the document: letters, digits and `._:-`. Null: the content identifies it."""
    title: Annotated[str, Meta(max_length=500)] | None = None
    """Title of the document. Null: that of the file."""
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    """Description of the document. Null: that of the file."""
    tags: NewTags = {}
    """Tags of the document. `tenant` and `dataset` are required unless the file root gives them."""
    share: Annotated[list[Name], Meta(max_length=200)] = []
    """Principals who may read the document besides you, such as `domain:acme.com`."""


class IngestContent(NamedTuple):
    """A document's bytes, and its metadata except the request's."""

    file_name: str
    pieces: Iterable[bytes]
    tags: dict[str, Any]
    title: str | None = None
    description: str | None = None
    origin: Origin | None = None
    """The original that it copies, whose readers limit with whom the copy may be shared."""


class Inline(Protocol):
    """A request that contains a document: one of `content` (text) and `content_base64` (bytes)."""

    @property
    def content(self) -> str | None: ...
    @property
    def content_base64(self) -> bytes | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def filename(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...


def ingested(settings: Settings, request: IngestRequest, access: Access, writer: BlobWriter) -> NewUpload:
    """Write the bytes of a document, and return what it is.

    Raises `InvalidRequestError` naming the field, `SkipDocumentError` for an unsupported type, `RetryLaterError` for a file that changes
    meanwhile, and the problems `not-found` and `too-large`.
    """
    given = [name for name in ("blob_path", "content", "content_base64") if getattr(request, name) is not None]
    if len(given) != 1:
        raise InvalidRequestError("Give one of blob_path, content and content_base64.")
    content = (
        _from_root(settings, request.blob_path, access)
        if request.blob_path is not None
        else inline_content(request, request.doc_id)
    )
    tags = _tags(settings, request, content, access)
    share = _shared(request.share, content.origin)
    name = clean_name(request.filename) if request.filename else content.file_name
    if filetypes.declared(name) != filetypes.declared(content.file_name):
        raise InvalidRequestError(f"filename: must end like the file itself, {filetypes.extension(content.file_name)}.")
    own = None if request.doc_id is None else f"{quote(tags['tenant'].strip(), safe='')}/{request.doc_id}"
    try:
        mime_type = write(content.pieces, name, settings.max_upload_bytes, writer)
    except FailedDocumentError:
        raise RetryLaterError("blob_path: the file changed while it was read. Send the request again.", 1) from None
    return NewUpload(
        owner=access.email,
        content_hash=writer.content_hash,
        size=writer.size,
        file_name=name,
        title=(one_line(request.title, 500) if request.title else "") or content.title,
        description=clean_description(request.description) or content.description,
        mime_type=mime_type,
        permissions=share,
        tags=tags,
        name=own,
        origin=content.origin,
    )


def locate(roots: Sequence[FileRoot], blob_path: str) -> tuple[str, str] | None:
    """Return a root's name and the path in it, or None if no root contains the address.

    Raises `InvalidRequestError` for an address that no root can have, and for a path that leads out of its root.
    """
    if not _SCHEME.match(blob_path):
        _check_plain(blob_path.removeprefix("/"))
        name, _, path = blob_path.removeprefix("/").partition("/")
        return (name, path) if path and any(root.name == name for root in roots) else None
    if not blob_path.lower().startswith(SCHEMES):
        raise InvalidRequestError(
            "blob_path: external addresses are not fetched. Name a file in a file root, such as ROOT/folder/file.pdf."
        )
    _check_plain(unquote(blob_path.partition("://")[2]).lstrip("/"))
    holding = [root for root in roots if blob_path.startswith(f"{root.url}/")]
    root = max(holding, key=lambda root: len(root.url), default=None)
    return None if root is None else (root.name, unquote(blob_path[len(root.url) + 1 :]))


def _check_plain(path: str) -> None:
    try:
        parts_of(path)
    except SkipDocumentError:
        raise InvalidRequestError("blob_path: is not a plain path; it may not lead out of its root.") from None


def _from_root(settings: Settings, blob_path: str, access: Access) -> IngestContent:
    """Return a file of a root. Raises the problem `not-found` alike for a missing file and for one that the caller may not read."""
    place = locate(settings.file_roots, blob_path)
    filetypes.declared(blob_path)  # checks the name only, so it reveals nothing
    files = Files(settings)
    item = files.look(*place) if place is not None else None
    readers = permissions.granted(item.permissions, item.owner, item.tags) if isinstance(item, Item) else ()
    if not isinstance(item, Item) or access.principals.isdisjoint(readers) or not _may_know_path(item, access):
        raise ProblemError("not-found", "blob_path: there is no such file in the file roots, or you may not read it.")
    if item.size is not None and item.size > settings.max_upload_bytes:
        raise too_large(settings.max_upload_bytes)
    name = item.path.rpartition("/")[2]
    title = item.title if item.title != name else None
    original = document_id(SourceName.FILES, item.source_id)
    origin = Origin(original, tuple(sorted(access.principals.intersection(readers))), readers)
    return IngestContent(name, files.fetch(item), item.tags, title, item.description, origin)


def _may_know_path(item: Item, access: Access) -> bool:
    """Return True if the caller may know every folder of the file's path. Anyone else could use ingest to confirm a guessed path."""
    return not any(access.principals.isdisjoint(folder.readers) for folder in item.folders)


def inline_content(request: Inline, own_id: str | None) -> IngestContent:
    """Return the document in a request. Raises `InvalidRequestError` naming the field, and `SkipDocumentError` for an unsupported type."""
    if request.content is not None:
        data = request.content.encode("utf-8", "replace")
        if "\x00" in request.content:
            raise InvalidRequestError("content: must not contain a NUL character; send bytes as content_base64.")
    else:
        data = request.content_base64 or b""
    if not data.strip():
        raise InvalidRequestError("content: is empty.")
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    if request.filename is not None:
        name = clean_name(request.filename)
    else:
        endings = {mime: ending for ending, mime in reversed(list(filetypes.MIME_TYPES.items()))}
        if kind and kind not in endings:
            raise SkipDocumentError(f"Files of type {kind} are not supported. {filetypes.supported()}")
        stem = re.sub(r"[/\\]", "-", one_line(request.title or own_id or "", 100)).strip(". ") or "document"
        name = clean_name(stem + endings[kind or "text/markdown"])
    return IngestContent(name, [data], {})


def _tags(settings: Settings, request: IngestRequest, content: IngestContent, access: Access) -> dict[str, Any]:
    """Merge the tags, the request's first. Tenant and dataset are required; the caller may not claim another's tenant or a `source`."""
    check_provenance(access, request.tags, ("source",))
    own = {OWN_ID_TAG: request.doc_id} if request.doc_id is not None else {}
    merged = sidecars.merge(own, request.tags, content.tags)
    try:
        sidecars.check_plain(merged)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"tags: {error}.") from None
    for name in sidecars.REQUIRED:
        value = merged.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InvalidRequestError(
                f"tags.{name}: is required; tenant and dataset name the document's owner and collection."
            )
    if merged["tenant"] != content.tags.get("tenant"):
        check_tenant(settings, access, merged["tenant"].strip())
    return merged


def _shared(wanted: Sequence[str], origin: Origin | None) -> tuple[str, ...]:
    """Return the normalised principals to share with. Raises `InvalidRequestError` for one who may not read the original."""
    share = permissions.normalize(wanted)
    for principal in share:
        if origin is not None and not permissions.covers(origin.readers, principal):
            raise InvalidRequestError(f"share: {principal} may not read the original; a copy is never shared wider.")
    return share
