"""`GET /api/sources`: the completeness ledger."""

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency

from resources.core.domain import Access, Role
from resources.sources import configured, names
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import sees_reasons
from serving.sources.ledger import SourceReport, SourcesResponse, full_report, report
from serving.sources.service import SourceServices
from sql.serving import WebReads


@get(
    "/api/sources",
    operation_id="listSources",
    tags=["sync"],
    summary="State and completeness of the sources",
    opt=limited("read")
    | described(
        example={
            "sources": [
                {
                    "source": "slack",
                    "label": "Slack",
                    "configured": True,
                    "paused": None,
                    "last_sync_at": "2026-11-22T00:10:00Z",
                    "last_job": None,
                    "totals": {"live": 812, "skipped": 4, "failed": 0, "lost_access": 0, "held_deletions": 0},
                }
            ]
        }
    ),
)
async def list_sources(
    request: Request[Access, Any, Any], source_services: NamedDependency[SourceServices]
) -> SourcesResponse:
    """Return each source's state and totals of documents that the caller may read. Operators and auditors see all, by root or channel."""
    return SourcesResponse(await reports(source_services, request.user))


async def reports(source_services: SourceServices, access: Access) -> list[SourceReport]:
    """Return a report for each source, as the caller may see it."""
    statements = WebReads(source_services.http.database)
    rows = await statements.sources(sources=[name.value for name in names()])
    settings = await source_services.settings()
    ready = [name for name in names() if configured(settings, name)]
    if not access.has(Role.OPERATOR, Role.AUDITOR):
        totals = await statements.readable_totals(**source_services.http.readable_by(access))
        return report(rows, totals, ready)
    partitions, skips = await statements.source_partitions(), await statements.source_skips()
    return full_report(rows, partitions, skips, await statements.source_notes(), ready, texts=sees_reasons(access))
