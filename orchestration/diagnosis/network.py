"""Check the way to other machines and back: proxies and certificate authorities of the environment, and the reverse proxy."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from resources import http_clients, proxies
from resources.core.checks import Check, refused, wrong
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.core.guard import LOOPBACK
from resources.core.json import object_of
from resources.settings import Settings
from serving.identity.tokens import mint

SECONDS = 5.0


def values() -> Iterator[Check]:
    """Yield the faults of variables that would make every outward request fail."""
    for variable, proxy in proxies.named().items():
        try:
            proxies.checked(variable, proxy)
        except ConfigurationError as error:
            yield refused("network", variable, error, stops=True)
    try:
        http_clients.tls()
    except ConfigurationError as error:
        yield refused("network", "SSL_CERT_FILE", error, stops=True)


def reachable(seconds: float) -> Iterator[Check]:
    """Yield a fault for each proxy that accepts no connection."""
    for variable, proxy in proxies.named().items():
        parts = urlsplit(proxies.checked(variable, proxy))
        place = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
        try:
            socket.create_connection(place, seconds).close()
        except OSError as error:
            what = f"nothing accepts connections at {place[0]}:{place[1]} ({error})"
            yield wrong("network", variable, what, "Correct the address, or list hosts to call directly in NO_PROXY.")


def spoofing(settings: Settings) -> Check | None:
    """Return a fault if the reverse proxy at PUBLIC_URL passes on the X-Forwarded-For of a client, who so chooses an address.

    The token that is sent reads nothing but public documents, in case the URL leads elsewhere. Raises `httpx.HTTPError` or
    `ServiceUnavailableError` if that is not answered.
    """
    pretended = f"192.0.2.{secrets.randbelow(254) + 1}"  # reserved for documentation: RFC 5737
    token = mint(settings, "doctor@concordance.invalid", expires=timedelta(minutes=1))
    headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": pretended}
    with http_clients.own(settings.base_url, timeout=SECONDS) as http:
        answer = http.get("/api/me", headers=headers)
    try:
        seen = object_of(answer.raise_for_status().json())
    except ValueError:
        seen = {}
    if "forwarded" not in seen:
        raise ServiceUnavailableError("it answered as something else than Concordance")
    if (seen.get("client"), seen["forwarded"]) != (pretended, 1):
        return None
    return wrong(
        "reverse proxy",
        "CONCORDANCE_PUBLIC_URL",
        f"the proxy at {settings.base_url} passes on the X-Forwarded-For that a client sends, so clients choose the address that "
        "limits count and the audit log shows",
        "Let it set the header to the client's address (docs/operations.md#behind-a-reverse-proxy).",
    )


def is_behind_proxy(settings: Settings) -> bool:
    """Return True if people reach the HTTP interface at another address than that of its own listener."""
    parts = urlsplit(settings.base_url)
    return parts.hostname not in LOOPBACK and (parts.scheme, parts.port) != ("http", settings.http_port)
