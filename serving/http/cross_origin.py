"""Cross-origin requests (CORS): routes that pages of other origins may call, never with a cookie, and of widgets only their own."""

from collections.abc import Awaitable, Callable, Collection

from litestar.types import Message, Scope

from resources.settings import Settings

WIDGETS = "/api/widget/"
"""Paths of the widgets, whose routes ignore cookies and check the page's origin against the widget's own."""
_ALLOWED = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, x-api-key, content-type, idempotency-key"),
    (b"access-control-max-age", b"600"),
)
_ALLOWED_TO_WIDGETS = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"600"),
)
_EXPOSED = (
    b"access-control-expose-headers",
    b"Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate, Content-Disposition, Idempotent-Replayed",
)


def cross_origin(settings: Settings) -> Callable[[Message, Scope], Awaitable[None]]:
    """Return what adds the headers to every response, errors and preflights included. Other origins get none."""
    widgets = {one.name: one.origins for one in settings.widgets}

    def origins_of(path: str) -> Collection[str]:
        if path.startswith(WIDGETS):
            return widgets.get(path.removeprefix(WIDGETS).partition("/")[0], ())
        return settings.cors_origins

    async def add(message: Message, scope: Scope) -> None:
        if scope["type"] != "http" or message["type"] != "http.response.start":
            return
        if not (origins := origins_of(scope["path"])):
            return
        headers: list[tuple[bytes, bytes]] = [*message.get("headers", []), (b"vary", b"Origin")]
        open_to_all = any(
            name.lower() == b"access-control-allow-origin" for name, _ in headers
        )  # the widget's script and refusals
        origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
        if origin.decode("latin-1") in origins and not open_to_all:
            headers += [(b"access-control-allow-origin", origin), _EXPOSED]
            if scope["method"] == "OPTIONS":
                headers += _ALLOWED_TO_WIDGETS if scope["path"].startswith(WIDGETS) else _ALLOWED
        message["headers"] = headers

    return add
