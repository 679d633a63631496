"""`POST /api/sync/{source}` and `GET /api/sync/status/{job_id}`."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import BodyKwarg, FromPath
from msgspec import Meta

from resources.core.domain import Access
from resources.sources import configured, parse, spec_of
from serving.access.auth import require_admin
from serving.deps import Services
from serving.errors import ProblemError
from serving.ledger import LastJob, job_facts
from serving.references import parse_id
from serving.schemas import Name
from sql.web import WebReads

LAUNCH_SECONDS = 25.0
"""Less than the launch's own timeout for Dagster, so that a hang is noticed here."""


class SyncRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Partitions to sync (default: all); `folder_ids` is another name for `partitions`."""

    partitions: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    folder_ids: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    full_sync: bool = False


class SyncResponse(msgspec.Struct, frozen=True):
    """The sync that was started."""

    job_id: str
    status: str
    started_at: datetime


class SyncFault(msgspec.Struct, frozen=True):
    """An error of one document; `file_id` is its `source_id`."""

    file_id: str
    error: str
    stage: str
    outcome: str


class SyncStatus(LastJob, frozen=True, kw_only=True):
    """A sync. Counts, exact times and `error_message` are for administrators; `errors` of uploads are for their owner too."""

    source: str
    errors: list[SyncFault]


@post("/api/sync/{source:str}", operation_id="startSync", status_code=202, tags=["sync"], summary="Start a sync")
async def start_sync(
    request: Request[Access, Any, Any],
    source: FromPath[str],
    services: NamedDependency[Services],
    data: Annotated[SyncRequest | None, BodyKwarg(description="Default: all partitions, incrementally.")] = None,
) -> SyncResponse:
    """Start a sync of a source and return its job, or 409 with the id of the running job. Administrators only."""
    require_admin(request.user)
    try:
        name = parse(source)
    except ValueError as error:
        raise ProblemError("unknown-source", str(error)) from None
    if not configured(services.settings, name):
        raise ProblemError("source-not-configured", spec_of(name).help)
    options = data or SyncRequest()
    partitions = options.partitions if options.partitions is not None else options.folder_ids
    started = await services.launch(
        name,
        partitions=partitions,
        full=options.full_sync,
        requested_by=request.user.email,
        seconds=LAUNCH_SECONDS,
    )
    return SyncResponse(started.job_id, "running", started.started_at)


@get("/api/sync/status/{job_id:str}", operation_id="syncStatus", tags=["sync"], summary="How a sync went")
async def sync_status(
    request: Request[Access, Any, Any], job_id: FromPath[str], services: NamedDependency[Services]
) -> SyncStatus:
    """Return a sync's status. Counts are for administrators; errors of uploads are for their owner too."""
    missing = ProblemError("not-found", "There is no such sync.")
    job = parse_id(job_id, missing)
    statements, admin = WebReads(services.database), request.user.admin
    row = await statements.sync_job(job_id=job)
    if row is None:
        raise missing
    faults = await statements.sync_errors(job_id=job, owner=None if admin else request.user.email)
    return SyncStatus(
        source=row.source,
        **job_facts(row, admin=admin),
        errors=[SyncFault(fault.source_id, fault.reason, fault.stage, fault.outcome) for fault in faults],
    )
