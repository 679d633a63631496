"""The ASGI application of a simulated workspace, including faults.

`/api/{method}` is the Web API, `/files-pri/...` the file host, `/link/` where Socket Mode connects, `/simulator/...` the remote
control, `/` a page that describes it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from resources.sources.simulation import Receive, Scope, Send
from resources.sources.simulation.faults import Fault, Faults
from resources.sources.slack.simulator import methods
from resources.sources.slack.simulator.calls import RefusalError
from resources.sources.slack.simulator.control import control, page
from resources.sources.slack.simulator.model import Workspace
from resources.sources.slack.simulator.rates import Rates
from resources.sources.slack.simulator.requests import Requests
from resources.sources.slack.simulator.sockets import PATH, Sockets
from resources.sources.slack.simulator.wire import SlackRequest, SlackResponse, as_html, as_json, read

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
            return
        if scope["type"] != "http":
            return
        request = await read(scope, receive)
        answer = await self._answer(request)
        await answer.send(send)

    async def _answer(self, request: SlackRequest) -> SlackResponse:
        if request.path.startswith("/api/"):
            return await self._call(request, request.path.removeprefix("/api/"))
        if request.path.startswith("/files-pri/"):
            return await self._call(request, DOWNLOAD)
        if request.path == "/simulator/set_request_url":
            return await asyncio.to_thread(self._listen, request)
        if request.path.startswith("/simulator/"):
            return control(self.workspace, self.faults, request)
        if request.path == "/":
            with self.workspace.lock:
                return page(self.workspace, request.base)
        return as_html(404, "<!DOCTYPE html><title>404</title><h1>There is nothing at this address</h1>")

    async def _call(self, request: SlackRequest, method: str) -> SlackResponse:
        """Count a call and answer it, or commit the fault that is due."""
        with self.workspace.lock:
            self.workspace.calls[method] += 1
        fault = self.faults.take(method)
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        elif fault is not None and fault.kind != "drop":
            return self._failed(fault, request, method)
        with self.workspace.lock:
            answer = self._download(request) if method == DOWNLOAD else self._method(request, method)
        if fault is not None and fault.kind == "drop":
            return SlackResponse(answer.status, answer.body[: len(answer.body) // 2], answer.kind, broken=True)
        return answer

    def _method(self, request: SlackRequest, method: str) -> SlackResponse:
        if self.workspace.throttle and (method in methods.METHODS or method == OPEN):
            wait = self._rates.wait(method)
            if wait is not None:
                return _limited(wait)
        try:
            arguments = request.arguments()
        except ValueError:
            return as_json(200, {"ok": False, "error": "invalid_form_data"})
        token = request.token or arguments.get("token")
        if method == OPEN:
            return as_json(200, self._open(token, request.base))
        body = methods.answer(self.workspace, method, token, arguments, request.base)
        known = token == self.workspace.token and token not in self.workspace.revoked
        headers = {"x-oauth-scopes": ",".join(sorted(self.workspace.scopes))} if known else {}
        return as_json(200, body, headers)

    def _open(self, token: str | None, base: str) -> dict[str, Any]:
        """Give out an address for Socket Mode. Source: https://docs.slack.dev/reference/methods/apps.connections.open"""
        if token != self.workspace.app_token:
            known = token == self.workspace.token
            error = "not_allowed_token_type" if known else "invalid_auth" if token else "not_authed"
            return {"ok": False, "error": error}
        return {"ok": True, "url": self.sockets.open(base)}

    def _listen(self, request: SlackRequest) -> SlackResponse:
        try:
            url = request.json().get("url")
            self.set_request_url(str(url) if url else None)
        except ValueError as error:
            return as_json(400, {"error": str(error)})
        return as_json(200, {"result": None})

    def _download(self, request: SlackRequest) -> SlackResponse:
        """Return a file's bytes; without a valid token and the scope, Slack's sign-in page with status 200."""
        id_ = request.path.split("/")[2].removeprefix(f"{self.workspace.team}-")
        try:
            methods.admit(self.workspace, request.token)
        except RefusalError:
            return as_html(200, _SIGN_IN)
        if "files:read" not in self.workspace.scopes:
            return as_html(200, _SIGN_IN)
        try:
            found = methods.visible_file(self.workspace, id_)
        except RefusalError:
            return as_html(404, "<!DOCTYPE html><title>File not found | Slack</title><h1>This file was deleted</h1>")
        return SlackResponse(200, found.content, found.mimetype)

    def _failed(self, fault: Fault, request: SlackRequest, method: str) -> SlackResponse:
        match fault.kind:
            case "rate_limit":
                return _limited(fault.seconds)
            case "server_error":
                return as_html(500, _SERVER_ERROR)
            case "unauthorized" if method == DOWNLOAD:
                return as_html(200, _SIGN_IN)
            case "unauthorized":
                error = "token_expired"
            case "bad_page_token" | "unnamed_page_token":
                error = "invalid_cursor"
            case _:
                error = self._lost(request, method)
        return as_json(404 if method == DOWNLOAD else 200, {"ok": False, "error": error})

    def _lost(self, request: SlackRequest, method: str) -> str:
        """Return the error for a channel that the bot lost, by its kind, or for a lost file."""
        if method in {DOWNLOAD, "files.info"}:
            return "file_not_found"
        try:
            found = self.workspace.channels.get(request.arguments().get("channel", ""))
        except ValueError:
            found = None
        if found is None:
            return "channel_not_found" if method.startswith("conversations.") else "no_permission"
        return "channel_not_found" if found.private else "not_in_channel"


def _limited(seconds: float) -> SlackResponse:
    return as_json(429, {"ok": False, "error": "ratelimited"}, {"retry-after": f"{seconds:g}"})
