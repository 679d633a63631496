"""Protection of the listeners against requests that a web page makes a browser send (CSRF and DNS rebinding).

A page on any site can make a visitor's browser send requests to loopback addresses: under the page's own host name, which
now resolves to 127.0.0.1 (DNS rebinding, which also lets it read the responses), or as one of the simple form types that need
no CORS preflight. So every listener checks the host name it is addressed by, refuses changes from a foreign origin, and
accepts JSON only with the matching content type.

`Guard` wraps whole applications; listeners with their own error format call `Rules.refusal` themselves.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 # compared, not bound
JSON = "application/json"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]@/]+))(?::\d*)?", re.IGNORECASE)
_PORTS = {"http": ":80", "https": ":443"}


class Accepted(NamedTuple):
    """The changes that a listener or one of its routes accepts."""

    body_type: str | None = JSON
    """Content type of the body. None: any; the route checks the type itself, or does not read the body."""
    own_origin: bool = False
    """True if pages of other origins may not write even with a token."""
    checks_origin: bool = False
    """True if the route checks the origin of pages itself."""


JSON_ONLY = Accepted()


class RequestRefusal(NamedTuple):
    """Refusal of a request: HTTP status, problem slug, and what to do about it."""

    status: int
    kind: str
    detail: str


@dataclass(frozen=True)
class Rules:
    """Requests that a listener accepts. Loopback names are always among its hosts."""

    hosts: Collection[str] = ()
    """Additional host names, lower case, without ports."""
    origins: Collection[str] = ()
    """Origins besides the listener's own, such as `https://search.example`, whose pages may make changes."""
    addresses: bool = False
    """If True, any IP address is accepted as the host: for a listener open to a network. A page cannot rebind an address."""
    accepted: Accepted = JSON_ONLY
    """The changes that are accepted unless a route declares others."""

    def refusal(self, scope: Mapping[str, Any], declared: Accepted | None = None) -> RequestRefusal | None:
        """Return why the request or websocket of this scope is refused, or None if it is accepted. `declared`: by its route."""
        accepted = declared or self.accepted
        headers: dict[bytes, bytes] = {}
        hosts = 0
        for name, value in scope["headers"]:
            hosts += name == b"host"
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if hosts != 1 or not self._serves(host):
            return RequestRefusal(
                421,
                "host-unknown",
                f"The host name {host[:100]!r} is not served here. Use the address that `concordance status --urls` "
                "prints, or add the name to CONCORDANCE_HTTP__ALLOWED_HOSTS.",
            )
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE
        if changes and not accepted.checks_origin and not self._comes_from_us(headers, host, accepted):
            return RequestRefusal(
                403,
                "origin-foreign",
                "The request comes from a page of another origin. Open the page under the address that this service is "
                "known by (CONCORDANCE_PUBLIC_URL, CONCORDANCE_HTTP__ALLOWED_HOSTS), or sign in with a bearer token.",
            )
        if changes and scope["type"] == "http" and _has_body(headers):
            wanted = accepted.body_type
            given = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            if wanted is not None and given != wanted:
                return RequestRefusal(
                    415, "content-type", f"The body must be declared as {wanted}: send `Content-Type: {wanted}`."
                )
            if wanted is not None and headers.get(b"content-encoding", b"").lower() not in (b"", b"identity"):
                return RequestRefusal(
                    415,
                    "content-type",
                    "Compressed bodies are not accepted: send it as it is, without `Content-Encoding`.",
                )
        return None

    def _serves(self, host: str) -> bool:
        name = host_name(host)
        return name in LOOPBACK or name in self.hosts or (self.addresses and _is_address(name))

    def _comes_from_us(self, headers: Mapping[bytes, bytes], host: str, accepted: Accepted) -> bool:
        # A page cannot make a browser send these headers without a CORS preflight, which is answered only to pages of allowed origins.
        token = headers.get(b"authorization", b"")[:7].lower() == b"bearer " or headers.get(b"x-api-key")
        if token and not accepted.own_origin:
            return True
        origin = headers.get(b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin")
        return self.is_ours(origin.decode("latin-1"), host)

    def is_ours(self, page: str, host: str) -> bool:
        """Return True if a page, by its origin or address, is one of the listener that was addressed as `host`."""
        scheme, _, rest = page.lower().partition("://")
        authority = rest.partition("/")[0]
        # Browsers omit the scheme's default port; some proxies add it to the host.
        same = authority == host.lower().removesuffix(_PORTS.get(scheme, ""))
        return bool(authority) and (same or f"{scheme}://{authority}" in self.origins)


def rules_for(host: str, *, hosts: Collection[str] = (), origins: Collection[str] = ()) -> Rules:
    """Return the rules of a listener bound to `host`: served under that name, or under any address if bound to all."""
    names = frozenset({host.lower(), *hosts} - ANY_ADDRESS)
    return Rules(names, frozenset(origins), host in ANY_ADDRESS)


class Guard:
    """ASGI middleware that answers requests refused by `rules` with a JSON body and passes on everything else."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._rules.refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            body = msgspec.json.encode({"error": refusal.kind, "detail": refusal.detail})
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})


def host_name(authority: str) -> str:
    """Return the host in `name:port` or `[address]:port`, without port and brackets; empty for anything else."""
    found = _AUTHORITY.fullmatch(authority)
    return found["address"] or found["name"] if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0").strip() != b"0" or b"transfer-encoding" in headers
