"""A document's bytes: Google's own formats are exported, all others downloaded as they are.

The open comments on a document follow at its end. Those that are resolved or deleted are left out, as Google Docs hides them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from resources.core.domain import Item
from resources.core.errors import ChangedDocumentError, SkipDocumentError
from resources.core.filetypes import MIME_TYPES, PPTX, SUPPORTED_MIME_TYPES, XLSX, declared, extension, mime_type
from resources.core.json import object_of
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.faults import ExportTooLargeError, ForbiddenError
from resources.sources.tree import EMPTY

GOOGLE_APPS = "application/vnd.google-apps."
FOLDER = f"{GOOGLE_APPS}folder"
SHORTCUT = f"{GOOGLE_APPS}shortcut"
DOCUMENT = f"{GOOGLE_APPS}document"
SLIDES = f"{GOOGLE_APPS}presentation"
WITH_COMMENTS = "export with comments"
"""How Docs are fetched where `drive_comments` is on. Exports of other types hold comments already."""
EXPORTS: Mapping[str, str] = {
    DOCUMENT: "text/markdown",
    f"{GOOGLE_APPS}spreadsheet": XLSX,  # CSV has only the first sheet
    SLIDES: PPTX,  # plain text has neither notes nor the slides' numbers
}
"""Source: https://developers.google.com/workspace/drive/api/guides/ref-export-formats"""
_NAMES: Mapping[str, str] = {
    "drawing": "drawings",
    "form": "forms",
    "jam": "Jamboards",
    "map": "My Maps",
    "script": "Apps Script projects",
    "site": "sites",
    "vid": "Vids",
    "fusiontable": "fusion tables",
    "mail-layout": "mail layouts",
}
_TEXTS = frozenset(found for found in SUPPORTED_MIME_TYPES if found.startswith("text/")) | {
    "application/json",
    "application/x-ndjson",
}
MARKDOWN = "text/markdown"
_MD5_LENGTH = 32
HEADING = "Comments"
_REPLY = "author(displayName),content,deleted"
_FIELDS = f"nextPageToken,comments({_REPLY},resolved,quotedFileContent(value),replies({_REPLY}))"
_PAGE = 100


_VERSION = "mimeType,modifiedTime,version,md5Checksum,headRevisionId"


def version_of(file: JSON, *, commented: bool = False) -> str:
    """Return a value that changes whenever the bytes may have: Google's own formats have neither a checksum nor a revision id.

    It names the format of an export that used to be another one. A comment changes none of these, only the number of all changes.
    """
    if commented:
        return f"{file.get('modifiedTime') or ''} {file.get('version') or ''}"
    if file.get("mimeType") == SLIDES:
        return f"{file.get('modifiedTime') or ''} pptx"
    return str(file.get("md5Checksum") or file.get("headRevisionId") or file.get("modifiedTime") or "")


class Kind(NamedTuple):
    """The type of the bytes that `fetch` returns, and whether Google exports them (`export`) or stores them (`media`)."""

    mime_type: str
    way: str


def kind_of(name: str, mime_type: str) -> Kind:
    """Return what is fetched for a file. Raises `SkipDocumentError` with the reason if its type cannot be indexed."""
    if mime_type.startswith(GOOGLE_APPS):
        if mime_type in EXPORTS:
            return Kind(EXPORTS[mime_type], "export")
        kind = mime_type.removeprefix(GOOGLE_APPS)
        raise SkipDocumentError(
            f"Google {_NAMES.get(kind, f'files of type {kind}')} contain no text that can be exported. "
            "Supported Google formats: Docs, Sheets and Slides."
        )
    mime_type = mime_type.partition(";")[0].strip().lower()
    by_name = MIME_TYPES.get(extension(name))
    if mime_type in SUPPORTED_MIME_TYPES and not (mime_type in _TEXTS and by_name in _TEXTS):
        return Kind(mime_type, "media")
    # Drive reports most text files as text/plain, and unknown types as application/octet-stream
    return Kind(by_name or declared(name, mime_type), "media")


