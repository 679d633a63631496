"""ASGI middleware that adds sign-in to Dagster's webserver, which has none.

A request must carry the secret (`Authorization: Bearer`), the cookie of a browser that opened a link, or such a link: one printed by
`concordance`, or one that the HTTP interface gives people who are signed in. Administrators reach all of Dagster, viewers an application
of their own (`orchestration/supervision/viewer_schema.py`). GET requests never change anything, and GraphQL documents have limits
(`orchestration/supervision/graphql_documents.py`).
"""

import json
from collections.abc import Callable, Mapping, MutableMapping
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from graphql import OperationType
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from orchestration.supervision.dagster_roles import RoleCache
from orchestration.supervision.graphql_documents import DocumentRefusedError, operations
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

COOKIE = "concordance_dagster"
ALIVE, READY = "/livez", "/readyz"
"""Paths of the probes, which need no secret."""
MAX_BODY_BYTES = 1024 * 1024
_READS = ("GET", "HEAD", "OPTIONS")
_READ_ONLY = "This sign-in is read-only. Only operators and administrators can make changes."
_PROBLEMS = {400: "invalid-request", 403: "role-required", 413: "too-large", 503: "unavailable"}
_CLOSE: dict[str, Any] = {"type": "websocket.close", "code": 1008}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Dagster</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:38rem;margin:4rem auto;padding:0 1rem}</style><h1>%s</h1>%s</html>"""


class Gate:
    """Passes requests on to the application of the caller's role; callers without one get 401."""

    def __init__(
        self,
        apps: Mapping[Role, App],
        own: DagsterSecrets,
        roles: RoleCache,
        sign_in: str,
        https_host: str | None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`sign_in` is where people who are signed in get a link. Under the name `https_host`, the cookie is for https only.

        `ready` returns whether runs can be started, for the readiness probe.
        """
        self._ready = ready
        self._apps = apps
        self._secrets = own
        self._links = OneTimeLinks(own)
        self._roles = roles
        self._sign_in = sign_in
        self._https_host = https_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(Request(scope, receive), send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._apps["admin"](scope, receive, send)

    async def _http(self, request: Request, send: Send) -> None:
        try:
            answer = await self._own_answer(request)
            if answer is None and (role := await self._role(request)) is not None:
                receive = await self._checked_body(request, role)
                await self._apps[role](request.scope, receive, send)
                return
            answer = answer or self._ask_to_sign_in(request)
        except ServiceUnavailableError:
            answer = refusal(503, "Concordance does not say what you may do. Try again in a minute.")
        except _RefusedError as error:
            answer = refusal(error.status, str(error))
        await answer(request.scope, request.receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a websocket of an administrator on. Dagster accepts only subscriptions over it, which show the logs of runs."""
        if await self._current_role(scope) != "admin":
            await receive()
            await send(_CLOSE)
            return
        send = self._while_it_lasts(scope, send)
        await self._apps["admin"](scope, _checked_messages(receive, send), send)

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
            closed = message["type"] == "websocket.send" and await self._current_role(scope) != "admin"
            await send(_CLOSE if closed else message)

        return checked

    async def _own_answer(self, request: Request) -> Response | None:
        """Return the response to a probe or a link; None for other requests."""
        if request.scope["path"] == ALIVE:
            return _response("alive", kind="text/plain")
        if request.scope["path"] == READY:
            ready = await run_in_threadpool(self._ready)
            return _response("ready" if ready else "code location not loaded", 200 if ready else 503, kind="text/plain")
        if request.method == "GET" and "token" in request.query_params:
            grant = self._links.use(request.query_params["token"])
            if grant is None and await self._role(request) is None:
                return self._no_link(request)
            return self._open(request, grant)
        return None

    async def _checked_body(self, request: Request, role: Role) -> Receive:
        """Return what the application reads the body from. Raises `_RefusedError`."""
        if request.scope["path"].rstrip("/") != "/graphql":
            if request.method not in _READS and role == "viewer":
                raise _RefusedError(403, _READ_ONLY)
            return request.receive
        for text in request.query_params.getlist("query"):
            if OperationType.MUTATION in await _operations(text):
                raise _RefusedError(405, "Send mutations in the body of a POST.")
        if request.method in _READS:
            return request.receive
        body = await _body(request)
        if OperationType.MUTATION in await _operations(_document(body)) and role == "viewer":
            raise _RefusedError(403, _READ_ONLY)
        return _replay(body)

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
        return refusal(
            401,
            f"Open {self._sign_in} in a browser, or send `Authorization: Bearer SECRET`; `concordance status --urls` prints the secret.",
            challenge,
        )

    def _button(self, request: Request) -> str:
        address = f"{self._sign_in}?next={quote(_path(request), safe='')}"
        return f'<a href="{escape(address, quote=True)}">Sign in with your account</a>'


class _RefusedError(Exception):
    """A request is refused with a status; the message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _operations(text: str) -> frozenset[OperationType]:
    """Return the kinds of operations in a document. Parsing takes a while, so it is done in a thread. Raises `_RefusedError`."""
    try:
        return await run_in_threadpool(operations, text)
    except DocumentRefusedError as error:
        raise _RefusedError(400, str(error)) from None


def _document(body: bytes) -> str:
    """Return the GraphQL document in the body of a request. Raises `_RefusedError`."""
    try:
        request: Any = json.loads(body)  # as Dagster does, so that repeated keys are read alike
    except (ValueError, RecursionError):
        request = None
    if not is_object(request) or not isinstance(request.get("query"), str):
        raise _RefusedError(400, 'Send one JSON object with the GraphQL document in "query".')
    return request["query"]


async def _body(request: Request) -> bytes:
    """Return the body. Raises `_RefusedError` if it is too large or the client has disconnected."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise _RefusedError(413, f"The body has more than {MAX_BODY_BYTES:,} bytes.")
    except ClientDisconnect:
        raise _RefusedError(400, "The body of the request ended early.") from None
    return bytes(body)


def _checked_messages(receive: Receive, send: Send) -> Receive:
    """Return a `receive` that closes a websocket instead of passing on a message with a document that is refused."""

    async def checked() -> MutableMapping[str, Any]:
        message = await receive()
        if message["type"] == "websocket.receive" and not await _may_start(message.get("text") or ""):
            await send(_CLOSE)
            return {"type": "websocket.disconnect", "code": _CLOSE["code"]}
        return message

    return checked


async def _may_start(text: str) -> bool:
    """Return False for a message of a websocket whose document is refused."""
    try:
        message: Any = json.loads(text)
        if is_object(message) and is_object(payload := message.get("payload")) and "query" in payload:
            await _operations(str(payload["query"]))
    except (ValueError, RecursionError, _RefusedError):
        return False
    return True


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


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as the HTTP interface does, with the message also where Dagster's pages look for it."""
    problem = {
        "type": f"/problems/{_PROBLEMS[status]}" if status in _PROBLEMS else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "data": None,
        "errors": [{"message": message}],
    }
    return _response(json.dumps(problem), status, headers, "application/problem+json")


def _response(
    body: str, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "text/html"
) -> Response:
    fixed = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
    return Response(body, status, fixed | dict(headers or {}), kind)
