"""ASGI middleware that adds sign-in to Dagster's webserver, which has none.

A request must carry the secret (`Authorization: Bearer`), the cookie of a browser that opened a link printed by `concordance`, or such
a link. The role is passed on in `scope[ROLE]`. Viewers can only read, and GET requests never change anything.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from resources.core.guard import App, Receive, Scope, Send
from resources.core.json import is_object
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
        if scope["type"] == "http":
            request = Request(scope, receive)
            answer = await self._answer(request, self._role(request))
            if isinstance(answer, Response):
                await answer(scope, receive, send)
                return
            receive = answer or receive
        elif scope["type"] == "websocket":
            # Dagster accepts only subscriptions over a websocket, so mutations need no check here.
            scope[ROLE] = self._role(HTTPConnection(scope))
            if scope[ROLE] is None:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
        await self._app(scope, receive, send)

    def _role(self, connection: HTTPConnection) -> Role | None:
        given = connection.headers.get("authorization", "")
        if given[:7].lower() == "bearer ":
            return self._secrets.role(given[7:].strip())
        cookie = connection.cookies.get(COOKIE)
        return role_of_session(self._secrets, cookie) if cookie is not None else None

    async def _answer(self, request: Request, role: Role | None) -> Response | Receive | None:
        """Return our own response; otherwise what the application reads the body from, None if it has not been read."""
        path, query = request.scope["path"], request.query_params
        if path == ALIVE:
            return _response("alive", kind="text/plain")
        if request.method == "GET" and "token" in query:
            return self._open(request, self._links.use(query["token"]) or role)
        if role is None:
            return _ask_to_sign_in(request)
        request.scope[ROLE] = role
        is_graphql = path.rstrip("/") == "/graphql"
        if request.method in _READS:
            if is_graphql and any(changes(text) for text in query.getlist("query")):
                return _refusal(405, "Send mutations by POST.")
        elif role == "viewer":
            body = await _body(request) if is_graphql else None
            if body is None or not _only_reads(body):
                return _refusal(403, "This sign-in is read-only. Only administrators can make changes.")
            return _replay(body)
        return None

    def _open(self, request: Request, role: Role | None) -> Response:
        """Set the session cookie and redirect to the same page without the token."""
        if role is None:
            text = "<p>It was already used, or is older than 12 hours. <code>concordance status --urls</code> prints a new one.</p>"
            return _response(_PAGE % ("This link is no longer valid", text), 401)
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        path = "/" + quote(request.scope["path"].lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")
        # A page with a refresh header instead of a redirect: after a click on another site's page, the browser would follow a
        # redirect without the new SameSite cookie.
        cookie = (
            f"{COOKIE}={session(self._secrets, role)}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
        )
        return _response(_PAGE % ("Opening Dagster …", ""), headers={"set-cookie": cookie, "refresh": f"0; url={path}"})


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


def _ask_to_sign_in(request: Request) -> Response:
    challenge = {"www-authenticate": 'Bearer realm="dagster"'}
    if "text/html" in request.headers.get("accept", ""):
        text = (
            "<p>Run <code>concordance status --urls</code> on the machine that runs Concordance, and open the Dagster link that it "
            'prints.</p><p>If you already did, <a href="">continue</a>: this page also appears when you come from another site.</p>'
        )
        return _response(_PAGE % ("Sign in to Dagster", text), 401, challenge)
    return _refusal(
        401, "Send `Authorization: Bearer SECRET`; `concordance status --urls` prints the secret.", challenge
    )


def _refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the form that Dagster's pages display."""
    body = json.dumps({"data": None, "errors": [{"message": message}]})
    return _response(body, status, headers, "application/json")


def _response(
    body: str, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "text/html"
) -> Response:
    fixed = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
    return Response(body, status, fixed | dict(headers or {}), kind)
