"""`GET /api/documents/{doc_id}/original`: the file that a document was made from."""

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.response import Stream

from resources.core import filetypes
from resources.core.domain import Access
from resources.core.errors import ConcordanceError, FailedDocumentError
from resources.logging import logger
from resources.stores.blobs import Blobs
from serving.answers import access_check
from serving.answers.access_check import CurrentAccess
from serving.documents.service import DocumentServices
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError, not_found
from serving.http.fields import DocumentId, parse_id
from serving.http.heads import is_head
from serving.http.openapi.describe import Answer, described
from serving.http.request_limits import limited
from serving.http.threads import Threads
from serving.identity.authentication import current_access
from sql.serving import WebReads
from sql.serving_rows import Original

BYTES = "application/octet-stream"
POLICY = "default-src 'none'; sandbox"
"""A browser that shows the file in spite of `attachment` runs no script and gives it no origin."""
_ENDINGS = {mime: ending for ending, mime in reversed(list(filetypes.MIME_TYPES.items()))}
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._ -]")
_CONTENT: dict[str, Any] = {
    mime: {} if mime.endswith("json") else {"type": "string", "format": "binary"}
    for mime in (BYTES, *sorted(filetypes.SUPPORTED_MIME_TYPES))
}
log = logger("serving")


def file_name(original: Original) -> str:
    """Return the name of the file, with the ending of its type."""
    name = original.path.rpartition("/")[2] or original.title
    if filetypes.MIME_TYPES.get(filetypes.extension(name)) != original.mime_type:
        name += _ENDINGS.get(original.mime_type, "")
    return name


def disposition(name: str) -> str:
    """Return the `Content-Disposition` of a file to be saved under this name. Source: RFC 6266, section 5."""
    return f"attachment; filename=\"{_NOT_PLAIN.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe='')}"


@get(
    "/api/documents/{doc_id:str}/original",
    operation_id="getOriginal",
    tags=["documents"],
    summary="Download the original file",
    opt=limited("read")
    | described(
        problems=("not-found",),
        parameters={"doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb"},
        answers={
            200: Answer(
                "The file, in its own type", _CONTENT, headers={"Content-Disposition": "`attachment`, and its name."}
            )
        },
    ),
)
async def get_original(
    request: Request[Access, Any, Any], documents: NamedDependency[DocumentServices], doc_id: DocumentId
) -> Stream:
    """Return the file that the document was made from, as it was last read from its source, if the caller may read the document.

    Slack conversations have none.
    """
    current = current_access(documents.identity, request)
    return await original_of(documents, request.user, doc_id, current, head=is_head(request))


async def original_of(
    documents: DocumentServices, access: Access, doc_id: str, current: CurrentAccess, *, head: bool
) -> Stream:
    """Return the original file of a document. Raises `not-found` alike for a hidden, withheld or unknown document.

    `current` returns the caller's access again, for a file that takes a while. With `head`, the file is not read, and is no download.
    """
    doc_id = parse_id(doc_id, not_found())
    original = await _readable(documents, access, doc_id)
    if original.content_hash is None or original.mime_type not in filetypes.SUPPORTED_MIME_TYPES:
        raise ProblemError("not-found", "This document has no original file. Open it at its source.")
    blobs, run, content_hash = documents.http.blobs, documents.http.lake_threads.run, original.content_hash
    try:
        size, pieces = await (run(_size, blobs, content_hash) if head else run(blobs.stream, content_hash))
    except FailedDocumentError:
        raise ProblemError(
            "not-found", "The original file is not stored any more. The next full sync reads it again."
        ) from None
    if not head:
        await documents.http.audit.record(AuditEvent(email=access.email, action="download", doc_ids=[doc_id]))

    async def check() -> None:
        await _readable(documents, await current(), doc_id)

    return Stream(
        _checked(pieces, check, documents.http.lake_threads),
        headers={
            "Content-Type": original.mime_type,
            "Content-Length": str(size),
            "Content-Disposition": disposition(file_name(original)),
            "Content-Security-Policy": POLICY,
        },
    )


def _size(blobs: Blobs, content_hash: str) -> tuple[int, Iterator[bytes]]:
    """Return what `Blobs.stream` does, without the bytes."""
    size = blobs.size(content_hash)
    if size is None:
        raise FailedDocumentError("The blob is missing.")
    return size, iter(())


async def _readable(documents: DocumentServices, access: Access, doc_id: str) -> Original:
    """Return the original if the caller may read the document now. Raises `not-found`."""
    found = await WebReads(documents.http.database).document_original(
        doc_id=doc_id, **documents.http.readable_by(access)
    )
    if found is None:
        raise not_found()
    return found


async def _checked(
    pieces: Iterator[bytes], check: Callable[[], Awaitable[None]], threads: Threads
) -> AsyncGenerator[bytes]:
    """Yield the pieces, and check every few seconds. Once that raises, the file ends early, which the client sees by its length."""
    checked = time.monotonic()
    while (piece := await threads.run(next, pieces, None)) is not None:
        if time.monotonic() - checked >= access_check.EVERY_SECONDS:
            try:
                await check()
            except ConcordanceError as error:
                log.warning("download_ended", error=str(error))
                return
            checked = time.monotonic()
        yield piece
