"""Limits on requests: how many a minute and how many at the same time, per person and in total, and how large a body may be.

Every route belongs to one of `CLASSES` by its operation id. The middleware runs after sign-in, so a request counts for its caller;
on open routes it counts for its address. A refused request gets a problem that names the limit and says when to try again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPReceiveMessage, Receive, Scope, Send

from resources.connections import Origins
from serving.access.limits import RateLimit
from serving.access.sign_ins import UNNAMED
from serving.errors import ProblemError
from serving.metrics import Metrics

KB, MB = 1024, 1024 * 1024


class RouteClass(NamedTuple):
    """Limits of one kind of route."""

    share: float | None
    """Requests a minute for one person, as a multiple of the search rate limit. None: the route counts by itself, as searches do."""
    at_once: int
    """Requests of one person that may be under way at the same time."""
    in_all: int
    """Requests of everybody that may be under way at the same time."""
    body_bytes: int | None
    """Largest body. None: the route limits its body by itself, as uploads do."""


CLASSES: Mapping[str, RouteClass] = {
    "search": RouteClass(None, at_once=64, in_all=128, body_bytes=128 * KB),
    "answer": RouteClass(None, at_once=16, in_all=64, body_bytes=MB),
    "read": RouteClass(10, at_once=32, in_all=128, body_bytes=64 * KB),
    "write": RouteClass(3, at_once=32, in_all=128, body_bytes=256 * KB),
    "upload": RouteClass(3, at_once=200, in_all=250, body_bytes=None),
    "ingest": RouteClass(3, at_once=8, in_all=16, body_bytes=8 * MB),
    "open": RouteClass(10, at_once=64, in_all=128, body_bytes=16 * KB),
    "sign-in": RouteClass(3, at_once=16, in_all=64, body_bytes=16 * KB),
    "event": RouteClass(30, at_once=64, in_all=128, body_bytes=MB),
    "health": RouteClass(10, at_once=64, in_all=1000, body_bytes=KB),
}
"""An upload streams to disk and takes about a megabyte of memory; an ingest is held whole, so fewer may be under way. Health checks have
room of their own: the supervisor restarts a service that does not answer them. Slack delivers at most
30,000 events an hour, from few addresses. Source: https://docs.slack.dev/apis/events-api/#rate-limiting"""

CLASS_OF: Mapping[str, str] = {
    **dict.fromkeys(("search", "searchFiles", "ragSearch", "why"), "search"),
    **dict.fromkeys(("ask", "chat", "askBook", "askBookSelection"), "answer"),
    **dict.fromkeys(
        ("getAnswer", "getDocument", "formatCitations", "ingestStatus", "syncStatus", "listSources"), "read"
    ),
    **dict.fromkeys(("feedback", "trackConversation", "deleteDocument", "startSync", "connectGoogle"), "write"),
    **dict.fromkeys(("alive", "ready", "metrics"), "health"),
    **dict.fromkeys(("openSession", "closeSession", "googleCallback"), "sign-in"),
    **dict.fromkeys(("viewDocument", "docsFile", "pageStyle"), "open"),
    **dict.fromkeys(("slackEvents", "driveNotifications"), "event"),
    "upload": "upload",
    "ingest": "ingest",
}


NEVER_SHARED = {"health", "event"}
"""The supervisor asks for health from this machine; Slack's events come through a proxy, signed."""


class Turns(ASGIMiddleware):
    """Counts requests by class and caller. A trusted proxy that names no client stands for many people: only the totals count then."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, search_rate: int, origins: Origins, metrics: Metrics) -> None:
        self._origins = origins
        self._metrics = metrics
        self._rates = {
            name: RateLimit(max(1, int(search_rate * kind.share)))
            for name, kind in CLASSES.items()
            if kind.share is not None
        }
        self._unnamed = {
            name: RateLimit(max(1, int(search_rate * kind.share)) * UNNAMED)
            for name, kind in CLASSES.items()
            if kind.share is not None and name not in NEVER_SHARED
        }
        self._per_minute = {name: int(search_rate * (kind.share or 0)) for name, kind in CLASSES.items()}
        self._under_way: Counter[tuple[str, str]] = Counter()
        self._in_all: Counter[str] = Counter()

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Count the request for as long as it lasts. Raises the problems `rate-limited`, `overloaded` and `too-large`."""
        name = CLASS_OF.get(getattr(scope["route_handler"], "operation_id", None) or "", "open")
        kind, who = CLASSES[name], self._caller(scope)
        if kind.body_bytes is not None:
            receive = _bounded(scope, receive, kind.body_bytes)
        if self._in_all[name] >= kind.in_all:
            detail = (
                f"{kind.in_all} requests of this kind ({name}) are under way, which is the limit. Try again in 2 s."
            )
            raise ProblemError("overloaded", detail, headers={"Retry-After": "2"})
        if who:
            self._count(name, kind, who)
        elif name in self._unnamed and (wait := self._unnamed[name].take(who)) > 0:
            seconds = max(1, math.ceil(wait))
            most = self._per_minute[name] * UNNAMED
            detail = (
                f"At most {most} requests of this kind ({name}) a minute from this machine, or through a proxy that names no client."
                f" Try again in {seconds} s."
            )
            raise self._refusal(detail, seconds)
        self._in_all[name] += 1
        self._under_way[name, who] += 1
        try:
            await next_app(scope, receive, send)
        finally:
            self._in_all[name] -= 1
            self._under_way[name, who] -= 1
            if not self._under_way[name, who]:
                del self._under_way[name, who]

    def _count(self, name: str, kind: RouteClass, who: str) -> None:
        if self._under_way[name, who] >= kind.at_once:
            detail = f"You have {kind.at_once} requests of this kind ({name}) under way, which is the limit. Wait for one to end."
            raise self._refusal(detail, 1)
        wait = self._rates[name].take(who) if name in self._rates else 0.0
        if wait > 0:
            seconds = max(1, math.ceil(wait))
            detail = (
                f"At most {self._per_minute[name]} requests of this kind ({name}) a minute. Try again in {seconds} s."
            )
            raise self._refusal(detail, seconds)

    def _caller(self, scope: Scope) -> str:
        """Return who the request counts for: a person's email, an address, or an empty text for a proxy that names no client."""
        user, client = scope.get("user"), scope.get("client")
        if user is not None:
            return user.email
        return self._origins.of(client[0]) if client else ""

    def _refusal(self, detail: str, seconds: int) -> ProblemError:
        self._metrics.rate_limited.inc()
        return ProblemError("rate-limited", detail, headers={"Retry-After": str(seconds)})


def _bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """Return a `receive` that passes on at most `most` bytes. Raises the problem `too-large`, at once if the announced length is larger."""
    size = f"{most // KB} kB" if most < MB else f"{most // MB} MB"
    refusal = ProblemError("too-large", f"The body of the request is larger than the {size} that this address takes.")
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > most:
        raise refusal
    seen = 0

    async def take() -> HTTPReceiveMessage:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b"")) if message["type"] == "http.request" else 0
        if seen > most:
            raise refusal
        return message  # pyright: ignore[reportReturnType] (a request over HTTP)

    return take  # pyright: ignore[reportReturnType]
