"""Check how this machine reaches others: the proxies and the certificate authorities that its environment names."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from orchestration.fault import Fault
from resources import http_clients, proxies
from resources.core.errors import ConfigurationError


def values() -> Iterator[Fault]:
    """Yield the faults of variables that would make every outward request fail."""
    for variable, proxy in proxies.named().items():
        try:
            proxies.checked(variable, proxy)
        except ConfigurationError as error:
            yield _fault(variable, error)
    try:
        http_clients.tls()
    except ConfigurationError as error:
        yield _fault("SSL_CERT_FILE", error)


def reachable(seconds: float) -> Iterator[Fault]:
    """Yield a fault for each proxy that accepts no connection."""
    for variable, proxy in proxies.named().items():
        parts = urlsplit(proxies.checked(variable, proxy))
        place = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
        try:
            socket.create_connection(place, seconds).close()
        except OSError as error:
            what = f"nothing accepts connections at {place[0]}:{place[1]} ({error})"
            yield Fault("network", variable, what, "Correct the address, or list hosts to call directly in NO_PROXY.")


def _fault(variable: str, error: ConfigurationError) -> Fault:
    what, _, remedy = str(error).removeprefix(f"{variable} ").partition(". ")
    return Fault("network", variable, what.removesuffix("."), remedy, stops=True)
