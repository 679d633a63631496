"""The Drive API over HTTP: routes, bearer tokens, batches and simulated faults around the methods.

A fault can also make a response stop halfway.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from resources.sources.drive.simulator import batch
from resources.sources.drive.simulator.control import control
from resources.sources.drive.simulator.errors import (
    ApiError,
    bad_parameter,
    drive_not_found,
    file_not_found,
    insufficient_permissions,
    rate_limited,
    server_error,
    unauthorized,
)
from resources.sources.drive.simulator.methods import METHODS, Media
from resources.sources.drive.simulator.model import Drive
from resources.sources.drive.simulator.oauth import OAuthError
from resources.sources.drive.simulator.page import page
from resources.sources.drive.simulator.watching import POSTS
from resources.sources.simulation import Receive, Scope, Send
from resources.sources.simulation.faults import Fault

_JSON = b"application/json; charset=UTF-8"
_PIECE_BYTES = 256 * 1024
_PREFIX = re.compile(r"^(?:/download)?/drive/v3/")
_ROUTES = [
    (re.compile(pattern + "$"), name)
    for pattern, name in (
        ("about", "about.get"),
        ("files", "files.list"),
        (r"files/(?P<fileId>[^/]+)", "files.get"),
        (r"files/(?P<fileId>[^/]+)/export", "files.export"),
        (r"files/(?P<fileId>[^/]+)/permissions", "permissions.list"),
        (r"files/(?P<fileId>[^/]+)/permissions/(?P<permissionId>[^/]+)", "permissions.get"),
        ("drives", "drives.list"),
        (r"drives/(?P<driveId>[^/]+)", "drives.get"),
        ("changes", "changes.list"),
        ("changes/startPageToken", "changes.getStartPageToken"),
    )
]
_POST_ROUTES = {"changes/watch": "changes.watch", "channels/stop": "channels.stop"}
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class DriveResponse(msgspec.Struct):
    """A response; if `cut`, half of it is sent and the connection is closed."""

    status: int
    body: bytes
    content_type: bytes = _JSON
    headers: list[tuple[bytes, bytes]] = []
    cut: bool = False


class DriveApp:
    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await _read(receive)
        await _send(send, await self._answer(scope, body))

    async def _answer(self, scope: Scope, body: bytes) -> DriveResponse:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, query = scope["path"], dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if _PREFIX.match(path):
            raw = (scope.get("raw_path") or path.encode()).decode("latin-1").partition("?")[0]
            method = scope["method"]
            if method == "POST" and headers.get("x-http-method-override") == "GET":
                # Google's client sends long queries this way; source: googleapiclient.http, MAX_URI_LENGTH
                method, query = "GET", dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
            return await self._call(method, raw, query, headers.get("authorization", ""), headers, body)
        if path.startswith("/batch"):
            return await self._batch(headers, body)
        if path == "/":
            return DriveResponse(200, page(self._drive, headers.get("host", "")).encode(), b"text/html; charset=utf-8")
        if path.startswith("/simulator/"):
            status, found = control(self._drive, scope["method"], path.removeprefix("/simulator/"), body)
            return DriveResponse(status, msgspec.json.encode(found))
        return self._sign_in(path, query, body)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        authorization: str,
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> DriveResponse:
        """Answer one API call, or commit the fault that is due."""
        name, asked = _route(method, path)
        if name is None:
            return _refusal(ApiError(404, "notFound", f"The simulator has no method {method} {path}."))
        asked = {**query, **asked}
        with self._drive.lock:
            self._drive.calls[name] += 1
        fault = self._drive.faults.take(name, paged="pageToken" in asked)
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        try:
            if fault is not None:
                self._fail(fault, asked)
            self._authorize(authorization, asked)
            answer = self._perform(name, asked, headers, body)
        except ApiError as error:
            answer = _refusal(error)
        answer.cut = fault is not None and fault.kind == "drop"
        return answer

    def _perform(self, name: str, asked: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> DriveResponse:
        with self._drive.lock:
            self._drive.settle()
            found = POSTS[name](self._drive, asked, _json(body)) if name in POSTS else METHODS[name](self._drive, asked)
        if found is None:
            return DriveResponse(204, b"")
        if isinstance(found, Media):
            return _media(found, headers.get("range", ""))
        if self._drive.validate is not None:
            self._drive.validate(f"drive.{name}", found)
        return DriveResponse(200, msgspec.json.encode(found))

    def _authorize(self, authorization: str, asked: Mapping[str, str]) -> None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            token = asked.get("access_token", "")
        if token != self._drive.token and not self._drive.sessions.accepts(token):
            raise unauthorized()

    def _fail(self, fault: Fault, asked: Mapping[str, str]) -> None:
        if fault.kind == "rate_limit":
            # Google has two errors for too many calls; they alternate
            raise rate_limited(fault.seconds, per_user=self._drive.faults.committed["rate_limit"] % 2 == 0)
        if fault.kind == "server_error":
            raise server_error()
        if fault.kind == "unauthorized":
            raise unauthorized()
        if fault.kind == "bad_page_token":
            raise bad_parameter("pageToken")
        if fault.kind == "unnamed_page_token":
            raise ApiError(400, "badRequest", "Invalid Value")
        if fault.kind == "lost_access":
            if "fileId" in asked:
                raise file_not_found(asked["fileId"])
            raise drive_not_found(asked["driveId"]) if "driveId" in asked else insufficient_permissions()

    async def _batch(self, headers: Mapping[str, str], body: bytes) -> DriveResponse:
        with self._drive.lock:
            self._drive.calls["batch"] += 1
        fault = self._drive.faults.take("batch", paged=False)
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        try:
            if fault is not None:
                self._fail(fault, {})
            calls = batch.read(headers.get("content-type", ""), body)
        except ApiError as error:
            return _refusal(error)
        replies = [await self._reply(call, headers.get("authorization", "")) for call in calls]
        content_type, content = batch.write(replies)
        cut = fault is not None and fault.kind == "drop"
        return DriveResponse(200, content, content_type.encode(), cut=cut)

    async def _reply(self, call: batch.BatchCall, authorization: str) -> batch.Reply:
        parts = urlsplit(call.target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        answer = await self._call(call.method, parts.path, query, call.authorization or authorization, {})
        if answer.cut:  # the connection cannot be closed within a batch
            answer = _refusal(server_error())
        if answer.content_type != _JSON:
            answer = _refusal(ApiError(400, "badRequest", "Media cannot be downloaded or exported in a batch."))
        return batch.Reply(
            call.content_id, answer.status, [(b"Content-Type", answer.content_type), *answer.headers], answer.body
        )

    def _sign_in(self, path: str, query: Mapping[str, str], body: bytes) -> DriveResponse:
        form = dict(parse_qsl(body.decode("latin-1")))
        try:
            with self._drive.lock:
                if path == "/o/oauth2/v2/auth":
                    return DriveResponse(
                        302, b"", headers=[(b"location", self._drive.sessions.authorize(query).encode())]
                    )
                if path == "/token":
                    self._drive.calls["token"] += 1
                    return DriveResponse(200, msgspec.json.encode(self._drive.sessions.exchange(form)))
                if path == "/revoke":
                    self._drive.sessions.revoke()
                    return DriveResponse(200, b"{}")
        except OAuthError as error:
            return DriveResponse(error.status, msgspec.json.encode(error.body))
        return _refusal(ApiError(404, "notFound", f"The simulator has no page {path}."))


def _route(method: str, path: str) -> tuple[str | None, dict[str, str]]:
    rest, found = _PREFIX.subn("", path, count=1)
    if found and method == "POST":
        return _POST_ROUTES.get(rest), {}
    if found and method == "GET":
        for pattern, name in _ROUTES:
            match = pattern.match(rest)
            if match is not None:
                return name, {key: unquote(value) for key, value in match.groupdict().items()}
    return None, {}


def _json(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ApiError(400, "parseError", "Parse Error") from error


def _refusal(error: ApiError) -> DriveResponse:
    return DriveResponse(error.status, msgspec.json.encode(error.body), headers=error.headers)


def _media(media: Media, wanted: str) -> DriveResponse:
    content_type, size = media.content_type.encode(), len(media.content)
    asked = _RANGE.fullmatch(wanted) if media.ranges else None
    if asked is None or size == 0:
        return DriveResponse(200, media.content, content_type)
    first, last = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
    if first >= size:
        return DriveResponse(416, b"", content_type, [(b"content-range", b"bytes */%d" % size)])
    part = [(b"content-range", b"bytes %d-%d/%d" % (first, last, size))]
    return DriveResponse(206, media.content[first : last + 1], content_type, part)


async def _read(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message: Any = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _send(send: Send, answer: DriveResponse) -> None:
    size = max(len(answer.body), 1) if answer.cut else len(answer.body)
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % size),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.cut:
        # the server closes the connection if an application ends before its response does
        await send({"type": "http.response.body", "body": answer.body[: size // 2], "more_body": True})
        return
    for begin in range(0, len(answer.body), _PIECE_BYTES):
        piece = answer.body[begin : begin + _PIECE_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
