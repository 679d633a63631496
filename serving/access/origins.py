"""The host names, origins and body types that the HTTP interface accepts: settings enter, a middleware leaves.

Pages of other sites may not change anything with the cookie of the document page, and no foreign host name reaches a route.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from litestar.types import ASGIApp, Receive, Scope, Send

from resources.core.guard import JSON, Rules, rules_for
from resources.settings import Settings
from serving.errors import ProblemError

FORM = "application/x-www-form-urlencoded"
BODY_TYPES: dict[str, str | None] = {
    "/api/upload": None,
    "/api/drive/notifications": None,
    "/api/session": FORM,
    "/api/session/close": FORM,
}
"""Bodies that are not JSON, by path; the route of uploads looks at the type itself, that of notifications at no body."""


def serving_rules(settings: Settings) -> Rules:
    """Return what the HTTP interface accepts: the names of its settings, and changes from pages under them."""
    public = urlsplit(settings.base_url)
    names = [name.lower() for name in settings.allowed_hosts]
    return rules_for(
        settings.http_host,
        hosts=[(public.hostname or "").lower(), *names],
        origins=[f"{public.scheme}://{public.netloc}".lower(), *(f"https://{name}" for name in names)],
        body_type=lambda path: BODY_TYPES.get(path.rstrip("/"), JSON),
    )


def guarded_by(rules: Rules) -> Callable[[ASGIApp], ASGIApp]:
    """Return a middleware that answers what `rules` refuse with a problem."""

    def guarded(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            refusal = rules.refusal(scope)
            if refusal is not None:
                raise ProblemError(refusal.kind, refusal.detail)
            await app(scope, receive, send)

        return call

    return guarded
