"""Minimal ASGI requests and responses. Specific to Slack only in the token header."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from resources.sources.simulation import Receive, Scope, Send


@dataclass(slots=True, frozen=True)
class SlackRequest:
    verb: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def base(self) -> str:
        """The URL under which the client reached this host."""
        return f"http://{self.headers.get('host', 'localhost')}"

    @property
    def token(self) -> str | None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" and token else None

    def arguments(self) -> dict[str, str]:
        """Return the arguments of the query and of a form or JSON object; raises `ValueError` if the body is neither."""
        found = dict(parse_qsl(self.query, keep_blank_values=True))
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.body and kind == "application/json":
            given = self.json()
            texts = {
                name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
                for name, value in given.items()
            }
            return found | {name: text for name, text in texts.items() if text != "null"}
        if self.body and kind not in {"application/x-www-form-urlencoded", ""}:
            raise ValueError(f"a body of type {kind} is not supported: send a form or JSON")
        return found | dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object, empty without a body; raises `ValueError`."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ValueError(f"the body is not a JSON object: {error}") from error


@dataclass(slots=True, frozen=True)
class SlackResponse:
    """A response; a `broken` one ends in the middle of its body."""

    status: int
    body: bytes
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    broken: bool = False

    async def send(self, send: Send) -> None:
        """Send it. After half of a broken response the server closes the connection, since the promised length was not sent."""
        length = str(len(self.body) + (1 if self.broken else 0)).encode()
        headers = [(b"content-type", self.kind.encode()), (b"content-length", length)]
        headers += [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": self.broken})


def as_json(status: int, value: Any, headers: Mapping[str, str] | None = None) -> SlackResponse:
    return SlackResponse(status, msgspec.json.encode(value), "application/json; charset=utf-8", headers or {})


def as_html(status: int, text: str) -> SlackResponse:
    return SlackResponse(status, text.encode(), "text/html; charset=utf-8")


async def read(scope: Scope, receive: Receive) -> SlackRequest:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
    return SlackRequest(scope["method"], scope["path"], scope["query_string"].decode(), headers, body)
