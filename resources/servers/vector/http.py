"""The HTTP layer of the store: a minimal ASGI application, because a framework would cost more than most requests take.

Responses use Qdrant's envelope `{"result", "status", "time"}` or its error body.
"""

from __future__ import annotations

import hmac
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote

import msgspec

from resources.core.guard import JSON, Rules
from resources.servers.vector.faults import RequestError, format_error
from resources.servers.vector.logs import log
from resources.servers.vector.store import Store

T = TypeVar("T")
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 256 * 1024 * 1024
_OPEN = frozenset({"/healthz", "/livez", "/readyz"})
"""Answered without the key, with a constant text. Qdrant also leaves its version public."""
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class Request:
    """One request; `args` are the variable parts of the path."""

    def __init__(self, scope: dict[str, Any], receive: Receive, store: Store, args: list[str]) -> None:
        self.store = store
        self.args = args
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._scope = scope
        self._receive = receive

    @property
    def name(self) -> str:
        """The collection's name or alias."""
        return self.args[0]

    def query(self, name: str) -> str | None:
        """Return a query parameter."""
        values = parse_qs(self._scope["query_string"].decode("latin-1")).get(name)
        return values[-1] if values else None

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces of any size."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RequestError(400, "Bad request: the client closed the connection")
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    async def body(self, kind: type[T]) -> T:
        """Return the JSON body as a typed value; 413 if it is larger than 256 MiB."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self.stream():
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise RequestError(
                    413, f"Payload too large: send at most {MAX_BODY_BYTES} bytes per request, in smaller batches"
                )
            pieces.append(piece)
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(b"".join(pieces) or b"{}")
        except msgspec.MsgspecError as error:
            raise format_error(str(error)) from error


class Raw(msgspec.Struct):
    """A response outside the envelope: plain text, a file, or the version."""

    body: bytes | AsyncIterator[bytes]
    content_type: bytes = b"application/json"
    headers: list[tuple[bytes, bytes]] = []


Handler = Callable[[Request], Awaitable[Any]]
Node = dict[str, Any]


def body_type(path: str) -> str:
    """Return the content type that a path requires."""
    return "multipart/form-data" if path.endswith("/snapshots/upload") else JSON


class Application:
    """Routes requests by a tree of path segments (`*` is variable), authorizes them and wraps the handlers' results."""

    def __init__(self, store: Store, api_key: str | None, rules: Rules) -> None:
        self._store = store
        self._api_key = api_key.encode() if api_key else None
        self._rules = rules
        self._root: Node = {}

    def add(self, method: str, template: str, handler: Handler) -> None:
        """Register a handler for a path such as `/collections/*/points`."""
        node = self._root
        for segment in template.strip("/").split("/"):
            node = node.setdefault(segment, {})
        node[f" {method}"] = handler

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        status = 200
        try:
            self._authorize(scope)
            handler, args = self._find(scope)
            result = await handler(Request(scope, receive, self._store, args))
            if isinstance(result, Raw):
                await _send(send, 200, result)
                return
            body = b'{"result":%b,"status":"ok","time":%b}' % (msgspec.json.encode(result), _seconds(began))
        except RequestError as error:
            status = error.status
            body = b'{"status":{"error":%b},"time":%b}' % (msgspec.json.encode(str(error)), _seconds(began))
        except Exception as error:  # noqa: BLE001 the process's edge: log it, and answer without the trace
            status = 500
            log("request failed", level="error", path=scope["path"], error=repr(error), trace=traceback.format_exc())
            body = b'{"status":{"error":"Service internal error: see the vector server log"},"time":%b}' % _seconds(
                began
            )
        await _send(send, status, Raw(body))

    def _authorize(self, scope: dict[str, Any]) -> None:
        refusal = self._rules.refusal(scope)
        if refusal is not None:
            raise RequestError(refusal.status, refusal.detail)
        if self._api_key is None or scope["path"] in _OPEN:
            return
        headers = dict(scope["headers"])
        given = headers.get(b"api-key")
        if given is None and headers.get(b"authorization", b"")[:7].lower() == b"bearer ":
            given = headers[b"authorization"][7:]
        if given is None:
            raise RequestError(401, "Must provide an API key or an Authorization bearer token")
        if not hmac.compare_digest(given, self._api_key):
            raise RequestError(401, "Invalid API key or JWT")

    def _find(self, scope: dict[str, Any]) -> tuple[Handler, list[str]]:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        node, args = self._root, list[str]()
        for segment in raw.decode("latin-1").partition("?")[0].strip("/").split("/"):
            inner = node.get(segment)
            if inner is None:
                inner = node.get("*")
                if inner is None:
                    raise RequestError(404, f"Not found: there is no route {scope['path']}")
                args.append(unquote(segment))
            node = inner
        handler = node.get(f" {scope['method']}")
        if handler is None:
            raise RequestError(
                405 if any(key.startswith(" ") for key in node) else 404,
                f"Not found: there is no route {scope['method']} {scope['path']}",
            )
        return handler, args


def _seconds(began: float) -> bytes:
    return b"%.6f" % (time.perf_counter() - began)


async def _send(send: Send, status: int, raw: Raw) -> None:
    headers = [(b"content-type", raw.content_type), *raw.headers]
    if isinstance(raw.body, bytes):
        headers.append((b"content-length", b"%d" % len(raw.body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": raw.body})
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async for piece in raw.body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
