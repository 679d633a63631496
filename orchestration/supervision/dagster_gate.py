"""ASGI middleware that adds sign-in to Dagster's webserver, which has none.

A request must carry the secret (`Authorization: Bearer`), the cookie of a browser that opened a link, or such a link: one printed by
`concordance`, or one that the HTTP interface gives people who are signed in. The role is passed on in `scope[ROLE]`. Viewers can only
read, and GET requests never change anything.
"""

import json
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from orchestration.supervision.dagster_roles import RoleCache
from resources.core.errors import ServiceUnavailableError
from resources.core.guard import App, Receive, Scope, Send
from resources.core.json import is_object
from resources.dagster_access import (
    SESSION_SECONDS,
    DagsterSecrets,
    Grant,
    OneTimeLinks,
    Role,
    grant_of_session,
    session,
)

ROLE = "concordance.role"
COOKIE = "concordance_dagster"
ALIVE = "/livez"
"""Path of the liveness probe, which needs no secret."""
MAX_BODY_BYTES = 10 * 1024 * 1024
_READS = ("GET", "HEAD", "OPTIONS")
_CLOSE: dict[str, Any] = {"type": "websocket.close", "code": 1008}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Dagster</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:38rem;margin:4rem auto;padding:0 1rem}</style><h1>%s</h1>%s</html>"""


class Gate:
    """Passes requests of administrators and viewers on to `app`; all others get 401."""

    def __init__(self, app: App, own: DagsterSecrets, roles: RoleCache, sign_in: str, https_host: str | None) -> None:
        """`sign_in` is where people who are signed in get a link. Under the name `https_host`, the cookie is for https only."""
        self._app = app
        self._secrets = own
        self._links = OneTimeLinks(own)
        self._roles = roles
        self._sign_in = sign_in
        self._https_host = https_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            try:
                answer = await self._answer(request)
            except ServiceUnavailableError:
                answer = _refusal(503, "Concordance does not say what you may do. Try again in a minute.")
            if isinstance(answer, Response):
                await answer(scope, receive, send)
                return
            receive = answer or receive
        elif scope["type"] == "websocket":
            # Dagster accepts only subscriptions over a websocket, so mutations need no check here.
            scope[ROLE] = await self._current_role(scope)
            if scope[ROLE] is None:
                await receive()
                await send(_CLOSE)
                return
            send = self._while_it_lasts(scope, send)
        await self._app(scope, receive, send)

    async def _role(self, connection: HTTPConnection) -> Role | None:
        """Return the caller's role. Raises `ServiceUnavailableError`."""
        given = connection.headers.get("authorization", "")
        if given[:7].lower() == "bearer ":
            return self._secrets.role(given[7:].strip())
        cookie = connection.cookies.get(COOKIE, "")
        grant = grant_of_session(self._secrets, cookie)
        if grant is None:
            return None
        return grant.role if grant.person is None else await self._roles.role(cookie)

    async def _current_role(self, scope: Scope) -> Role | None:
        try:
            return await self._role(HTTPConnection(scope))
        except ServiceUnavailableError:
            return None

    def _while_it_lasts(self, scope: Scope, send: Send) -> Send:
        """Return a `send` that closes a websocket instead of sending once its session is over."""
        closed = False

        async def checked(message: MutableMapping[str, Any]) -> None:
            nonlocal closed
            if closed:
                return
            closed = message["type"] == "websocket.send" and await self._current_role(scope) is None
            await send(_CLOSE if closed else message)

        return checked

    async def _answer(self, request: Request) -> Response | Receive | None:
        """Return our own response; otherwise what the application reads the body from, None if it has not been read."""
        path, query = request.scope["path"], request.query_params
        if path == ALIVE:
            return _response("alive", kind="text/plain")
        if request.method == "GET" and "token" in query:
            grant = self._links.use(query["token"])
            if grant is None and await self._role(request) is None:
                return self._no_link(request)
            return self._open(request, grant)
        role = await self._role(request)
        if role is None:
            return self._ask_to_sign_in(request)
        request.scope[ROLE] = role
        is_graphql = path.rstrip("/") == "/graphql"
        if is_graphql and any(changes(text) for text in query.getlist("query")):
            return _refusal(405, "Send mutations in the body of a POST.")
        if request.method not in _READS and role == "viewer":
            body = await _body(request) if is_graphql else None
            if body is None or not _only_reads(body):
                return _refusal(403, "This sign-in is read-only. Only operators and administrators can make changes.")
            return _replay(body)
        return None

    def _open(self, request: Request, grant: Grant | None) -> Response:
        """Begin the session that a link gives, and redirect to the same page without the token."""
        # A page with a refresh header instead of a redirect: after a click on another site's page, the browser would follow a
        # redirect without the new SameSite cookie.
        headers = {"refresh": f"0; url={_path(request)}"}
        if grant is not None:
            value = session(self._secrets, grant)
            flags = f"Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
            secure = "; Secure" if self._https_host and request.url.hostname == self._https_host else ""
            headers["set-cookie"] = f"{COOKIE}={value}; {flags}{secure}"
        return _response(_PAGE % ("Opening Dagster …", ""), headers=headers)

    def _no_link(self, request: Request) -> Response:
        text = (
            f"<p>It was already used, or is too old.</p><p>{self._button(request)}</p>"
            "<p>On the machine that runs Concordance, <code>concordance status --urls</code> prints a new one.</p>"
        )
        return _response(_PAGE % ("This link is no longer valid", text), 401)

    def _ask_to_sign_in(self, request: Request) -> Response:
        challenge = {"www-authenticate": 'Bearer realm="dagster"'}
        if "text/html" in request.headers.get("accept", ""):
            text = (
                f"<p>{self._button(request)}</p>"
                "<p>Or run <code>concordance status --urls</code> on the machine that runs Concordance, and open the Dagster link that "
                'it prints.</p><p>If you already did, <a href="">continue</a>: this page also appears when you come from another '
                "site.</p>"
            )
            return _response(_PAGE % ("Sign in to Dagster", text), 401, challenge)
        return _refusal(
            401,
            f"Open {self._sign_in} in a browser, or send `Authorization: Bearer SECRET`; `concordance status --urls` prints the secret.",
            challenge,
        )

    def _button(self, request: Request) -> str:
        address = f"{self._sign_in}?next={quote(_path(request), safe='')}"
        return f'<a href="{escape(address, quote=True)}">Sign in with your account</a>'


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
    return is_object(request) and isinstance(request.get("query"), str) and not changes(request["query"])


async def _body(request: Request) -> bytes | None:
    """Return the body; None if it is too large or the client has disconnected."""
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                return None
    except ClientDisconnect:
        return None
    return body


def _replay(body: bytes) -> Receive:
    """Return a `receive` callable that yields a body that was already read."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _path(request: Request) -> str:
    """Return the path and query of a request without the token of a link."""
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    return "/" + quote(request.scope["path"].lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")


def _refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the form that Dagster's pages display."""
    body = json.dumps({"data": None, "errors": [{"message": message}]})
    return _response(body, status, headers, "application/json")


def _response(
    body: str, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "text/html"
) -> Response:
    fixed = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
    return Response(body, status, fixed | dict(headers or {}), kind)
