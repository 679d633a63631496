"""The ASGI application of a simulated workspace, including faults.

`/api/{method}` is the Web API, `/files-pri/...` the file host, `/link/` where Socket Mode connects, `/simulator/...` the remote
control, `/` a page that describes it.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from resources.core.guard import Receive, Scope, Send
from simulators.faults import Faults, InjectedFault
from simulators.http import CutResponse, as_json, control
from simulators.slack import methods
from simulators.slack.calls import RefusalError
from simulators.slack.control import OPERATIONS, page, state
from simulators.slack.model import Workspace
from simulators.slack.rates import Rates
from simulators.slack.requests import Requests
from simulators.slack.sockets import PATH, Sockets

OPEN = "apps.connections.open"
DOWNLOAD = "files.download"
"""Name under which downloads are counted and fail; not a method of Slack's."""

_SIGN_IN = """<!DOCTYPE html><html lang="en-US"><head><meta charset="utf-8"><title>Sign in | Slack</title></head>
<body><h1>Sign in to Slack</h1><form action="/signin" method="post"><input name="email" type="email"></form></body></html>"""
_SERVER_ERROR = "<html><body><h1>Server Error</h1><p>It looks like there's a problem with this page.</p></body></html>"


class SlackApp:
    """Serves a workspace. `timer` is the clock of the published rate limits (`workspace.throttle`)."""

    def __init__(
        self, workspace: Workspace, faults: Faults | None = None, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.workspace = workspace
        self.faults = faults or Faults()
        self.sockets = Sockets(workspace.app_id)
        self.requests = Requests(workspace.signing_secret)
        self.request_url: str | None = None
        """URL to post events to. Without it, events go to Socket Mode connections."""
        self._rates = Rates(timer)
        workspace.listeners.append(self._deliver)
        workspace.interactions.append(partial(self.sockets.deliver, kind="interactive"))

    def set_request_url(self, url: str | None) -> None:
        """Post events to an address from now on, or to none. Raises `ValueError` unless it echoes a challenge."""
        if url is not None:
            self.requests.verify(url)
        self.request_url = url

    def _deliver(self, envelope: dict[str, Any]) -> None:
        if self.request_url is not None:
            self.requests.deliver(self.request_url, envelope)
        else:
            self.sockets.deliver(envelope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == PATH:
            await self.sockets(scope, receive, send)
        elif scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, body = request.scope["path"], await request.body()
        base = f"http://{request.headers.get('host', 'localhost')}"
        if path.startswith("/api/"):
            return await self._call(request, path.removeprefix("/api/"), body, base)
        if path.startswith("/files-pri/"):
            return await self._call(request, DOWNLOAD, body, base)
        if path == "/simulator/set_request_url":
            # in a thread, since the challenge may be answered by a server in this event loop
            return await asyncio.to_thread(control, self, ("set_request_url",), self.faults, "set_request_url", body)
        if path == "/simulator/state":
            return as_json(state(self.workspace, self.faults))
        if path.startswith("/simulator/"):
            return control(self.workspace, OPERATIONS, self.faults, path.removeprefix("/simulator/"), body)
        if path == "/":
            return page(self.workspace, base)
        return HTMLResponse("<!DOCTYPE html><title>404</title><h1>There is nothing at this address</h1>", 404)

    async def _call(self, request: Request, method: str, body: bytes, base: str) -> Response:
        """Count a call and answer it, or commit the fault that is due."""
        with self.workspace.lock:
            self.workspace.calls[method] += 1
        fault = self.faults.take(method)
        try:
            arguments = dict(request.query_params) | _arguments(request.headers.get("content-type", ""), body)
        except ValueError:
            return as_json({"ok": False, "error": "invalid_form_data"})
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        elif fault is not None and fault.kind != "drop":
            return self._failed(fault, arguments.get("channel", ""), method)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" and token else arguments.get("token")
        with self.workspace.lock:
            download = method == DOWNLOAD
            path = request.scope["path"]
            answer = self._download(path, token) if download else self._method(method, token, arguments, base)
        return CutResponse(answer) if fault is not None and fault.kind == "drop" else answer

    def _method(self, method: str, token: str | None, arguments: dict[str, str], base: str) -> Response:
        if self.workspace.throttle and (method in methods.METHODS or method == OPEN):
            wait = self._rates.wait(method)
            if wait is not None:
                return _limited(wait)
        if method == OPEN:
            return as_json(self._open(token, base))
        found = methods.answer(self.workspace, method, token, arguments, base)
        known = token == self.workspace.token and token not in self.workspace.revoked
        return as_json(found, headers={"x-oauth-scopes": ",".join(sorted(self.workspace.scopes))} if known else None)

    def _open(self, token: str | None, base: str) -> dict[str, Any]:
        """Give out an address for Socket Mode. Source: https://docs.slack.dev/reference/methods/apps.connections.open"""
        if token != self.workspace.app_token:
            known = token == self.workspace.token
            error = "not_allowed_token_type" if known else "invalid_auth" if token else "not_authed"
            return {"ok": False, "error": error}
        return {"ok": True, "url": self.sockets.open(base)}

    def _download(self, path: str, token: str | None) -> Response:
        """Return a file's bytes; without a valid token and the scope, Slack's sign-in page with status 200."""
        try:
            methods.admit(self.workspace, token)
        except RefusalError:
            return HTMLResponse(_SIGN_IN)
        if "files:read" not in self.workspace.scopes:
            return HTMLResponse(_SIGN_IN)
        found = methods.visible_file(self.workspace, path.split("/")[2].removeprefix(f"{self.workspace.team}-"))
        if found is None:
            return HTMLResponse(
                "<!DOCTYPE html><title>File not found | Slack</title><h1>This file was deleted</h1>", 404
            )
        page = found.mode == "quip"
        return Response(found.content, headers={"content-type": "text/html; charset=utf-8" if page else found.mimetype})

    def _failed(self, fault: InjectedFault, channel: str, method: str) -> Response:
        match fault.kind:
            case "rate_limit" | "bare_rate_limit":
                return _limited(fault.seconds)
            case "server_error":
                return HTMLResponse(_SERVER_ERROR, 500)
            case "not_found":
                return HTMLResponse("<!DOCTYPE html><title>404</title>", 404)
            case "unauthorized" if method == DOWNLOAD:
                return HTMLResponse(_SIGN_IN)
            case "unauthorized":
                error = "token_expired"
            case "bad_page_token" | "unnamed_page_token":
                error = "invalid_cursor"
            case "bad_request":
                error = "invalid_arguments"
            case _:
                error = self._lost(channel, method)
        return as_json({"ok": False, "error": error}, 404 if method == DOWNLOAD else 200)

    def _lost(self, channel: str, method: str) -> str:
        """Return the error for a channel that the bot lost, by its kind, or for a lost file."""
        if method == DOWNLOAD:
            return "file_not_found"
        found = self.workspace.channels.get(channel)
        if found is None:
            return "channel_not_found" if method.startswith("conversations.") else "no_permission"
        return "channel_not_found" if found.private else "not_in_channel"


def _arguments(kind: str, body: bytes) -> dict[str, str]:
    """Return the arguments of a form or a JSON object. Raises `ValueError` if the body is neither."""
    kind = kind.partition(";")[0].strip().lower()
    if body and kind == "application/json":
        given = msgspec.json.decode(body, type=dict[str, Any])
        return {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in given.items()
            if value is not None
        }
    if body and kind not in {"application/x-www-form-urlencoded", ""}:
        raise ValueError(f"a body of type {kind} is not supported: send a form or JSON")
    return dict(parse_qsl(body.decode(), keep_blank_values=True))


def _limited(seconds: float) -> Response:
    return as_json({"ok": False, "error": "ratelimited"}, 429, {"retry-after": f"{seconds:g}"})
