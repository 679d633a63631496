"""The site that passkeys are for, where they are offered."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from resources.settings import Settings

_DEFAULT_PORTS = {"https": 443, "http": 80}


class RelyingParty(NamedTuple):
    """The site that passkeys are for, by its host name, and the origin of its pages."""

    host: str
    origin: str


def relying_party(settings: Settings) -> RelyingParty | None:
    """Return the site that passkeys are for; None where they are not offered.

    With a provider, it alone decides who has left. Browsers use passkeys on https and on `localhost` only, and not for addresses without
    a name.
    """
    if settings.oidc_providers is not None or settings.public_url is None:
        return None
    parts = urlsplit(settings.public_url.lower())
    host = parts.hostname or ""
    if _is_address(host) or not (parts.scheme == "https" or host == "localhost"):
        return None
    port = "" if parts.port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    return RelyingParty(host, f"{parts.scheme}://{host}{port}")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
