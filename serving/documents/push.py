"""`PUT` and `DELETE /api/documents/{source}/{id}`: documents of systems without a connector."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, put
from litestar.di import NamedDependency
from litestar.params import PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role, SourceName, document_id
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.logging import logger
from resources.sources.push import Outcome, source_id_of
from serving.documents.files import BUFFER_BYTES, UploadReceiver
from serving.documents.pushing import (
    PushMetadata,
    PushRequest,
    checked_collection,
    checked_id,
    decode,
    store,
    valid_collection,
    write_inline,
)
from serving.documents.reading import DeleteResponse, delete_own
from serving.documents.receiver import Kept, launch_upload_sync
from serving.documents.service import DocumentServices
from serving.http.errors import ProblemError
from serving.http.idempotency import idempotent
from serving.http.opaque_ids import opaque_id
from serving.http.openapi.describe import FORM, JSON, described
from serving.http.origins import accepts
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from sql.serving import WebReads

log = logger("serving")

_TOO_LARGE = f"A JSON body has at most {BUFFER_BYTES // 1024**2} MB. Send a larger document as a form, with its content as `file`."

PushSource = Annotated[
    str,
    PathParameter(
        description="Name of the source, which you choose, such as `wiki`: 1 to 63 characters `a-z`, `0-9`, `-` and `_`."
    ),
]
PushId = Annotated[
    str,
    PathParameter(description="Your own id of the document: any text of 1 to 512 characters, percent-encoded."),
]
PushOutcome = Annotated[
    Outcome,
    Meta(
        title="PushOutcome",
        description="`unchanged`: the same is stored already. `outdated`: a version with a later `modified_at` was pushed.",
    ),
]


class PushResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the push. The document is searchable once its job has succeeded."""

    id: str
    """Your own id of the document."""
    doc_id: str
    """ID of the document."""
    status: PushOutcome
    """What the push did."""
    job_id: str | None
    """The job that indexes it, for `GET /api/ingest/{job_id}`; null if nothing was written."""


PUSHED = {
    "id": "kitchen/tea",
    "doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb",
    "status": "created",
    "job_id": "7d1f0c52-60f5-4b52-8b0e-0f4d3ad5b1c1",
}
FORM_SCHEMA = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "contentMediaType": "application/octet-stream",
            "description": "The file, with its name.",
        },
        "metadata": PushMetadata,
    },
    "additionalProperties": False,
}
EXAMPLE = {
    "content": "# Tea\n\nTea is served at four.",
    "title": "Tea",
    "link": "https://wiki.example/tea",
    "share": ["domain:acme.com"],
    "tags": {"topic": "kitchen"},
    "modified_at": "2026-01-15T08:00:00Z",
}


async def push_collection(documents: DocumentServices, source: str) -> str:
    """Return the name of a pushed source. Raises `InvalidRequestError` for one that is taken."""
    collection = checked_collection(documents.http.settings, source)
    if await WebReads(documents.http.database).partition_elsewhere(partition=collection):
        raise InvalidRequestError(f"source: {collection} is the name of another collection here. Choose another one.")
    return collection


async def launch_push_sync(documents: DocumentServices, access: Access, stored: Sequence[Kept]) -> None:
    """Count and log what was pushed, and start a sync if there is something to index."""
    for one in stored:
        documents.http.metrics.pushed.labels(one.outcome).inc()
    written = [one.doc_id for one in stored if one.job_id is not None]
    if written:
        sync = await launch_upload_sync(documents, access.email, SourceName.PUSH)
        log.info("push", doc_ids=written, sync=sync)


@put(
    "/api/documents/{source:str}/{id:str}",
    operation_id="pushDocument",
    status_code=200,
    tags=["documents"],
    summary="Push a document",
    request_max_body_size=None,
    guards=[NeedsRole(Role.PUBLISHER)],
    opt=limited("upload")
    | accepts(None)
    | idempotent()
    | described(
        problems=("content-type", "sharing-not-allowed", "unsupported-type"),
        parameters={"source": "wiki", "id": "kitchen/tea"},
        raw_body=PushRequest,
        form=FORM_SCHEMA,
        request=EXAMPLE,
        example=PUSHED,
    ),
)
async def push_document(
    request: Request[Access, Any, Any],
    source: PushSource,
    id: PushId,  # noqa: A002 (the name in the path)
    documents: NamedDependency[DocumentServices],
) -> PushResponse:
    """Store a document of a source that has no connector, and start indexing it; the same again changes nothing.

    Send a JSON body of at most 1 MB, or a form with a file. Needs the role `publisher`. Only you and those in `share` may read the
    document; no one else can change it.
    """
    collection = await push_collection(documents, source)
    own_id = checked_id(opaque_id(id))
    try:
        with documents.http.blobs.writer() as writer:
            media = request.headers.get("content-type", "")
            if media.partition(";")[0].strip().lower() == FORM:
                receiver = UploadReceiver(
                    media, writer, documents.http.lake_threads, documents.http.settings.max_upload_bytes, PushMetadata
                )
                received = await receiver.receive(request.stream(), request.content_length)
            else:
                received = await documents.http.lake_threads.run(
                    write_inline, documents, await _decoded(request), own_id, writer
                )
            stored = await store(documents, request.user, collection, own_id, received, writer)
    except ConcordanceError:
        documents.http.metrics.pushed.labels("refused").inc()
        raise
    await launch_push_sync(documents, request.user, [stored])
    return PushResponse(id=own_id, doc_id=stored.doc_id, status=stored.outcome, job_id=stored.job_id)


async def _decoded(request: Request[Access, Any, Any]) -> PushRequest:
    """Return the JSON body. Raises the problems `content-type` and `too-large`, or `InvalidRequestError` naming the field."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ProblemError("content-type", f"The body must be declared as {JSON} or {FORM}.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BUFFER_BYTES:
            raise ProblemError("too-large", _TOO_LARGE)
    return decode(bytes(body), PushRequest)


@delete(
    "/api/documents/{source:str}/{id:str}",
    operation_id="deletePushed",
    status_code=200,
    tags=["documents"],
    summary="Delete a pushed document",
    guards=[NeedsRole(Role.PUBLISHER)],
    opt=limited("write")
    | described(
        repeatable=True,
        problems=("not-found", "invalid-request"),
        parameters={"source": "wiki", "id": "kitchen/tea"},
        example={
            "doc_id": PUSHED["doc_id"],
            "status": "deleted",
            "message": "Deleted and hidden from all searches, indexing in progress",
            "job_id": "3e363157-6a0c-4a3e-9d55-1f0e7a9f2d10",
        },
    ),
)
async def delete_pushed(
    request: Request[Access, Any, Any],
    source: PushSource,
    id: PushId,  # noqa: A002 (the name in the path)
    documents: NamedDependency[DocumentServices],
) -> DeleteResponse:
    """Delete a document that you pushed. It is hidden at once, and removed from the index by the sync that this starts.

    Needs the role `publisher`. Sent again, it changes nothing. Pushed again, the document is created again.
    """
    source_id = source_id_of(request.user.email, valid_collection(source), checked_id(opaque_id(id)))
    return await delete_own(documents, request.user, document_id(SourceName.PUSH, source_id), curator=False)
