"""`/healthz` and `/readyz`, which are public; the latter's details and `/metrics` require the metrics token.

The public responses contain no names, texts, addresses or counts, only whether the process answers and whether it can search.
"""

import asyncio
import hmac
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency
from msgspec import Meta
from prometheus_client import CONTENT_TYPE_LATEST

from resources.core.domain import Role
from resources.core.errors import ConcordanceError
from serving.http.errors import UnauthorizedError
from serving.http.openapi.describe import JSON, Answer, described
from serving.http.request_limits import limited
from serving.identity.authentication import access_from, credential_of
from serving.identity.scopes import KeyScope
from serving.search.service import SearchServices


class ServiceState(msgspec.Struct, frozen=True):
    """A dependency. Its `state` is `ok`, `down` or, of the index, `incomplete`."""

    state: Annotated[
        Literal["ok", "down", "incomplete"],
        Meta(title="DependencyState", description="`incomplete`: the index lacks passages."),
    ]
    """The state of the dependency."""
    detail: str | None = None
    """What is wrong and what to do; null if nothing is."""


class Health(msgspec.Struct, frozen=True):
    """The process is alive."""

    status: Literal["ok"]
    """The process responds."""


class Readiness(msgspec.Struct, frozen=True):
    """`status` is `ready`, `degraded` (results come with a warning) or `unavailable`; `services` is for operators and monitoring."""

    status: Annotated[
        Literal["ready", "degraded", "unavailable"],
        Meta(title="ReadinessStatus", description="`degraded`: responses carry a warning; shown to operators only."),
    ]
    """State of search."""
    services: dict[str, ServiceState] | msgspec.UnsetType = msgspec.UNSET
    """The state of each dependency; absent unless you are an operator."""


@get(
    "/healthz",
    operation_id="alive",
    tags=["health"],
    summary="Alive",
    exclude_from_auth=True,
    opt=limited("health") | described(example={"status": "ok"}),
)
async def healthz() -> Health:
    """Report that the process answers."""
    return Health("ok")


async def _qdrant(search: SearchServices) -> ServiceState:
    if not await search.searches.watch.answers():
        return ServiceState("down", "does not answer")
    points, _ = await search.http.index_size()
    if points is None:
        return ServiceState("down", "does not answer")
    if search.http.monitor.incomplete:
        return ServiceState("incomplete", "passages are missing: run `concordance reconcile --apply`")
    return ServiceState("ok", None if points else "nothing has been indexed yet")


async def _postgres(search: SearchServices) -> ServiceState:
    answers = await search.http.database.watch.answers()
    return ServiceState("ok") if answers else ServiceState("down", "does not answer")


@get(
    "/readyz",
    operation_id="ready",
    tags=["health"],
    summary="State of each dependency",
    exclude_from_auth=True,
    opt=limited("health")
    | described(
        answers={
            200: Answer("Searches can be answered", {JSON: Readiness}, example={"status": "ready"}),
            503: Answer("Searches cannot be answered", {JSON: Readiness}, example={"status": "unavailable"}),
        },
    ),
)
async def readyz(request: Request[Any, Any, Any], search: NamedDependency[SearchServices]) -> Response[Readiness]:
    """Return whether searches can be answered; 503 when neither Qdrant nor Postgres can, or the process is ending.

    For operators and with the metrics token, also return the state of each dependency, and `degraded` where one is down.
    """
    qdrant, postgres = await asyncio.gather(_qdrant(search), _postgres(search))
    embedder = (
        ServiceState("ok")
        if search.embedder.fault is None
        else ServiceState("down", f"keyword search only: {search.embedder.fault}")
    )
    faults = search.http.monitor.disk_faults
    disk = ServiceState("down", " ".join(map(str, faults))) if faults else ServiceState("ok")
    states = {"qdrant": qdrant, "postgres": postgres, "embedding": embedder, "disk": disk}
    if search.reranker.fault is not None:
        states["reranker"] = ServiceState("down", search.reranker.fault)
    down = [name for name, state in states.items() if state.state != "ok"]
    usable = (qdrant.state != "down" or postgres.state == "ok") and not search.http.draining
    code = 200 if usable else 503
    if not await _may_see_details(request, search):
        return Response(Readiness("ready" if usable else "unavailable"), status_code=code)
    status = "unavailable" if not usable else "degraded" if down else "ready"
    return Response(Readiness(status, states), status_code=code)


async def _may_see_details(request: Request[Any, Any, Any], search: SearchServices) -> bool:
    """Return True for the metrics token and for operators. An invalid credential counts as none."""
    credential = credential_of(request)
    if not credential:
        return False
    if hmac.compare_digest(credential.encode(), search.http.metrics_token.encode()):
        return True
    try:
        return (await access_from(search.identity, credential, request.client, KeyScope.READ)).has(Role.OPERATOR)
    except ConcordanceError:
        return False


@get(
    "/metrics",
    operation_id="metrics",
    tags=["health"],
    summary="Prometheus metrics",
    exclude_from_auth=True,
    opt=limited("health")
    | described(
        problems=("token-missing",),
        security=[{"metricsToken": []}],
        answers={
            200: Answer(
                "The metrics in Prometheus's text format",
                {"text/plain": {"type": "string"}},
                example="# HELP rag_search_latency_ms Time of a search\\n# TYPE rag_search_latency_ms histogram\\n",
            )
        },
    ),
)
async def metrics(request: Request[Any, Any, Any], search: NamedDependency[SearchServices]) -> Response[bytes]:
    """Return the Prometheus exposition. Requires the metrics token; metrics of a dependency that is down are left out."""
    if not hmac.compare_digest(credential_of(request).encode(), search.http.metrics_token.encode()):
        raise UnauthorizedError(
            "token-missing", "Metrics require their own token, which `concordance status --urls` prints."
        )
    monitor = search.http.monitor
    exposition = search.http.metrics.render(
        monitor.totals, monitor.points, monitor.size, monitor.gauges, monitor.dependencies
    )
    return Response(exposition, media_type=CONTENT_TYPE_LATEST)
