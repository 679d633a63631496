"""The rules for a request's host name, origin and body type.

They keep pages of other sites from writing with a user's cookie, and requests to foreign host names from reaching a route.
"""

from urllib.parse import urlsplit

from resources.core.guard import JSON, Rules, rules_for
from resources.settings import Settings
from serving.opaque_ids import is_routed

FORM = "application/x-www-form-urlencoded"
BODY_TYPES: dict[str, str | None] = {
    "/api/upload": None,
    "/api/drive/notifications": None,
    "/sign-in/sample": FORM,
    "/sign-in/link": FORM,
    "/sign-out": FORM,
    "/oauth/consent": FORM,
    "/oauth/token": FORM,
    "/oauth/revoke": FORM,
}
"""Content types other than JSON, by path. None: the route checks the type itself (uploads) or reads no body (notifications).

Routes that end with an opaque id check it themselves, too."""


SCIM = "/scim/"
"""Paths of SCIM, whose clients send application/scim+json or application/json, and never a cookie."""
MCP_PATH = "/mcp"
"""Path for agents, which speak the Model Context Protocol."""
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
