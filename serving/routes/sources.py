"""`GET /api/sources`: the completeness ledger."""

from __future__ import annotations

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency

from resources.core.domain import Access
from resources.sources import configured, names
from serving.deps import Services
from serving.ledger import SourcesResponse, report


@get("/api/sources", operation_id="listSources", tags=["sync"], summary="State and completeness of the sources")
async def list_sources(request: Request[Access, Any, Any], services: NamedDependency[Services]) -> SourcesResponse:
    """Return each source's state and totals, of what the caller may read; administrators see everything, one root or channel at a time."""
    access, database = request.user, services.database
    admin = access.admin
    sources = await database.fetch("sources", {"sources": [name.value for name in names()]})
    mine = {"principals": sorted(access.principals), "fresh_since": services.fresh_since()}
    partitions = await database.fetch("source_partitions") if admin else await database.fetch("readable_totals", mine)
    skips = await database.fetch("source_skips") if admin else []
    ready = [name for name in names() if configured(services.settings, name)]
    return SourcesResponse(report(sources, partitions, skips, ready, admin=admin))
