"""`POST /api/sync/{source}` and `GET /api/sync/status/{job_id}`."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import BodyKwarg, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from resources.core.errors import InvalidRequestError
from resources.sources import configured, parse, spec_of
from serving.http.errors import ProblemError
from serving.http.fields import JobId, Name, parse_id
from serving.http.idempotency import idempotent
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole, sees_reasons
from serving.sources.ledger import LastJob, job_facts
from serving.sources.service import SourceServices
from sql.fields import Moment
from sql.serving import WebReads

LAUNCH_SECONDS = 25.0
"""Less than the launch's own timeout for Dagster, so that a hang is noticed here."""


class SyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Partitions to sync (default: all); `folder_ids` is another name for `partitions`. A folder stands for the root that holds it."""

    partitions: Annotated[list[Name], Meta(min_length=1, max_length=10_000)] | None = None
    """Roots, folders below them, channels, upload days or pushed sources to sync. Null: all."""
    folder_ids: Annotated[list[Name], Meta(min_length=1, max_length=10_000)] | None = None
    """Another name for `partitions`: give one of them."""
    full_sync: bool = False
    """True to read unchanged files again."""


class SyncResponse(msgspec.Struct, frozen=True):
    """The sync that was started."""

    job_id: str
    """ID of the sync, for `GET /api/sync/status/{job_id}`."""
    status: Literal["running"]
    """The sync was started."""
    started_at: Moment
    """When the sync was started."""


class SyncFault(msgspec.Struct, frozen=True):
    """An error of one document; `file_id` is its `source_id`, empty for a warning about the source as a whole."""

    file_id: str
    """The document's `source_id`; empty for a warning."""
    error: str
    """What is wrong, in words."""
    stage: str
    """The stage that failed."""
    outcome: str
    """`skipped` or `failed`: what happened to the document. `warning`: the sync did without something."""


class SyncStatus(LastJob, frozen=True, kw_only=True):
    """A sync. Counts, exact times and `error_message` are for operators and auditors; `errors` for operators.

    Users see the errors of their own uploads and pushed documents.
    """

    source: str
    """The source that was synced."""
    errors: list[SyncFault]
    """Documents that could not be indexed, as far as you may see them."""


@post(
    "/api/sync/{source:str}",
    operation_id="startSync",
    status_code=202,
    tags=["sync"],
    summary="Start a sync",
    guards=[NeedsRole(Role.OPERATOR)],
    opt=limited("write")
    | idempotent()
    | described(
        problems=("unknown-source", "sync-busy", "source-not-configured"),
        parameters={"source": "upload"},
        request={"full_sync": False},
        example={
            "job_id": "49431f12-4f0c-4c8e-a0a7-5c1d3f7f6f10",
            "status": "running",
            "started_at": "2026-11-22T00:08:47Z",
        },
    ),
)
async def start_sync(
    request: Request[Access, Any, Any],
    source: Annotated[
        str, PathParameter(description="`google_drive`, `slack`, `upload`, `push`, `files`, or another source.")
    ],
    source_services: NamedDependency[SourceServices],
    data: Annotated[SyncRequest | None, BodyKwarg(description="Default: all partitions, incrementally.")] = None,
) -> SyncResponse:
    """Start a sync of a source and return its job, or 409 with the id of the running job. For operators and administrators."""
    try:
        name = parse(source)
    except ValueError as error:
        raise ProblemError("unknown-source", str(error)) from None
    if not configured(await source_services.settings(), name):
        raise ProblemError("source-not-configured", spec_of(name).help)
    options = data or SyncRequest()
    if options.partitions is not None and options.folder_ids is not None:
        raise InvalidRequestError("folder_ids: is another name for partitions. Give one of them.")
    started = await source_services.launch(
        name,
        partitions=options.partitions or options.folder_ids,
        full=options.full_sync,
        requested_by=request.user.email,
        seconds=LAUNCH_SECONDS,
    )
    return SyncResponse(started.job_id, "running", started.started_at)


@get(
    "/api/sync/status/{job_id:str}",
    operation_id="syncStatus",
    tags=["sync"],
    summary="How a sync went",
    opt=limited("read")
    | described(
        problems=("not-found",),
        parameters={"job_id": "49431f12-4f0c-4c8e-a0a7-5c1d3f7f6f10"},
        example={
            "job_id": "49431f12-4f0c-4c8e-a0a7-5c1d3f7f6f10",
            "source": "files",
            "status": "success",
            "stage": "done",
            "started_at": "2026-11-22T00:08:47Z",
            "completed_at": "2026-11-22T00:09:05Z",
            "documents_synced": 53,
            "documents_skipped": 2,
            "documents_deleted": 0,
            "documents_failed": 0,
            "chunks_embedded": 127,
            "error_message": None,
            "errors": [
                {
                    "file_id": "company/legal/signed-lease.docx",
                    "error": "The file is damaged.",
                    "stage": "parsed",
                    "outcome": "skipped",
                }
            ],
        },
    ),
)
async def sync_status(
    request: Request[Access, Any, Any], job_id: JobId, source_services: NamedDependency[SourceServices]
) -> SyncStatus:
    """Return a sync's status. Counts are for operators and auditors; errors are for operators, those of uploads and pushed
    documents also for their owner."""
    missing = ProblemError("not-found", "There is no such sync.")
    job = parse_id(job_id, missing)
    statements, access = WebReads(source_services.http.database), request.user
    counts, details = access.has(Role.OPERATOR, Role.AUDITOR), sees_reasons(access)
    row = await statements.sync_job(job_id=job)
    if row is None:
        raise missing
    faults = await statements.sync_errors(job_id=job, owner=None if details else access.email)
    return SyncStatus(
        source=row.source,
        **job_facts(row, full=counts),
        errors=[SyncFault(fault.source_id, fault.reason, fault.stage, fault.outcome) for fault in faults],
    )
