"""`GET /api/sources`: the completeness ledger."""

from __future__ import annotations

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency

from resources.domain import Access, SourceName
from resources.sources import configured
from serving.deps import Services
from serving.ledger import SourcesResponse, report


@get("/api/sources", operation_id="listSources", tags=["sync"], summary="State and completeness of the sources")
async def list_sources(request: Request[Access, Any, Any], services: NamedDependency[Services]) -> SourcesResponse:
    """Return each source's state and totals; roots and channels one by one are for administrators, since their names may be secret."""
    admin, database = request.user.admin, services.database
    sources = await database.fetch("sources", {"sources": [name.value for name in SourceName]})
    partitions = await database.fetch("source_partitions")
    skips = await database.fetch("source_skips") if admin else []
    ready = [name for name in SourceName if configured(services.settings, name)]
    return SourcesResponse(report(sources, partitions, skips, ready, admin=admin))
