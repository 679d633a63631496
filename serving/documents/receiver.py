"""Receive a document: whichever way it comes, it is checked, stored and recorded here, and a sync is started for it.

Uploads, pushed documents and ingested ones differ in how they name a document and in what they answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from resources.core.domain import Access, SourceName
from resources.core.errors import BusyError, NotRunningError, TemporaryError
from resources.logging import logger
from resources.sources.push import Outcome, compare, push
from resources.stores.blobs import BlobWriter
from resources.stores.postgres import Connection
from resources.stores.quotas import quota_of
from resources.stores.uploads import NewUpload, UploadTarget, check_stored, put_ingest_job, record
from serving.documents.files import ContentCheck, Metadata, Received
from serving.documents.service import DocumentServices
from serving.documents.sharing import check_provenance, check_share
from serving.http.audit import AuditEvent
from sql.serving import WebSession

LAUNCH_SECONDS = 10.0
"""A sync that does not start within this time is left to the sensor for waiting uploads."""

log = logger("serving")


class Kept(NamedTuple):
    """Result of handing a document in; `job_id` follows its indexing, if there is any to follow."""

    doc_id: str
    outcome: Outcome
    job_id: str | None = None


def write(pieces: Iterable[bytes], file_name: str, limit: int, writer: BlobWriter) -> str:
    """Write a file's bytes and return its type. Blocking. Raises `SkipDocumentError` and the problem `too-large`."""
    check = ContentCheck(file_name, limit)
    for piece in pieces:
        check.add(piece)
        writer.write(piece)
    return check.mime_type()


def new_upload(
    access: Access, received: Received[Metadata], writer: BlobWriter, place: UploadTarget | None = None
) -> NewUpload:
    """Return a document whose bytes are written. Raises `InvalidRequestError` for a reserved tag."""
    metadata = received.metadata
    check_provenance(access, metadata.tags)
    return NewUpload(
        owner=access.email,
        content_hash=writer.content_hash,
        size=writer.size,
        file_name=received.file_name,
        title=metadata.title,
        description=metadata.description,
        mime_type=received.mime_type,
        permissions=metadata.share,
        tags=metadata.tags,
        place=place,
    )


async def keep(
    documents: DocumentServices, access: Access, upload: NewUpload, writer: BlobWriter, job_id: str | None = None
) -> Kept:
    """Store a document whose bytes are written but not committed: the bytes first, then its record, which refers to them.

    A refused document leaves no bytes behind, and a pushed one that changes nothing is not written. With a `job_id`, a job of that id
    follows its indexing. Raises `InvalidRequestError`, the errors of `Quota.check`, and the problem `sharing-not-allowed`.
    """
    http, pushed = documents.http, upload.target.source == SourceName.PUSH
    check_share(http.settings, access, upload.permissions)
    quota = None if pushed else quota_of(http.settings, admin=access.admin)

    def check(connection: Connection) -> Outcome | None:
        if quota is not None:
            quota.check(connection, owner=upload.owner, source_id=upload.target.source_id, size=upload.size)
        return compare(connection, upload) if pushed else None

    outcome = await http.database.in_thread(check)  # again under a lock when it is recorded
    if outcome in ("unchanged", "outdated"):
        return Kept(upload.doc_id, outcome)
    await http.lake_threads.run(writer.commit)

    def store(connection: Connection) -> Kept:
        with connection.transaction():
            if pushed:
                _, outcome, recorded = push(connection, upload)
                if recorded is None:  # another request was faster
                    return Kept(upload.doc_id, outcome)
                detail = json.dumps({"outcome": outcome, "permissions": recorded.readers})
                event = AuditEvent(email=access.email, action="push", doc_ids=[upload.doc_id], detail=detail)
                WebSession(connection).audit_insert(**event.row())
            else:
                recorded = record(connection, upload, quota)
                outcome = "created" if recorded.created else "updated"
            check_stored(http.blobs, upload.content_hash)
            if job_id is not None:
                put_ingest_job(connection, recorded, owner=upload.owner, job_id=job_id)
            documents.identity.withholding.documents(connection, [upload.doc_id])
        return Kept(upload.doc_id, outcome, job_id)

    return await http.database.in_thread(store, http.lake_threads)  # it asks the object store


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
