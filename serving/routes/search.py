"""`POST /api/rag/search`."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from resources.core.domain import Access
from serving.deps import Services
from serving.errors import rate_limited
from serving.schemas import SearchRequest, SearchResponse


def enforce_rate_limit(services: Services, access: Access) -> None:
    """Count a search against the caller's rate limit. Raises the problem `rate-limited`."""
    wait = services.limit.take(access.email)
    if wait > 0:
        services.metrics.rate_limited.inc()
        raise rate_limited(f"At most {services.settings.search_rate_limit} searches a minute.", wait)


@post("/api/rag/search", operation_id="search", status_code=200, tags=["search"], summary="Search passages")
async def search(
    request: Request[Access, Any, Any], data: JSONBody[SearchRequest], services: NamedDependency[Services]
) -> SearchResponse:
    """Find passages that the caller may read, best first, each with its source and location."""
    enforce_rate_limit(services, request.user)
    return await services.retriever.search(data, request.user)
