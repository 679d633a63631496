"""The Drive API and the Directory API over HTTP: routes, bearer tokens, batches and simulated faults around the methods."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from resources.core.guard import Receive, Scope, Send
from simulators.drive import batch
from simulators.drive.control import OPERATIONS, page, state
from simulators.drive.directory import DIRECTORY_METHODS
from simulators.drive.errors import (
    ApiError,
    bad_parameter,
    download_quota_exceeded,
    drive_not_found,
    file_not_found,
    insufficient_permissions,
    rate_limited,
    server_error,
    unauthorized,
)
from simulators.drive.methods import METHODS, Media
from simulators.drive.model import SimulatedDrive
from simulators.drive.oauth import OAuthError
from simulators.drive.watching import POSTS
from simulators.faults import InjectedFault
from simulators.http import CutResponse, as_json, control

_PREFIX = re.compile(r"^(?:/download)?/drive/v3/|^/admin/directory/v1/")
_ROUTES = {
    "GET about": "about.get",
    "GET files": "files.list",
    "GET files/*": "files.get",
    "GET files/*/export": "files.export",
    "GET files/*/link": "files.exportLinks",
    "GET files/*/comments": "comments.list",
    "GET files/*/permissions": "permissions.list",
    "GET drives": "drives.list",
    "GET changes": "changes.list",
    "GET changes/startPageToken": "changes.getStartPageToken",
    "POST changes/watch": "changes.watch",
    "POST channels/stop": "channels.stop",
}
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class DriveApp:
    def __init__(self, drive: SimulatedDrive) -> None:
        self._drive = drive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, query, body = request.scope["path"], dict(request.query_params), await request.body()
        self._drive.base = f"http://{request.headers.get('host', 'localhost')}"
        if path.startswith("/export/"):
            return await self._call(
                "GET", f"/drive/v3/files/{path.removeprefix('/export/')}/link", query, request.headers, body
            )
        if _PREFIX.match(path):
            raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
            method = request.method
            if method == "POST" and request.headers.get("x-http-method-override") == "GET":
                # Google's client sends long queries this way; source: googleapiclient.http, MAX_URI_LENGTH
                method, query = "GET", dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
            return await self._call(method, raw, query, request.headers, body)
        if path.startswith("/batch"):
            return await self._batch(request.headers, body)
        if path == "/":
            return page(self._drive, request.headers.get("host", ""))
        if path == "/simulator/state":
            return as_json(state(self._drive))
        if path.startswith("/simulator/"):
            return control(self._drive, OPERATIONS, self._drive.faults, path.removeprefix("/simulator/"), body)
        return self._sign_in(path, query, body)

    async def _call(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        """Answer one API call, or commit the fault that is due."""
        name, parameters = _route(method, path)
        if name is None:
            return _refusal(ApiError(404, "notFound", f"The simulator has no method {method} {path}."))
        parameters = {**query, **parameters}
        try:
            fault = await self._count(name, parameters)
            viewer = self._authorize(headers, parameters, directory=name in DIRECTORY_METHODS)
            answer = self._perform(name, parameters, headers, body, viewer)
        except ApiError as error:
            return _refusal(error)
        return CutResponse(answer) if fault is not None and fault.kind == "drop" else answer

    async def _count(self, name: str, parameters: Mapping[str, str]) -> InjectedFault | None:
        """Count a call and return the fault that is due. Raises `ApiError` for a fault with an error."""
        with self._drive.lock:
            self._drive.calls[name] += 1
        called = f"{name}_media" if parameters.get("alt") == "media" else name
        fault = self._drive.faults.take(called, paged="pageToken" in parameters)
        if fault is not None:
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            self._fail(fault, parameters)
        return fault

    def _perform(
        self, name: str, parameters: Mapping[str, str], headers: Mapping[str, str], body: bytes, viewer: str
    ) -> Response:
        with self._drive.lock, self._drive.acting_for(viewer):
            self._drive.settle()
            self._drive.include_labels = frozenset(filter(None, parameters.get("includeLabels", "").split(",")))
            if name in POSTS:
                found = POSTS[name](self._drive, parameters, _json(body))
            else:
                found = (METHODS | DIRECTORY_METHODS)[name](self._drive, parameters)
        if found is None:
            return Response(status_code=204)
        if isinstance(found, Media):
            return _media(found, headers.get("range", ""))
        if self._drive.validate is not None:
            self._drive.validate(f"{'directory' if name in DIRECTORY_METHODS else 'drive'}.{name}", found)
        return as_json(found)

    def _authorize(self, headers: Mapping[str, str], parameters: Mapping[str, str], *, directory: bool) -> str:
        """Return the email that a call acts for. Raises `ApiError` for a token of another API, and for a user without Drive."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            token = parameters.get("access_token", "")
        if token == self._drive.token:
            return self._drive.account
        bearer = self._drive.sessions.bearer(token)
        if bearer is None:
            raise unauthorized()
        if any("/admin.directory." in scope for scope in bearer.scopes) is not directory:
            raise ApiError(403, "insufficientPermissions", "Request had insufficient authentication scopes.")
        user = self._drive.workspace.users.get(bearer.account)
        if user is not None and user.no_drive and not directory:
            raise ApiError(403, "domainPolicy", "The domain administrators have disabled Drive apps.")
        return bearer.account

    def _fail(self, fault: InjectedFault, parameters: Mapping[str, str]) -> None:
        if fault.kind == "rate_limit":
            # Google has two errors for too many calls; they alternate
            raise rate_limited(fault.seconds, per_user=self._drive.faults.committed["rate_limit"] % 2 == 0)
        if fault.kind == "bare_rate_limit":
            raise rate_limited(None, per_user=True)
        if fault.kind == "server_error":
            raise server_error()
        if fault.kind == "unauthorized":
            raise unauthorized()
        if fault.kind == "not_found":
            raise ApiError(404, "notFound", "Not Found")
        if fault.kind == "bad_page_token":
            raise bad_parameter("pageToken")
        if fault.kind == "unnamed_page_token":
            raise ApiError(400, "badRequest", "Invalid Value")
        if fault.kind == "bad_request":
            # observed for exports that succeed later: https://github.com/googleapis/google-api-ruby-client/issues/14445
            raise ApiError(400, "badRequest", "The requested conversion is not supported.", location="convertTo")
        if fault.kind == "concurrency_limit":
            # source: https://developers.google.com/workspace/admin/directory/v1/limits
            raise ApiError(403, "quotaExceeded", "Too many concurrent requests.", domain="usageLimits")
        if fault.kind == "download_quota":
            raise download_quota_exceeded()
        if fault.kind == "lost_access":
            if "fileId" in parameters:
                raise file_not_found(parameters["fileId"])
            raise drive_not_found(parameters["driveId"]) if "driveId" in parameters else insufficient_permissions()

    async def _batch(self, headers: Mapping[str, str], body: bytes) -> Response:
        try:
            fault = await self._count("batch", {})
            calls = batch.read(headers.get("content-type", ""), body)
        except ApiError as error:
            return _refusal(error)
        replies = [await self._reply(call, headers) for call in calls]
        content_type, content = batch.write(replies)
        answer = Response(content, media_type=content_type)
        return CutResponse(answer) if fault is not None and fault.kind == "drop" else answer

    async def _reply(self, call: batch.BatchCall, headers: Mapping[str, str]) -> batch.Reply:
        parts = urlsplit(call.target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        token = call.authorization or headers.get("authorization", "")
        answer = await self._call(call.method, parts.path, query, {"authorization": token})
        if isinstance(answer, CutResponse):  # the connection cannot be closed within a batch
            answer = _refusal(server_error())
        if "json" not in (answer.media_type or ""):
            answer = _refusal(ApiError(400, "badRequest", "Media cannot be downloaded or exported in a batch."))
        return batch.Reply(call.content_id, answer.status_code, answer.raw_headers, bytes(answer.body))

    def _sign_in(self, path: str, query: Mapping[str, str], body: bytes) -> Response:
        form = dict(parse_qsl(body.decode("latin-1")))
        try:
            with self._drive.lock:
                if path == "/o/oauth2/v2/auth":
                    return RedirectResponse(self._drive.sessions.authorize(query), 302)
                if path == "/token":
                    self._drive.calls["token"] += 1
                    return as_json(self._drive.sessions.exchange(form))
                if path == "/revoke":
                    self._drive.sessions.revoke()
                    return as_json({})
        except OAuthError as error:
            return as_json(error.body, error.status)
        return _refusal(ApiError(404, "notFound", f"The simulator has no page {path}."))


def _route(method: str, path: str) -> tuple[str | None, dict[str, str]]:
    """Return the method for a path, and the file that the path names."""
    rest, found = _PREFIX.subn("", path, count=1)
    if not found:
        return None, {}
    if path.startswith("/admin/"):
        name = {"users": "users.list", "groups": "groups.list"}.get(rest)
        key = re.fullmatch(r"groups/([^/]+)/members", rest)
        name = "members.list" if key else name
        return (name if method == "GET" else None), {"groupKey": unquote(key[1])} if key else {}
    if rest.startswith("files/"):
        file_id, slash, action = rest.removeprefix("files/").partition("/")
        return _ROUTES.get(f"{method} files/*{slash}{action}"), {"fileId": unquote(file_id)}
    return _ROUTES.get(f"{method} {rest}"), {}


def _json(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ApiError(400, "parseError", "Parse Error") from error


def _refusal(error: ApiError) -> Response:
    return as_json(error.body, error.status, error.headers)


def _media(media: Media, wanted: str) -> Response:
    size = len(media.content)
    span = _RANGE.fullmatch(wanted) if media.ranges else None
    if span is None or size == 0:
        return Response(media.content, media_type=media.content_type)
    first, last = int(span[1]), min(int(span[2] or size - 1), size - 1)
    if first >= size:  # source: RFC 9110, section 15.5.17
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    part = {"content-range": f"bytes {first}-{last}/{size}"}
    return Response(media.content[first : last + 1], 206, part, media.content_type)
