"""`POST /api/upload`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency

from resources.core.domain import Access, SourceName
from resources.core.errors import BusyError, ConcordanceError, NotRunningError, TemporaryError
from resources.logging import logger
from resources.stores.postgres import Connection
from resources.stores.quotas import quota_of
from serving.documents.files import UploadMetadata, UploadReceiver
from serving.documents.service import DocumentServices
from serving.documents.sharing import check_provenance, check_share
from serving.http.openapi.describe import described
from serving.http.origins import accepts
from serving.http.request_limits import limited

LAUNCH_SECONDS = 10.0
"""A sync that does not start within this time is left to the sensor for waiting uploads."""

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


async def launch_upload_sync(
    documents: DocumentServices, email: str, source: SourceName = SourceName.UPLOAD
) -> str | None:
    """Start a sync of uploads or pushed documents and return its job id, or the running one's; None if none can be started now."""
    try:
        started = await documents.sources.launch(source, requested_by=email, seconds=LAUNCH_SECONDS)
    except BusyError as error:
        return error.job_id
    except (NotRunningError, TemporaryError) as error:
        log.warning("upload_sync_not_started", source=source.value, error=str(error))
        return None
    return started.job_id


def message_for(job_id: str | None, done: str) -> str:
    """Return the message of a change that is done, with the state of its indexing."""
    if job_id is None:
        return f"{done}; it will be indexed when the sync service runs again"
    return f"{done}, indexing in progress"


@post(
    "/api/upload",
    operation_id="upload",
    status_code=202,
    tags=["documents"],
    summary="Upload a file",
    request_max_body_size=None,
    opt=limited("upload")
    | accepts(None)
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
        },
    ),
)
async def upload(request: Request[Access, Any, Any], documents: NamedDependency[DocumentServices]) -> UploadResponse:
    """Store a file and start indexing it. Only the uploader may read it unless `metadata.share` names others."""
    from resources.stores.uploads import check_stored, record, source_id_of

    email, limit = request.user.email, documents.http.settings.max_upload_bytes
    quota = quota_of(documents.http.settings, admin=request.user.admin)
    stream: AsyncIterator[bytes] = request.stream()
    try:
        with documents.http.blobs.writer() as writer:
            receiver = UploadReceiver(request.headers.get("content-type", ""), writer, limit, UploadMetadata)
            received = await receiver.receive(stream, request.content_length)
            check_share(documents.http.settings, request.user, received.metadata.share)
            check_provenance(request.user, received.metadata.tags)
            # `record` checks the quota again under a lock; an upload refused here leaves no bytes behind.
            if quota is not None:
                source_id, size = source_id_of(email, writer.content_hash), writer.size
                await documents.http.database.in_thread(
                    lambda connection: quota.check(connection, owner=email, source_id=source_id, size=size)
                )
            blob = await asyncio.to_thread(writer.commit)
    except ConcordanceError:
        documents.http.metrics.uploads.labels("refused").inc()
        raise

    def store(connection: Connection) -> tuple[str, bool]:
        with connection.transaction():
            kept = record(
                connection,
                owner=email,
                content_hash=blob.content_hash,
                size=blob.size,
                file_name=received.file_name,
                title=received.metadata.title,
                description=received.metadata.description,
                mime_type=received.mime_type,
                permissions=received.metadata.share,
                tags=received.metadata.tags,
                quota=quota,
            )
            check_stored(documents.http.blobs, blob.content_hash)
            documents.identity.rights.note(kept.doc_id, kept.readers)
        return kept.doc_id, kept.created

    doc_id, created = await documents.http.database.in_thread(store)
    job_id = await launch_upload_sync(documents, email)
    documents.http.metrics.uploads.labels("new" if created else "known").inc()
    log.info("upload", doc_id=doc_id, job_id=job_id, bytes=blob.size, mime_type=received.mime_type, created=created)
    done = "File uploaded" if created else "You uploaded this content before; its title and sharing were updated"
    return UploadResponse(doc_id, "processing", message_for(job_id, done), job_id)
