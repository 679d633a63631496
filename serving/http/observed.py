"""Count each request by route and status, and trace it: below the caller's span if the request has a `traceparent`."""

from collections.abc import Mapping
from typing import Any, cast

from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import Counter

from resources import tracing

RESPONSE = "traceresponse"
"""Source: https://w3c.github.io/trace-context/#traceresponse-header"""
UNKNOWN = "unknown"
"""Route of a path that there is not."""
CLOSED, FAILED = 499, 500
"""Statuses of requests without a response: whose client has gone, as nginx counts them, or whose error nothing handled."""


async def observed(app: ASGIApp, requests: Counter, scope: Scope, receive: Receive, send: Send) -> None:
    """Handle a request, in a span that is named for its route if traces are on."""
    status = CLOSED
    headers = scope["headers"] if tracing.on() else ()
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}

    async def respond(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            if own := [(RESPONSE.encode(), value.encode()) for value in tracing.carrier().values()]:
                message["headers"] = [*message.get("headers", []), *own]
        await send(message)

    with tracing.root("request", given) as span:
        try:
            await app(scope, receive, respond)
        except Exception:
            status = FAILED if status == CLOSED else status
            raise
        finally:
            about = cast("Mapping[str, Any]", scope)
            route = about.get("path_template") or UNKNOWN
            span.response(about["method"], route, status)
            requests.labels(route, str(status)).inc()
