"""The HTTP layer of the store: a minimal ASGI application, because a framework would cost more than most requests take.

Responses use Qdrant's envelope `{"result", "status", "time"}` or its error body.
"""

import hmac
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote

import msgspec

from resources.core.guard import Rules
from resources.servers.vector.collection import VectorCollection
from resources.servers.vector.faults import SUBSET, RequestError, format_error
from resources.servers.vector.logs import log
from resources.servers.vector.store import CollectionStore

T = TypeVar("T")
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 256 * 1024 * 1024
_OPEN = frozenset({"/healthz", "/livez", "/readyz"})
"""Answered without the key, with a constant text. Qdrant also leaves its version public."""
_QDRANT = frozenset({"collections", "aliases", "snapshots", "telemetry", "cluster", "issues"})
"""Where the rest of Qdrant's routes begin."""
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class Request:
    """One request; `args` are the variable parts of the path, of which the first is the collection's name or alias."""

    def __init__(self, scope: dict[str, Any], receive: Receive, store: CollectionStore, args: list[str]) -> None:
        self.store = store
        self.args = args
        self._scope = scope
        self._receive = receive

    @property
    def name(self) -> str:
        """The collection's name or alias."""
        return self.args[0]

    @property
    def collection(self) -> VectorCollection:
        return self.store.get(self.name)

    def query(self, name: str) -> str | None:
        values = parse_qs(self._scope["query_string"].decode("latin-1")).get(name)
        return values[-1] if values else None

    async def body(self, kind: type[T]) -> T:
        """Return the JSON body as a typed value; 413 if it is larger than 256 MiB."""
        pieces: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RequestError(400, "Bad request: the client closed the connection")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > MAX_BODY_BYTES:
                raise RequestError(
                    413, f"Payload too large: send at most {MAX_BODY_BYTES} bytes per request, in smaller batches"
                )
            more = message.get("more_body")
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(b"".join(pieces) or b"{}")
        except msgspec.MsgspecError as error:
            raise format_error(str(error)) from error


class Raw(msgspec.Struct):
    """A response outside the envelope: plain text or the version."""

    body: bytes
    content_type: bytes = b"application/json"


Handler = Callable[[Request], Awaitable[Any]]
Node = dict[str, Any]


class Application:
    """Routes requests by a tree of path segments (`*` is variable), authorizes them and wraps the handlers' results."""

    def __init__(self, store: CollectionStore, api_key: str | None, rules: Rules) -> None:
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
            log("request_failed", level="error", path=scope["path"], error=repr(error), trace=traceback.format_exc())
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
        segments = raw.decode("latin-1").partition("?")[0].strip("/").split("/")
        node: dict[str, Any] = self._root
        args: list[str] = []
        for segment in segments:
            inner = node.get(segment)
            if inner is None and (inner := node.get("*")) is not None:
                args.append(unquote(segment))
            node = inner or {}
        handler = node.get(f" {scope['method']}")
        if handler is None:
            what = f"there is no route {scope['method']} {scope['path']}"
            if segments[0] in _QDRANT:
                raise RequestError(501, f"Not implemented: {what}. {SUBSET}")
            raise RequestError(404, f"Not found: {what}")
        return handler, args


def _seconds(began: float) -> bytes:
    return b"%.6f" % (time.perf_counter() - began)


async def _send(send: Send, status: int, raw: Raw) -> None:
    headers = [(b"content-type", raw.content_type), (b"content-length", b"%d" % len(raw.body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": raw.body})
