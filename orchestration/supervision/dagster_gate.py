"""ASGI middleware that adds sign-in to Dagster's webserver, which has none.

A request must carry the secret (`Authorization: Bearer`), the cookie of a browser that opened a link printed by `concordance`, or such
a link. The role is passed on in `scope[ROLE]`. Viewers can only read, and GET requests never change anything.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

import msgspec
from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

from resources.core.guard import App, Receive, Scope, Send
from resources.dagster_access import SESSION_SECONDS, Links, Role, Secrets, role_of_session, session

ROLE = "concordance.role"
COOKIE = "concordance_dagster"
ALIVE = "/livez"
"""Path of the liveness probe, which needs no secret."""
MAX_BODY_BYTES = 10 * 1024 * 1024
_READS = ("GET", "HEAD", "OPTIONS")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Dagster</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:38rem;margin:4rem auto;padding:0 1rem}</style><h1>%s</h1>%s</html>"""


class Gate:
    """Passes requests of administrators and viewers on to `app`; all others get 401."""

    def __init__(self, app: App, own: Secrets) -> None:
        self._app = app
        self._secrets = own
        self._links = Links(own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        query = parse_qs(scope["query_string"].decode("latin-1"))
        role = self._role(headers)
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send, role)
        elif scope["path"] == ALIVE:
            await _answer(send, 200, b"alive", b"text/plain")
        elif scope["method"] == "GET" and "token" in query:
            await self._open(scope, send, self._links.use(query["token"][-1]) or role)
        elif role is None:
            await _ask_to_sign_in(send, headers)
        else:
            await self._pass(scope, receive, send, role, query)

    def _role(self, headers: Mapping[bytes, bytes]) -> Role | None:
        given = headers.get(b"authorization", b"").decode("latin-1")
        if given[:7].lower() == "bearer ":
            return self._secrets.role(given[7:].strip())
        try:
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        except CookieError:
            return None
        return role_of_session(self._secrets, cookie.value) if cookie is not None else None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send, role: Role | None) -> None:
        # Dagster accepts only subscriptions over a websocket, so mutations need no check here.
        if role is None:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        scope[ROLE] = role
        await self._app(scope, receive, send)

    async def _open(self, scope: Scope, send: Send, role: Role | None) -> None:
        """Set the session cookie and redirect to the same page without the token."""
        if role is None:
            text = "<p>It was already used, or is older than 12 hours. <code>concordance status --urls</code> prints a new one.</p>"
            await _answer(send, 401, (_PAGE % ("This link is no longer valid", text)).encode())
            return
        rest = [(name, value) for name, value in parse_qsl(scope["query_string"].decode("latin-1")) if name != "token"]
        path = "/" + quote(scope["path"].lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")
        # A page with a refresh header instead of a redirect: after a click on another site's page, the browser would follow a
        # redirect without the new SameSite cookie.
        cookie = (
            f"{COOKIE}={session(self._secrets, role)}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
        )
        headers = [(b"set-cookie", cookie.encode()), (b"refresh", f"0; url={path}".encode())]
        await _answer(send, 200, (_PAGE % ("Opening Dagster …", "")).encode(), headers=headers)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, role: Role, query: Mapping[str, list[str]]
    ) -> None:
        scope[ROLE] = role
        is_graphql = scope["path"].rstrip("/") == "/graphql"
        if scope["method"] in _READS:
            if is_graphql and any(changes(text) for text in query.get("query", [])):
                await _refuse(send, 405, "Send mutations by POST.")
                return
        elif role == "viewer":
            body = await _body(receive) if is_graphql else None
            if body is None or not _only_reads(body):
                await _refuse(send, 403, "This sign-in is read-only. Only administrators can make changes.")
                return
            receive = _replay(body)
        await self._app(scope, receive, send)


@lru_cache(maxsize=256)
def changes(document: str) -> bool:
    """Return True unless every operation of a GraphQL document only reads."""
    try:
        definitions = parse(document, no_location=True).definitions
    except (GraphQLError, RecursionError):
        return True
    operations = [one for one in definitions if isinstance(one, OperationDefinitionNode)]
    return any(one.operation is OperationType.MUTATION for one in operations)


def _only_reads(body: bytes) -> bool:
    try:
        request: Any = json.loads(body)  # as Dagster does, so that repeated keys are read alike
    except (ValueError, RecursionError):
        return False
    return isinstance(request, dict) and isinstance(request.get("query"), str) and not changes(request["query"])


async def _body(receive: Receive) -> bytes | None:
    """Return the body; None if it is too large or the client has disconnected."""
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            return None
    return b"".join(pieces)


def _replay(body: bytes) -> Receive:
    """Return a `receive` callable that yields a body that was already read."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _ask_to_sign_in(send: Send, headers: Mapping[bytes, bytes]) -> None:
    challenge = [(b"www-authenticate", b'Bearer realm="dagster"')]
    if b"text/html" in headers.get(b"accept", b""):
        text = (
            "<p>Run <code>concordance status --urls</code> on the machine that runs Concordance, and open the Dagster link that it "
            'prints.</p><p>If you already did, <a href="">continue</a>: this page also appears when you come from another site.</p>'
        )
        await _answer(send, 401, (_PAGE % ("Sign in to Dagster", text)).encode(), headers=challenge)
    else:
        detail = "Send `Authorization: Bearer SECRET`; `concordance status --urls` prints the secret."
        await _refuse(send, 401, detail, challenge)


async def _refuse(send: Send, status: int, message: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """Send an error in the form that Dagster's pages display."""
    body = msgspec.json.encode({"data": None, "errors": [{"message": message}]})
    await _answer(send, status, body, b"application/json", headers)


async def _answer(
    send: Send,
    status: int,
    body: bytes,
    kind: bytes = b"text/html; charset=utf-8",
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    fixed = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        (b"x-frame-options", b"DENY"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *(headers or ())]})
    await send({"type": "http.response.body", "body": body})
