"""Limits on requests: rate and concurrency, per caller and in total, and the size of the body.

Each route declares one of `CLASSES`: `opt=limited("read")`. The limits are enforced after authentication, so a request counts for its
caller; on open routes it counts for its address.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, HTTPReceiveMessage, Receive, Scope, Send

from resources.core.errors import ConfigurationError
from resources.rates import DAY_SECONDS
from resources.servers.addresses import Origins
from resources.servers.shared import Shared
from resources.servers.tally import SharedTally
from serving.http.errors import ProblemError, rate_limited
from serving.http.metrics import Metrics
from serving.http.rate_limit import CallerLimits
from serving.http.sign_ins import UNKNOWN_FACTOR

KB, MB = 1024, 1024 * 1024


class RouteClass(NamedTuple):
    share: float | None
    """Requests a minute per caller, as a multiple of the search rate limit. None: the route enforces its own rate, as searches do."""
    per_caller: int
    """Concurrent requests of one caller."""
    in_total: int
    """Concurrent requests of all callers."""
    body_bytes: int | None
    """Largest body. None: the route enforces its own limit, as uploads do."""
    a_day: float | None = None
    """Requests a day per caller, as a multiple of the search rate limit, for routes that add rows to the database. None: no limit."""


CLASSES: Mapping[str, RouteClass] = {
    "search": RouteClass(None, per_caller=64, in_total=128, body_bytes=128 * KB),
    "answer": RouteClass(None, per_caller=16, in_total=64, body_bytes=MB, a_day=100),
    "read": RouteClass(10, per_caller=32, in_total=128, body_bytes=64 * KB),
    "widget": RouteClass(None, per_caller=4, in_total=32, body_bytes=64 * KB),
    "track": RouteClass(0.3, per_caller=4, in_total=32, body_bytes=64 * KB, a_day=20),
    "write": RouteClass(3, per_caller=32, in_total=128, body_bytes=256 * KB),
    "agent": RouteClass(10, per_caller=16, in_total=64, body_bytes=128 * KB, a_day=1000),
    "upload": RouteClass(3, per_caller=200, in_total=250, body_bytes=None, a_day=1000),
    "scim": RouteClass(20, per_caller=16, in_total=32, body_bytes=MB),
    "ingest": RouteClass(3, per_caller=8, in_total=16, body_bytes=8 * MB, a_day=100),
    "check": RouteClass(0.2, per_caller=2, in_total=4, body_bytes=64 * KB),
    "browse": RouteClass(1, per_caller=2, in_total=4, body_bytes=64 * KB),
    "open": RouteClass(10, per_caller=64, in_total=128, body_bytes=16 * KB),
    "sign-in": RouteClass(3, per_caller=16, in_total=64, body_bytes=16 * KB),
    "event": RouteClass(30, per_caller=64, in_total=128, body_bytes=MB),
    "health": RouteClass(10, per_caller=64, in_total=1000, body_bytes=KB),
}
"""A check of credentials, like browsing with them, waits for another service. An upload streams to disk and takes about a megabyte of
memory; an ingest is held in memory whole, so fewer may run at a time. Health checks have a class of their own because the supervisor
restarts a service that does not answer them. Slack delivers at most 30,000 events an hour, from few addresses.
Source: https://docs.slack.dev/apis/events-api/#rate-limiting"""

LIMITS = "limits"
"""Key of a route's class in its `opt`."""


def limited(name: str) -> dict[str, str]:
    """Return the `opt` of a route whose requests belong to this class. Raises `ConfigurationError` for an unknown class."""
    if name not in CLASSES:
        raise ConfigurationError(f"There is no class of limits {name!r}. There are: {', '.join(CLASSES)}.")
    return {LIMITS: name}


def check_limits(app: Litestar) -> None:
    """Raise `ConfigurationError` for a route that belongs to no class, except the responses to OPTIONS, which Litestar adds."""
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else [route.route_handler]:
            methods = handler.http_methods if isinstance(handler, HTTPRouteHandler) else frozenset({"websocket"})
            if LIMITS not in handler.opt and methods != {"OPTIONS"}:
                where = f"{' '.join(sorted(methods))} {route.path} ({handler})"
                raise ConfigurationError(f"{where} has no limits. Declare its class: opt=limited(…).")


PREFLIGHT = "open"
"""Class of requests with the method OPTIONS, to any route."""
UNLIMITED_FROM_UNKNOWN = {"health", "event"}
"""Classes without a rate for unknown addresses: the supervisor checks health locally, and signed events come through a proxy."""
OF_ONE_MACHINE = {"health"}
"""Classes whose rates hold for each machine alone: a check of health does not wait for Postgres."""


