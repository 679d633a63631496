"""`POST /api/upload`."""

from typing import Any, Literal

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency

from resources.core.domain import Access
from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.documents.files import UploadMetadata, UploadReceiver
from serving.documents.receiver import keep, launch_upload_sync, message_for, new_upload
from serving.documents.service import DocumentServices
from serving.http.idempotency import idempotent
from serving.http.openapi.describe import described
from serving.http.origins import accepts
from serving.http.request_limits import limited

log = logger("serving")


class UploadResponse(msgspec.Struct, frozen=True):
    """The result of an upload. `job_id` is null if no sync could be started; a later one picks it up."""

    doc_id: str
    """ID of the document."""
    status: Literal["processing"]
    """The file is stored and will be indexed."""
    message: str
    """What happens next, in words."""
    job_id: str | None = None
    """The sync that indexes the file; null if none could be started, and a later one does it."""
    known: bool = False
    """True if you had uploaded the same content: its title, description, tags and sharing are replaced by those of this upload."""


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
        "metadata": UploadMetadata,
        "title": {"type": "string", "maxLength": 500, "description": "Title of the document, instead of `metadata`."},
        "description": {
            "type": "string",
            "maxLength": 10_000,
            "description": "Description of the document, instead of `metadata`.",
        },
        "tags": {"type": "string", "description": "Tags as a JSON object, instead of `metadata`."},
        "share": {
            "type": "string",
            "description": "Principals separated by commas or spaces, instead of `metadata`.",
        },
    },
    "additionalProperties": False,
}
"""The multipart body, which the route reads as a stream."""


@post(
    "/api/upload",
    operation_id="upload",
    status_code=202,
    tags=["documents"],
    summary="Upload a file",
    request_max_body_size=None,
    opt=limited("upload")
    | accepts(None)
    | idempotent()
    | described(
        repeatable=True,
        problems=(
            "sharing-not-allowed",
            "quota-exceeded",
            "unsupported-type",
            "too-many-waiting",
        ),
        form=FORM_SCHEMA,
        request={
            "file": "# Tea\\n\\nTea is served at four.",
            "metadata": {"title": "Tea", "tags": {"topic": "kitchen"}},
        },
        example={
            "doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb",
            "status": "processing",
            "message": "File uploaded, indexing in progress",
            "job_id": "3e363157-6a0c-4a3e-9d55-1f0e7a9f2d10",
            "known": False,
        },
    ),
)
async def upload(request: Request[Access, Any, Any], documents: NamedDependency[DocumentServices]) -> UploadResponse:
    """Store a file and start indexing it. Only the uploader may read it unless `metadata.share` names others."""
    settings, uploads = documents.http.settings, documents.http.metrics.uploads
    try:
        with documents.http.blobs.writer() as writer:
            receiver = UploadReceiver(
                request.headers.get("content-type", ""),
                writer,
                documents.http.lake_threads,
                settings.max_upload_bytes,
                UploadMetadata,
            )
            received = await receiver.receive(request.stream(), request.content_length)
            new = new_upload(request.user, received, writer)
            doc_id, outcome, _ = await keep(documents, request.user, new, writer)
    except ConcordanceError:
        uploads.labels("refused").inc()
        raise
    job_id = await launch_upload_sync(documents, request.user.email)
    created = outcome == "created"
    uploads.labels("new" if created else "known").inc()
    log.info("upload", doc_id=doc_id, job_id=job_id, bytes=new.size, mime_type=new.mime_type, created=created)
    done = "File uploaded" if created else "You uploaded this content before; its title, tags and sharing are replaced"
    return UploadResponse(doc_id, "processing", message_for(job_id, done), job_id, not created)
