"""The header `Idempotency-Key`: a request that is sent again with the same key is answered as before instead of being done again.

A route declares it with `opt=idempotent()`. A key belongs to its caller, method and path for a day. Only a success is stored: after a
refusal or a failure, or a success of which the route calls `do_again`, the same request is tried anew.

Source: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from litestar import Request
from litestar.datastructures import Headers
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware

from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.logging import logger
from serving.http.errors import ProblemError
from sql.repeated_requests import RepeatedRequests, StoredResponse

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPReceiveMessage, Message, Receive, Scope, Send

    from serving.http.service import HttpServices

HEADER = "Idempotency-Key"
IDEMPOTENT = "idempotent"
"""Key in the `opt` of routes that accept the header."""
UNFINISHED = "unfinished"
"""Key in the state of a request that was done only in part."""
REPLAYED = b"idempotent-replayed"
MAX_KEY = 255
KEPT = timedelta(hours=24)
LOST = timedelta(minutes=15)
"""A request in progress for longer is taken to have ended with its process. A slow upload can take longer; done again, it adds nothing."""
MOST = 1000
"""Keys of a caller: the oldest are forgotten."""
MAX_BODY = 256 * 1024
"""Bytes of a response that is stored; a larger one is not repeated."""

log = logger("serving")


def idempotent() -> dict[str, bool]:
    """Return the `opt` of a route that accepts the header."""
    return {IDEMPOTENT: True}


def do_again(request: Request[Any, Any, Any]) -> None:
    """Give the key of a request back although it succeeds: sent again, it is done again."""
    request.state[UNFINISHED] = True


class Fingerprint:
    """The digest of a body, without the boundary of a form: clients draw another one each time."""

    def __init__(self, content_type: str) -> None:
        kind, _, boundary = content_type.partition("boundary=")
        self._boundary = boundary.partition(";")[0].strip().strip('"').encode()
        self._digest = hashlib.sha256(kind.partition(";")[0].strip().lower().encode() + b"\n")
        self._rest = b""
        self.digested = 0
        """Bytes that are not a boundary nor wait."""

    @property
    def size(self) -> int:
        """Bytes so far, without boundaries."""
        return self.digested + len(self._rest)

    def add(self, data: bytes) -> None:
        """Add the next bytes. The last ones wait for those that follow, with which they may be a boundary."""
        if self._boundary:
            data = (self._rest + data).replace(self._boundary, b"")
            at = max(0, len(data) - len(self._boundary) + 1)
            data, self._rest = data[:at], data[at:]
        self.digested += len(data)
        self._digest.update(data)

    def digest(self) -> bytes:
        """Return the digest of all bytes."""
        whole = self._digest.copy()
        whole.update(self._rest)
        return whole.digest()


class Idempotency(ASGIMiddleware):
    """Answers repeated requests of the routes that accept the header. After authentication: a key belongs to its caller."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Do the request and store its success, or send the response that is stored."""
        headers = Headers.from_scope(scope)
        if not scope["route_handler"].opt.get(IDEMPOTENT) or HEADER not in headers:
            await next_app(scope, receive, send)
            return
        http: HttpServices = scope["litestar_app"].state.services.http
        email: str = cast("Any", scope)["user"].email
        key_hash, claim, now = _hash(http, email, scope, headers[HEADER]), str(uuid.uuid4()), http.clock()
        rows, seen = RepeatedRequests(http.database), Fingerprint(headers.get("content-type", ""))
        claimed = await rows.claim(
            key_hash=key_hash,
            email=email,
            claim=claim,
            now=now,
            expires_at=now + KEPT,
            lost_before=now - LOST,
            most=MOST,
        )
        if claimed:
            await _Claimed(rows, key_hash, claim, seen).run(scope, receive, send, next_app)
        else:
            await _repeat(await rows.stored(key_hash=key_hash), seen, scope, receive, send)


def _hash(http: HttpServices, email: str, scope: Scope, header: str) -> bytes:
    """Return what a caller's key is stored under. Raises `InvalidRequestError`."""
    key = header.strip().removeprefix('"').removesuffix('"')
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidRequestError(f"{HEADER}: must be 1 to {MAX_KEY} printable ASCII characters.")
    method, path = cast("Any", scope)["method"], scope["raw_path"].decode("latin-1")
    place = f"{email}\n{method}\n{path}\n{key}"
    return hmac.digest(http.key.encode(), f"idempotency {place}".encode(), hashlib.sha256)


class _Claimed:
    """A request that is done. Its response is stored, or its key given back, before it is sent: a client which has it can rely on that."""

    def __init__(self, rows: RepeatedRequests, key_hash: bytes, claim: str, seen: Fingerprint) -> None:
        self._rows, self._key_hash, self._claim, self._seen = rows, key_hash, claim, seen
        self._start: Any = None
        self._body = b""
        self._settled = self._read = self._stored = False

    async def run(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Do the request. Its key is given back unless it succeeds."""

        async def counted() -> HTTPReceiveMessage:
            message: Any = await receive()
            self._seen.add(message.get("body", b""))
            self._read = not message.get("more_body")
            return message

        async def held(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._start = message
                self._stored = 200 <= message["status"] < 300 and UNFINISHED not in scope["state"]
                return
            if message["type"] == "http.response.body":
                self._body += message.get("body", b"")
                if message.get("more_body"):
                    return
                while self._stored and not self._read:  # such as what follows the last part of a form
                    await counted()
                await self._finish()
                await send(self._start)
                message["body"] = self._body
            await send(message)

        try:
            await next_app(scope, cast("Receive", counted), cast("Send", held))
        finally:
            if not self._settled:
                await self._release()

    async def _finish(self) -> None:
        if not self._stored or len(self._body) > MAX_BODY:
            await self._release()
            return
        headers = Headers(self._start["headers"])
        try:
            await self._rows.finish(
                key_hash=self._key_hash,
                claim=self._claim,
                fingerprint=self._seen.digest(),
                size=self._seen.size,
                status=self._start["status"],
                media_type=headers.get("content-type", ""),
                body=self._body,
            )
        except ConcordanceError as error:
            log.warning("response_not_stored", error=str(error))
        self._settled = True

    async def _release(self) -> None:
        try:
            await self._rows.release(key_hash=self._key_hash, claim=self._claim)
        except ConcordanceError as error:
            log.warning("key_not_released", error=str(error))
        self._settled = True


async def _repeat(stored: StoredResponse | None, seen: Fingerprint, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the stored response again. Raises the problems `idempotency-key-in-use` and `idempotency-key-reused`."""
    if stored is None:
        detail = "A request with this Idempotency-Key is in progress. Try again in 2 s."
        raise ProblemError("idempotency-key-in-use", detail, headers={"Retry-After": "2"})
    handler: Any = scope["route_handler"]
    await handler.authorize_connection(connection=Request(scope))
    more = True
    while more and seen.digested <= stored.size:
        message: Any = await receive()
        seen.add(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)
    if not hmac.compare_digest(seen.digest(), stored.fingerprint):
        raise ProblemError("idempotency-key-reused", "This Idempotency-Key was used for a request with another body.")
    headers = [(b"content-type", stored.media_type.encode()), (b"content-length", str(len(stored.body)).encode())]
    await send({"type": "http.response.start", "status": stored.status, "headers": [*headers, (REPLAYED, b"true")]})
    await send({"type": "http.response.body", "body": stored.body, "more_body": False})