class RequestLimits:
    """The limits by class and caller. Clients of unknown address share one rate and have no limit per caller.

    Rates hold for all machines, numbers of concurrent requests for the processes of one.
    """

    def __init__(
        self, search_rate: int, origins: Origins, metrics: Metrics, shared: Shared, limits: CallerLimits | None = None
    ) -> None:
        self._search_rate = search_rate
        self._origins = origins
        self._metrics = metrics
        limits = limits or CallerLimits(shared)
        self._rates = {
            name: limits.limit(max(1, int(search_rate * kind.share)), name, local=name in OF_ONE_MACHINE)
            for name, kind in CLASSES.items()
            if kind.share is not None
        }
        self._unknown_rates = {
            name: limits.limit(max(1, int(search_rate * kind.share)) * UNKNOWN_FACTOR, f"{name}, unknown")
            for name, kind in CLASSES.items()
            if kind.share is not None and name not in UNLIMITED_FROM_UNKNOWN
        }
        self._daily = {
            name: limits.limit(int(search_rate * kind.a_day), f"{name}, a day", DAY_SECONDS)
            for name, kind in CLASSES.items()
            if kind.a_day is not None
        }
        self._per_minute = {name: int(search_rate * (kind.share or 0)) for name, kind in CLASSES.items()}
        self._active = SharedTally(shared, "requests", sum(kind.in_total for kind in CLASSES.values()) + len(CLASSES))

    async def enforce(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Count the request while it runs. Raises the problems `rate-limited`, `too-many-in-progress` and `too-large`."""
        preflight = scope["type"] == "http" and scope["method"] == "OPTIONS"
        name: str = PREFLIGHT if preflight else scope["route_handler"].opt[LIMITS]
        kind, caller = CLASSES[name], self._caller(scope)
        if kind.body_bytes is not None:
            receive = _bounded(scope, receive, kind.body_bytes)
        wanted = [(name, kind.in_total)] + ([(f"{name} {caller}", kind.per_caller)] if caller else [])
        entered = self._active.enter(*wanted)
        if entered.reached == 0:
            detail = f"{kind.in_total} requests of this kind ({name}) are in progress, the limit. Try again in 2 s."
            raise ProblemError("too-many-in-progress", detail, headers={"Retry-After": "2"})
        if entered.reached == 1:
            raise self._refusal(f"You have {kind.per_caller} requests of this kind ({name}) in progress, the limit.", 1)
        try:
            await self._check_rate(name, caller)
            await next_app(scope, receive, send)
        finally:
            self._active.leave(entered.slots)

    async def _check_rate(self, name: str, caller: str) -> None:
        rate = (self._rates if caller else self._unknown_rates).get(name)
        if rate is not None and (wait := await rate.take_shown(caller)) > 0:
            most, where = self._per_minute[name], ""
            if not caller:
                most, where = most * UNKNOWN_FACTOR, " from this machine, or through a proxy that names no client"
            raise self._refusal(f"At most {most} requests of this kind ({name}) a minute{where}.", wait)
        daily, share = self._daily.get(name), CLASSES[name].a_day
        if daily is not None and share is not None and (wait := await daily.take_shown(caller)) > 0:
            raise self._refusal(f"At most {int(self._search_rate * share)} requests of this kind ({name}) a day.", wait)

    def _caller(self, scope: Scope) -> str:
        """Return the caller's email, or on open routes the client's address, empty if it is unknown."""
        connection = cast("Mapping[str, Any]", scope)
        user, client = connection.get("user"), connection.get("client")
        if user is not None:
            return user.email
        return self._origins.of(client[0]) if client else ""

    def _refusal(self, detail: str, seconds: float) -> ProblemError:
        self._metrics.rate_limited.inc()
        return rate_limited(detail, seconds)


def _bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """Return a `receive` that raises `too-large` past `most` bytes. Raises it now if `Content-Length` is larger."""
    size = f"{most // KB} kB" if most < MB else f"{most // MB} MB"
    refusal = ProblemError("too-large", f"The body of the request is larger than {size}, the limit of this route.")
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > most:
        raise refusal
    seen = 0

    async def counted() -> HTTPReceiveMessage:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b"")) if message["type"] == "http.request" else 0
        if seen > most:
            raise refusal
        return message  # pyright: ignore[reportReturnType] (a request over HTTP)

    return counted  # pyright: ignore[reportReturnType]
