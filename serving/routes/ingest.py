"""`POST /api/ingest` and `GET /api/ingest/{job_id}`."""

import asyncio
from typing import Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from resources.core.domain import Access, State
from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.deps import Services
from serving.errors import ProblemError
from serving.ingest import MAX_CONTENT, IngestRequest, ingest
from serving.references import parse_id
from serving.routes.uploads import launch_upload_sync

log = logger("serving")


class IngestResponse(msgspec.Struct, frozen=True):
    """The document is kept and waits for its sync."""

    job_id: str
    doc_id: str
    status: Literal["queued"] = "queued"


class Counts(msgspec.Struct, frozen=True):
    """What the index holds of the document."""

    documents: int
    chunks: int
    pages: int


class IngestJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands. `stage` is the one it is in, or that it ended in; `error` is set when it failed."""

    job_id: str
    doc_id: str
    status: Literal["queued", "running", "success", "failed"]
    stage: str | None
    counts: Counts
    error: str | None


@post(
    "/api/ingest",
    operation_id="ingest",
    status_code=202,
    tags=["documents"],
    summary="Ingest a document",
    request_max_body_size=MAX_CONTENT,
)
async def start_ingest(
    request: Request[Access, Any, Any], data: JSONBody[IngestRequest], services: NamedDependency[Services]
) -> IngestResponse:
    """Store a document from the request's content or from a file root as the caller's upload, and start indexing it."""
    services.database.require()
    try:
        ingested = await asyncio.to_thread(
            ingest, services.settings, services.blobs, services.rights, data, request.user
        )
    except ConcordanceError:
        services.metrics.uploads.labels("refused").inc()
        raise
    sync = await launch_upload_sync(services, request.user.email)
    services.metrics.uploads.labels("new" if ingested.kept.created else "known").inc()
    doc_id, size = ingested.kept.doc_id, ingested.blob.size
    log.info("ingest", job_id=ingested.job_id, doc_id=doc_id, sync=sync, bytes=size, mime_type=ingested.mime_type)
    return IngestResponse(ingested.job_id, doc_id)


@get("/api/ingest/{job_id:str}", operation_id="ingestStatus", tags=["documents"], summary="How an ingest went")
async def ingest_status(
    request: Request[Access, Any, Any], job_id: FromPath[str], services: NamedDependency[Services]
) -> IngestJob:
    """Return the state of a job to the user who started it."""
    missing = ProblemError("not-found", "There is no such job, or it is not yours.")
    parameters = {"job_id": parse_id(job_id, missing), "email": request.user.email}
    rows = await services.database.fetch("ingest_job", parameters)
    if not rows:
        raise missing
    return _job(rows[0])


def _job(row: dict[str, Any]) -> IngestJob:
    status: Literal["queued", "running", "success", "failed"] = "queued"
    stage, error = None, None
    if row["taken_back"]:
        status, error = "failed", "Its owner has taken it back."
    elif row["seen"]:
        stage = row["stage"] or row["running_stage"] or "raw"
        if row["state"] in (State.SKIPPED, State.FAILED):
            status, error = "failed", row["reason"] or "It could not be indexed."
        elif row["indexed"]:
            status, stage = "success", "indexed"
        else:
            status = "running"
    done = status == "success"
    counts = Counts(int(done), row["chunk_count"] if done else 0, (row["page_count"] or 0) if done else 0)
    return IngestJob(job_id=row["job_id"], doc_id=row["doc_id"], status=status, stage=stage, counts=counts, error=error)
