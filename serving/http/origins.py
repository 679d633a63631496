"""The rules for a request's host name, origin and body type, and how a route declares what else it accepts.

The rules keep pages of other sites from writing with a user's cookie, and requests to foreign host names from reaching a route.
"""

from urllib.parse import urlsplit

from resources.core.guard import JSON, Accepted, Rules, rules_for
from resources.settings import Settings

FORM = "application/x-www-form-urlencoded"
ACCEPTED = "accepted"
"""Key in a route's `opt` of what it accepts, if that is not JSON from pages of this installation or with a token."""


def accepts(
    body_type: str | None = JSON, *, own_origin: bool = False, checks_origin: bool = False
) -> dict[str, Accepted]:
    """Return the `opt` of a route that accepts these changes: see `Accepted`."""
    return {ACCEPTED: Accepted(body_type, own_origin, checks_origin)}


def serving_rules(settings: Settings) -> Rules:
    """Return the rules: host names of the settings, and writes only from pages of these hosts."""
    public = urlsplit(settings.base_url)
    names = [name.lower() for name in settings.allowed_hosts]
    internal = urlsplit(settings.http_internal_url or "").hostname or ""
    return rules_for(
        settings.http_host,
        hosts=[(public.hostname or "").lower(), internal, *names],
        origins=[f"{public.scheme}://{public.netloc}".lower(), *(f"https://{name}" for name in names)],
    )
