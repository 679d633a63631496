"""`POST /api/ingest` and `GET /api/ingest/{job_id}`."""

import uuid
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access, State
from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.documents.intake import MAX_CONTENT, IngestRequest, ingested
from serving.documents.receiver import keep, launch_upload_sync
from serving.documents.service import DocumentServices
from serving.http.errors import ProblemError
from serving.http.fields import JobId, parse_id
from serving.http.idempotency import idempotent
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from sql.serving import WebReads
from sql.serving_rows import IngestState

log = logger("serving")


class IngestResponse(msgspec.Struct, frozen=True):
    """The document is stored and waits for its sync."""

    job_id: str
    """ID of the job, for `GET /api/ingest/{job_id}`."""
    doc_id: str
    """ID of the document."""
    status: Literal["queued"] = "queued"
    """The document waits for its sync."""


IngestStatus = Annotated[
    Literal["queued", "running", "success", "failed"],
    Meta(title="IngestStatus", description="The state of a job: `queued` until a sync has seen the document."),
]


class Counts(msgspec.Struct, frozen=True):
    """Counts of what the index holds of the document."""

    documents: int
    """1 once the document is indexed, otherwise 0."""
    chunks: int
    """Number of passages."""
    pages: int
    """Number of pages or slides; 0 for documents without pages."""


class IngestJob(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job. `stage` is the one it is in, or that it ended in; `error` is set when it failed."""

    job_id: str
    """ID of the job."""
    doc_id: str
    """ID of the document."""
    status: IngestStatus
    """The state of the job."""
    stage: str | None
    """The stage that the document is in, or in which the job ended; null before the first."""
    counts: Counts
    """Counts of what the index holds of the document."""
    error: str | None
    """Why the job failed; null otherwise."""


@post(
    "/api/ingest",
    operation_id="ingest",
    status_code=202,
    tags=["documents"],
    summary="Ingest a document",
    request_max_body_size=MAX_CONTENT,
    opt=limited("ingest")
    | idempotent()
    | described(
        repeatable=True,
        problems=(
            "sharing-not-allowed",
            "not-found",
            "quota-exceeded",
            "unsupported-type",
            "too-many-waiting",
        ),
        request={
            "content": "# Tea\\n\\nTea is served at four.",
            "doc_id": "tea",
            "tags": {"tenant": "example", "dataset": "notes"},
        },
        example={
            "job_id": "7d1f0c52-60f5-4b52-8b0e-0f4d3ad5b1c1",
            "doc_id": "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706",
            "status": "queued",
        },
    ),
)
async def start_ingest(
    request: Request[Access, Any, Any], data: JSONBody[IngestRequest], documents: NamedDependency[DocumentServices]
) -> IngestResponse:
    """Store a document from the request's content or from a file root as the caller's upload, and start indexing it."""
    documents.http.database.require()
    uploads, job_id = documents.http.metrics.uploads, str(uuid.uuid4())
    try:
        with documents.http.blobs.writer() as writer:
            new = await documents.http.lake_threads.run(ingested, documents.http.settings, data, request.user, writer)
            doc_id, outcome, _ = await keep(documents, request.user, new, writer, job_id)
    except ConcordanceError:
        uploads.labels("refused").inc()
        raise
    sync = await launch_upload_sync(documents, request.user.email)
    uploads.labels("new" if outcome == "created" else "known").inc()
    log.info("ingest", job_id=job_id, doc_id=doc_id, sync=sync, bytes=new.size, mime_type=new.mime_type)
    return IngestResponse(job_id, doc_id)


@get(
    "/api/ingest/{job_id:str}",
    operation_id="ingestStatus",
    tags=["documents"],
    summary="How an ingest went",
    opt=limited("read")
    | described(
        problems=("not-found",),
        parameters={"job_id": "7d1f0c52-60f5-4b52-8b0e-0f4d3ad5b1c1"},
        example={
            "job_id": "7d1f0c52-60f5-4b52-8b0e-0f4d3ad5b1c1",
            "doc_id": "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706",
            "status": "success",
            "stage": "indexed",
            "counts": {"documents": 1, "chunks": 3, "pages": 0},
            "error": None,
        },
    ),
)
async def ingest_status(
    request: Request[Access, Any, Any], job_id: JobId, documents: NamedDependency[DocumentServices]
) -> IngestJob:
    """Return the state of a job to the user who started it."""
    missing = ProblemError("not-found", "There is no such job, or it is not yours.")
    known = parse_id(job_id, missing)
    job = await WebReads(documents.http.database).ingest_job(job_id=known, email=request.user.email)
    if job is None:
        raise missing
    return _job(job)


def _job(job: IngestState) -> IngestJob:
    status: IngestStatus = "queued"
    stage, error = None, None
    if job.taken_back:
        status, error = "failed", "Its owner has taken it back."
    elif job.seen:
        stage = job.stage or job.running_stage or "raw"
        if job.state in (State.SKIPPED, State.FAILED):
            status, error = "failed", job.reason or "It could not be indexed."
        elif job.indexed:
            status, stage = "success", "indexed"
        else:
            status = "running"
    done = status == "success"
    counts = Counts(int(done), (job.chunk_count or 0) if done else 0, (job.page_count or 0) if done else 0)
    return IngestJob(job_id=job.job_id, doc_id=job.doc_id, status=status, stage=stage, counts=counts, error=error)
