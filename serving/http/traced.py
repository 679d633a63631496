"""The span of a request, below the caller's if the request has a `traceparent`, and the header by which the caller finds it."""

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from resources import tracing

RESPONSE = "traceresponse"
"""Source: https://w3c.github.io/trace-context/#traceresponse-header"""


async def traced(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Handle a request in a span that is named for its route; other connections are passed on."""
    if scope["type"] != "http" or not tracing.on():
        await app(scope, receive, send)
        return
    status = 500
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

    async def respond(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            own = [(RESPONSE.encode(), value.encode()) for value in tracing.carrier().values()]
            message["headers"] = [*message.get("headers", []), *own]
        await send(message)

    with tracing.root("request", given) as span:
        try:
            await app(scope, receive, respond)
        finally:
            span.response(scope["method"], scope.get("path_template", ""), status)
