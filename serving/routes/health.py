"""`/healthz` and `/readyz`, open to all and therefore without names, texts or addresses; `/metrics`, with a token of its own."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST

from serving.deps import Services
from serving.errors import UnauthorizedError
from serving.schemas import Health, Readiness, ServiceState


@get("/healthz", operation_id="alive", tags=["health"], summary="Alive", exclude_from_auth=True)
async def healthz() -> Health:
    """Say that the process answers."""
    return Health("ok")


async def _qdrant(services: Services) -> ServiceState:
    if not await services.searches.watch.answers():
        return ServiceState("down", "does not answer")
    points, _ = await services.index_size()
    if points is None:
        return ServiceState("down", "does not answer")
    if services.figures.incomplete:
        return ServiceState("incomplete", "holds less than the registry lists: run `concordance reconcile --apply`")
    return ServiceState("ok", None if points else "the index is empty so far")


async def _postgres(services: Services) -> ServiceState:
    answers = await services.database.watch.answers()
    return ServiceState("ok") if answers else ServiceState("down", "does not answer")


@get("/readyz", operation_id="ready", tags=["health"], summary="State of each dependency", exclude_from_auth=True)
async def readyz(services: NamedDependency[Services]) -> Response[Readiness]:
    """Return each dependency's state; 503 when neither Qdrant nor Postgres can answer a search."""
    qdrant, postgres = await asyncio.gather(_qdrant(services), _postgres(services))
    embedder = ServiceState("ok") if services.embedder.fault is None else ServiceState("down", "keyword search only")
    disk = ServiceState("ok") if services.figures.writable else ServiceState("down", "full or read-only")
    states = {"qdrant": qdrant, "postgres": postgres, "embedding": embedder, "disk": disk}
    down = [name for name, state in states.items() if state.state != "ok"]
    usable = qdrant.state != "down" or postgres.state == "ok"
    status = "unavailable" if not usable else "degraded" if down else "ready"
    return Response(Readiness(status, states), status_code=200 if usable else 503)


@get("/metrics", operation_id="metrics", tags=["health"], summary="Prometheus metrics", exclude_from_auth=True)
async def metrics(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[bytes]:
    """Return the Prometheus exposition to those who have its token; figures of a part that is down are left out."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(token.strip().encode(), services.metrics_token.encode())
    if scheme.lower() != "bearer" or not right:
        raise UnauthorizedError(
            "token-missing", "Figures ask for a token of their own: concordance status --urls prints it."
        )
    figures = services.figures
    exposition = services.metrics.render(figures.totals, figures.points, figures.size)
    return Response(exposition, media_type=CONTENT_TYPE_LATEST)
