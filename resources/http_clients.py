"""HTTP clients: outward ones, which use the environment's proxies, and those for our own services, which never do.

No other module makes one, which a test checks. All trust the same certificate authorities.
"""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx

from resources.core.errors import ConfigurationError
from resources.proxies import proxy_for

if TYPE_CHECKING:
    import aiohttp


@cache
def tls() -> ssl.SSLContext:
    """Return the TLS context of all clients, cached per process: loading the certificate authorities takes 40 ms.

    SSL_CERT_FILE and SSL_CERT_DIR replace the authorities; otherwise these are those of the system and of certifi. Raises
    `ConfigurationError` if they cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        context = httpx.create_ssl_context()
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"must name a file of certificates in PEM format: {file} ({error}).", setting="SSL_CERT_FILE"
        ) from error
    if not file and not folder:
        context.load_default_certs()
    return context


def outward(*, timeout: float, follow_redirects: bool = False) -> httpx.Client:
    """Return a client for services on other machines. Thread-safe."""
    return httpx.Client(transport=_Outward(), trust_env=False, timeout=timeout, follow_redirects=follow_redirects)


def outward_async(*, timeout: float) -> httpx.AsyncClient:
    """Return an asynchronous client for services on other machines."""
    return httpx.AsyncClient(transport=_OutwardAsync(), trust_env=False, timeout=timeout)


def own(address: str = "", **options: Any) -> httpx.Client:
    """Return a client for our own services, which are never reached through a proxy. `options` are those of `httpx.Client`."""
    return httpx.Client(base_url=address, verify=tls(), trust_env=False, **options)


def own_async(address: str, **options: Any) -> httpx.AsyncClient:
    """Return an asynchronous client for our own services, like `own`."""
    return httpx.AsyncClient(base_url=address, verify=tls(), trust_env=False, **options)


def session(address: str, **options: Any) -> aiohttp.ClientSession:
    """Return a session of aiohttp whose requests all go to `address`. Its own `trust_env` also reads ~/.netrc at every request."""
    import aiohttp

    secure = address.startswith("https:")
    connector = aiohttp.TCPConnector(ssl=tls() if secure else True)
    return aiohttp.ClientSession(proxy=proxy_for(address), connector=connector, **options)


def options(address: str) -> dict[str, Any]:
    """Return the options of httpx for clients that a library makes, all of whose requests go to `address`."""
    return {"proxy": proxy_for(address), "verify": tls(), "trust_env": False}


class _Outward(httpx.BaseTransport):
    """Sends each request through the proxy for its URL. A client may call several hosts, of which NO_PROXY may exempt some."""

    def __init__(self) -> None:
        self._transports: dict[str | None, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        proxy = proxy_for(str(request.url))
        if proxy not in self._transports:
            self._transports.setdefault(proxy, httpx.HTTPTransport(verify=tls(), proxy=proxy, trust_env=False))
        return self._transports[proxy].handle_request(request)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()


class _OutwardAsync(httpx.AsyncBaseTransport):
    """Like `_Outward`."""

    def __init__(self) -> None:
        self._transports: dict[str | None, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = proxy_for(str(request.url))
        if proxy not in self._transports:
            self._transports[proxy] = httpx.AsyncHTTPTransport(verify=tls(), proxy=proxy, trust_env=False)
        return await self._transports[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()
