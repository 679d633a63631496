"""The middleware that checks a request's host name, origin and body type.

It keeps pages of other sites from writing with a user's cookie, and requests to foreign host names from reaching a route.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from litestar.types import ASGIApp, Receive, Scope, Send

from resources.core.guard import JSON, Rules, rules_for
from resources.settings import Settings
from serving.agents.connections import MCP_PATH
from serving.errors import ProblemError
from serving.opaque_ids import is_routed

if TYPE_CHECKING:
    from serving.deps import Services

FORM = "application/x-www-form-urlencoded"
BODY_TYPES: dict[str, str | None] = {
    "/api/upload": None,
    "/api/drive/notifications": None,
    "/sign-in/sample": FORM,
    "/sign-out": FORM,
    "/oauth/consent": FORM,
    "/oauth/token": FORM,
    "/oauth/revoke": FORM,
}
"""Content types other than JSON, by path. None: the route checks the type itself (uploads) or reads no body (notifications).

Routes that end with an opaque id check it themselves, too."""


SCIM = "/scim/"
"""Paths of SCIM, whose clients send application/scim+json or application/json, and never a cookie."""
WIDGETS = "/api/widget/"
"""Paths of the widgets, whose routes ignore cookies and check the page's origin against the widget's own."""


def serving_rules(settings: Settings) -> Rules:
    """Return the rules: host names of the settings, and writes only from pages of these hosts."""
    public = urlsplit(settings.base_url)
    names = [name.lower() for name in settings.allowed_hosts]
    return rules_for(
        settings.http_host,
        hosts=[(public.hostname or "").lower(), *names],
        origins=[f"{public.scheme}://{public.netloc}".lower(), *(f"https://{name}" for name in names)],
        own_origin=lambda path: path.rstrip("/") == MCP_PATH,  # as the Model Context Protocol demands
        body_type=lambda path: (
            None if path.startswith(SCIM) or is_routed(path) else BODY_TYPES.get(path.rstrip("/"), JSON)
        ),
        checks_origin=lambda path: path.startswith(WIDGETS),
    )


def guarded(app: ASGIApp) -> ASGIApp:
    """Return a middleware that responds to requests refused by the rules with a problem."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope["litestar_app"].state.services
        refusal = services.rules.refusal(scope)
        if refusal is not None:
            raise ProblemError(refusal.kind, refusal.detail)
        await app(scope, receive, send)

    return call
