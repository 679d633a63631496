"""`/healthz`, `/readyz` and `/metrics`: open to all, and therefore without names, texts or addresses."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST
from qdrant_client.http.models import VectorParams

from resources.errors import AbortSyncError, ConcordanceError
from resources.qdrant import ALIAS, DENSE, qdrant_errors
from serving.deps import Services
from serving.schemas import Health, Readiness, ServiceState

CHECK_SECONDS = 3.0
FLOAT_BYTES = 4


@get("/healthz", operation_id="alive", tags=["health"], summary="Alive", exclude_from_auth=True)
async def healthz() -> Health:
    """Say that the process answers."""
    return Health("ok")


async def _qdrant(services: Services) -> tuple[ServiceState, int | None, int | None]:
    try:
        with qdrant_errors("look at the index"):
            async with asyncio.timeout(CHECK_SECONDS):
                collection = await services.qdrant.get_collection(ALIAS)
    except AbortSyncError:
        return ServiceState("ok", "the index is empty so far"), 0, 0
    except (TimeoutError, ConcordanceError):
        return ServiceState("down", "does not answer"), None, None
    points = collection.points_count or 0
    vectors = collection.config.params.vectors
    dense: Any = vectors.get(DENSE) if isinstance(vectors, dict) else vectors
    size = points * dense.size * FLOAT_BYTES if isinstance(dense, VectorParams) else None
    return ServiceState("ok"), points, size


async def _postgres(services: Services) -> ServiceState:
    answers = await services.database.watch.answers()
    return ServiceState("ok") if answers else ServiceState("down", "does not answer")


@get("/readyz", operation_id="ready", tags=["health"], summary="State of each dependency", exclude_from_auth=True)
async def readyz(services: NamedDependency[Services]) -> Response[Readiness]:
    """Return each dependency's state; 503 when neither Qdrant nor Postgres can answer a search."""
    (qdrant, _, _), postgres = await asyncio.gather(_qdrant(services), _postgres(services))
    embedder = ServiceState("ok") if services.embedder.fault is None else ServiceState("down", "keyword search only")
    states = {"qdrant": qdrant, "postgres": postgres, "embedding": embedder}
    down = [name for name, state in states.items() if state.state != "ok"]
    usable = qdrant.state == "ok" or postgres.state == "ok"
    status = "unavailable" if not usable else "degraded" if down else "ready"
    return Response(Readiness(status, states), status_code=200 if usable else 503)


@get("/metrics", operation_id="metrics", tags=["health"], summary="Prometheus metrics", exclude_from_auth=True)
async def metrics(services: NamedDependency[Services]) -> Response[bytes]:
    """Return the Prometheus exposition; figures of a part that is down are left out."""
    _, points, size = await _qdrant(services)
    try:
        totals = await services.database.fetch("totals")
    except ConcordanceError:
        totals = []
    return Response(services.metrics.render(totals, points, size), media_type=CONTENT_TYPE_LATEST)
