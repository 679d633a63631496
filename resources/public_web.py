"""Documents of the public web whose addresses strangers choose: never from this machine or its networks, small, soon, without redirects.

The name is resolved once and the connection goes to that address, so that a name cannot point elsewhere in between (DNS rebinding).
Through a proxy, it goes to the name, and where that leads is the proxy's to decide, too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx

from resources import http_clients
from resources.core.errors import OverloadedError, TemporaryError
from resources.proxies import proxy_for

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name."""
HTTPS_PORT = 443
OK = 200
LOOKUPS = 32
"""Names that are looked up at a time. A name server that does not answer holds a thread for many seconds, which nothing can end."""
UNRESOLVED_SECONDS = 30.0
MAX_UNRESOLVED = 500
"""How long, and for how many names, it is remembered that they did not resolve."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 ones, private ones too. Source: RFC 6052 2.1."""


class PublicDocument(NamedTuple):
    """A document with status 200 and the type of JSON."""

    content: bytes
    cache_control: str


class PublicWeb:
    """Reads JSON documents from public addresses at the standard port of https."""

    def __init__(
        self,
        *,
        most_bytes: int,
        seconds: float,
        resolve: Resolve | None = None,
        client: Callable[..., httpx.AsyncClient] = http_clients.outward_async,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_bytes` and `seconds` bound a whole response. `resolve`, `client` and `clock` are other ones in tests."""
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._resolve = resolve or _Lookups()
        self._client = client
        self._clock = clock
        self._unresolved: OrderedDict[str, float] = OrderedDict()

    async def read(self, url: str) -> PublicDocument:
        """Return the JSON document at an https URL.

        Raises `TemporaryError` if it cannot be reached, is not a small JSON document or has an address that is not public, and
        `OverloadedError` while too many names are looked up. The text is for the log: it tells of names in our networks.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._read(httpx.URL(url))
        except TimeoutError as error:
            raise TemporaryError(f"{url} did not answer within {self._seconds:g} s.") from error
        except (httpx.InvalidURL, UnicodeError) as error:  # a host name with a label that is empty or too long
            raise TemporaryError(f"{url} is not a URL: {error}") from error
        except httpx.HTTPError as error:
            raise TemporaryError(f"{url} cannot be read: {error}") from error
        except OSError as error:
            raise TemporaryError(f"The name in {url} cannot be resolved: {error}") from error

    async def _read(self, url: httpx.URL) -> PublicDocument:
        if url.scheme != "https" or url.port not in {None, HTTPS_PORT}:
            raise TemporaryError(f"{url} is not an https URL at port {HTTPS_PORT}.")
        addresses = await self._addresses(url.host)
        if not addresses or not all(map(is_public, addresses)):
            raise TemporaryError(f"{url} is not at a public address: {', '.join(addresses)}.")
        request = httpx.Request(
            "GET",
            url if proxy_for(str(url)) else url.copy_with(host=addresses[0]),
            headers={"Host": url.netloc.decode(), "Accept": "application/json", "Accept-Encoding": "identity"},
            extensions={"sni_hostname": url.host, "timeout": httpx.Timeout(self._seconds).as_dict()},
        )
        async with self._client(timeout=self._seconds) as client:
            response = await client.send(request, stream=True)
            try:
                return await self._small_json(url, response)
            finally:
                await response.aclose()

    async def _addresses(self, host: str) -> Sequence[str]:
        if self._unresolved.get(host, 0.0) > self._clock():
            raise TemporaryError(f"{host} could not be resolved a moment ago.")
        try:
            return await self._resolve(host)
        except (OSError, asyncio.CancelledError):  # the latter by the time limit
            self._unresolved[host] = self._clock() + UNRESOLVED_SECONDS
            self._unresolved.move_to_end(host)
            if len(self._unresolved) > MAX_UNRESOLVED:
                self._unresolved.popitem(last=False)
            raise

    async def _small_json(self, url: httpx.URL, response: httpx.Response) -> PublicDocument:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != OK:
            raise TemporaryError(f"{url} answered {response.status_code}.")
        if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
            raise TemporaryError(f"{url} is not JSON but {kind!r}.")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TemporaryError(f"{url} is compressed, although that was not asked for.")
        content = b""
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > self._most_bytes:
                raise TemporaryError(f"{url} is larger than {self._most_bytes:,} bytes.")
        return PublicDocument(content, response.headers.get("cache-control", ""))


def is_public(address: str) -> bool:
    """Return True for an address that anyone can reach: none of this machine, private networks or special use. Source: RFC 6890."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # with a zone, of one link
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or _stands_for_another(ip))


def _stands_for_another(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(ip, ipaddress.IPv4Address):
        return False
    return bool(ip.ipv4_mapped or ip.sixtofour or ip.teredo or ip.is_site_local or ip in _TRANSLATED)


class _Lookups:
    """Resolves names in threads of its own: in those of the event loop, a few names that hang would keep all other work waiting."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="public-web")
        self._free = threading.Semaphore(LOOKUPS)

    async def __call__(self, host: str) -> list[str]:
        if not self._free.acquire(blocking=False):
            raise OverloadedError(f"{host} is not looked up: {LOOKUPS} other names have not been resolved yet.")
        lookup = self._threads.submit(socket.getaddrinfo, host, HTTPS_PORT, type=socket.SOCK_STREAM)
        lookup.add_done_callback(lambda _: self._free.release())
        return list(dict.fromkeys(str(one[4][0]) for one in await asyncio.wrap_future(lookup)))
