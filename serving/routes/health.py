"""`/healthz` and `/readyz`, open to all; the details of the latter, and `/metrics`, ask for the metrics token.

What everybody is told has no names, texts, addresses or counts: whether the process answers, and whether it can answer a search.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST

from resources.core.errors import ConcordanceError
from serving.access.auth import access_from, credential_of
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
async def readyz(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[Readiness]:
    """Return whether searches can be answered; 503 when neither Qdrant nor Postgres can.

    With the metrics token, or as an administrator: the state of each dependency, and `degraded` where one is down.
    """
    qdrant, postgres = await asyncio.gather(_qdrant(services), _postgres(services))
    embedder = ServiceState("ok") if services.embedder.fault is None else ServiceState("down", "keyword search only")
    full = services.figures.disk
    disk = ServiceState("down", " ".join(map(str, full))) if full else ServiceState("ok")
    states = {"qdrant": qdrant, "postgres": postgres, "embedding": embedder, "disk": disk}
    down = [name for name, state in states.items() if state.state != "ok"]
    usable = qdrant.state != "down" or postgres.state == "ok"
    code = 200 if usable else 503
    if not await _may_know(request, services):
        return Response(Readiness("ready" if usable else "unavailable"), status_code=code)
    status = "unavailable" if not usable else "degraded" if down else "ready"
    return Response(Readiness(status, states), status_code=code)


async def _may_know(request: Request[Any, Any, Any], services: Services) -> bool:
    """Return True for the metrics token and for administrators. Any other credential is worth as much as none."""
    credential = credential_of(request)
    if not credential:
        return False
    if hmac.compare_digest(credential.encode(), services.metrics_token.encode()):
        return True
    try:
        return (await access_from(services, credential, request.client)).admin
    except ConcordanceError:
        return False


@get("/metrics", operation_id="metrics", tags=["health"], summary="Prometheus metrics", exclude_from_auth=True)
async def metrics(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[bytes]:
    """Return the Prometheus exposition to those who have its token; figures of a part that is down are left out."""
    if not hmac.compare_digest(credential_of(request).encode(), services.metrics_token.encode()):
        raise UnauthorizedError(
            "token-missing", "Figures ask for a token of their own: concordance status --urls prints it."
        )
    figures = services.figures
    exposition = services.metrics.render(figures.totals, figures.points, figures.size)
    return Response(exposition, media_type=CONTENT_TYPE_LATEST)