def name_for(name: str, mime_type: str) -> str:
    """Return a name whose extension matches the type of the bytes, for checking one against the other."""
    if MIME_TYPES.get(extension(name)) == mime_type:
        return name
    return name + next(ending for ending, found in MIME_TYPES.items() if found == mime_type)


def fetch(client: DriveClient, item: Item, limit: int) -> Iterator[bytes]:
    """Yield the bytes in pieces after checking that the first ones match the file's type; one attempt.

    Raises `SkipDocumentError`, `RetryLaterError`, or `ChangedDocumentError` if these are not the bytes of the item's version.
    """
    name = name_for(item.title, item.mime_type)
    pieces = _pieces(client, item)
    digest = hashlib.md5(usedforsecurity=False)
    total = 0
    for number, piece in enumerate(pieces):
        if number == 0:
            if not piece:
                raise SkipDocumentError(EMPTY)
            mime_type(name, piece)
        total += len(piece)
        if total > limit:
            raise SkipDocumentError(
                f"It is larger than the {limit:,} bytes that CONCORDANCE_LIMITS__MAX_FILE_BYTES allows. Split it, or raise the limit "
                "and sync again."
            )
        digest.update(piece)
        yield piece
    if item.locator == "media" and len(item.version) == _MD5_LENGTH:
        version = digest.hexdigest()
    else:
        now = client.call("files.get", fileId=item.source_id, fields=_VERSION, supportsAllDrives=True)
        version = version_of(now, commented=item.locator == WITH_COMMENTS)
    if version != item.version:
        raise ChangedDocumentError


def _pieces(client: DriveClient, item: Item) -> Iterator[bytes]:
    if item.locator == WITH_COMMENTS:
        return chain(_exported(client, item), iter((comments(client, item.source_id).encode(),)))
    if item.locator == "export":
        return _exported(client, item)
    return client.media("files.get", size=item.size, fileId=item.source_id, supportsAllDrives=True)


def _exported(client: DriveClient, item: Item) -> Iterator[bytes]:
    """Yield an export; of a larger one what the document's own link gives, or of a text at least its words.

    Source: https://developers.google.com/workspace/drive/api/guides/manage-downloads#export-content
    """
    file_id, kind = item.source_id, item.mime_type
    try:
        yield from client.media("files.export", fileId=file_id, mimeType=kind)
    except ExportTooLargeError:
        found = client.call("files.get", fileId=file_id, fields="exportLinks", supportsAllDrives=True)
        link = object_of(found.get("exportLinks")).get(kind)
        if link:
            try:
                yield from client.linked(str(link))
            except SkipDocumentError:
                if kind != MARKDOWN:
                    raise
            else:
                return
        elif kind != MARKDOWN:
            raise
        yield from client.media("files.export", fileId=file_id, mimeType="text/plain")


def comments(client: DriveClient, file_id: str) -> str:
    """Return the comments, with what each is about and its replies; empty if there are none, or none that the account may read.

    Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/comments/list
    """
    try:
        listed = list(client.pages("comments.list", "comments", fileId=file_id, pageSize=_PAGE, fields=_FIELDS))
    except ForbiddenError:
        return ""
    lines = [line for one in listed for line in _thread(one)]
    return "\n".join((f"\n\n## {HEADING}\n", *lines, "")) if lines else ""


def _thread(comment: JSON) -> Iterator[str]:
    if comment.get("deleted") or comment.get("resolved"):
        return
    about = _line(object_of(comment.get("quotedFileContent")).get("value"))
    yield f"- {_said(comment, f' on “{about}”' if about else '')}"
    for reply in comment.get("replies") or ():
        if not reply.get("deleted") and _line(reply.get("content")):
            yield f"  - {_said(reply)}"


def _said(comment: JSON, about: str = "") -> str:
    author = _line(object_of(comment.get("author")).get("displayName")) or "Somebody"
    return f"{author}{about}: {_line(comment.get('content'))}"


def _line(text: object) -> str:
    return " ".join(str(text or "").split())
