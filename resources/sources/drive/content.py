"""A document's bytes: Google's own formats are exported, all others downloaded as they are."""

import hashlib
from collections.abc import Iterator
from itertools import chain

from resources.core.domain import Item
from resources.core.errors import RetryLaterError, SkipDocumentError
from resources.core.filetypes import mime_type
from resources.core.json import object_of
from resources.sources.drive.client import PIECE, DriveClient
from resources.sources.drive.comments import comments
from resources.sources.drive.faults import ExportTooLargeError
from resources.sources.drive.kinds import WITH_COMMENTS, name_for
from resources.sources.tree import EMPTY, too_large

MARKDOWN = "text/markdown"
_MD5_LENGTH = 32


def fetch(client: DriveClient, item: Item, limit: int) -> Iterator[bytes]:
    """Yield the bytes in pieces after checking that the first ones match the file's type; one attempt.

    Raises `SkipDocumentError` or `RetryLaterError`, the latter also if the file changed between two pieces.
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
            raise SkipDocumentError(too_large(total, limit))
        digest.update(piece)
        yield piece
    in_pieces = item.size is not None and item.size > PIECE
    if in_pieces and len(item.version) == _MD5_LENGTH and digest.hexdigest() != item.version:
        raise RetryLaterError(f"{item.title} changed while it was downloaded.")


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
                yield client.linked(str(link))
            except SkipDocumentError:
                if kind != MARKDOWN:
                    raise
            else:
                return
        elif kind != MARKDOWN:
            raise
        yield from client.media("files.export", fileId=file_id, mimeType="text/plain")
