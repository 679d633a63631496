"""`GET /api/sources`: the completeness ledger."""

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency

from resources.core.domain import Access
from resources.sources import configured, names
from serving.deps import Services
from serving.ledger import SourcesResponse, report


@get("/api/sources", operation_id="listSources", tags=["sync"], summary="State and completeness of the sources")
async def list_sources(request: Request[Access, Any, Any], services: NamedDependency[Services]) -> SourcesResponse:
    """Return each source's state and totals of documents that the caller may read. Administrators see all, by root or channel."""
    access, database = request.user, services.database
    sources = await database.fetch("sources", {"sources": [name.value for name in names()]})
    if access.admin:
        partitions, skips = await database.fetch("source_partitions"), await database.fetch("source_skips")
    else:
        partitions, skips = await database.fetch("readable_totals", services.readable_by(access)), []
    ready = [name for name in names() if configured(services.settings, name)]
    return SourcesResponse(report(sources, partitions, skips, ready, admin=access.admin))
