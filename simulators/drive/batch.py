"""Batches: up to 100 calls in one multipart/mixed request, each part an HTTP request.

Source: https://developers.google.com/workspace/drive/api/guides/performance#batch-requests
"""

import uuid
from email.message import Message
from email.parser import BytesParser
from http import HTTPStatus
from typing import Any, cast

import msgspec

from simulators.drive.errors import ApiError

MAX_CALLS = 100
"""Source: https://developers.google.com/workspace/drive/api/guides/performance#overview"""


class BatchCall(msgspec.Struct):
    content_id: str
    method: str
    target: str
    """Path and query."""
    authorization: str


class Reply(msgspec.Struct):
    content_id: str
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def read(content_type: str, body: bytes) -> list[BatchCall]:
    """Parse the calls of a batch. Raises `ApiError` (400) if it is malformed or too long."""
    message = BytesParser().parsebytes(b"Content-Type: " + content_type.encode("latin-1") + b"\r\n\r\n" + body)
    if message.get_content_type() != "multipart/mixed" or not message.is_multipart():
        raise ApiError(400, "badRequest", "Failed to parse batch request, error: Missing boundary in Content-Type.")
    parts: list[Any] = list(message.get_payload())
    calls = [_call(cast("Message", part)) for part in parts if isinstance(part, Message)]
    if len(calls) > MAX_CALLS:
        raise ApiError(
            400, "badRequest", f"The batch request holds {len(calls)} calls; at most {MAX_CALLS} are allowed."
        )
    return calls


def write(replies: list[Reply]) -> tuple[str, bytes]:
    """Return content type and body of a response with these replies."""
    boundary = f"batch_{uuid.uuid4().hex}"
    lines: list[bytes] = []
    for reply in replies:
        content_id = f"<response-{reply.content_id.removeprefix('<')}"
        lines += [
            b"--" + boundary.encode(),
            b"Content-Type: application/http",
            b"Content-ID: " + content_id.encode(),
            b"",
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}".encode(),
            *(name + b": " + value for name, value in reply.headers),
            b"",
            reply.body,
        ]
    return f"multipart/mixed; boundary={boundary}", b"\r\n".join([*lines, b"--" + boundary.encode() + b"--", b""])


def _call(part: Message) -> BatchCall:
    head, _, rest = str(part.get_payload()).replace("\r\n", "\n").partition("\n")
    words = head.split()
    if part.get_content_type() != "application/http" or len(words) < 2:
        raise ApiError(400, "badRequest", "Failed to parse batch request: a part is not a valid HTTP request.")
    headers = BytesParser().parsebytes(rest.partition("\n\n")[0].encode(), headersonly=True)
    # the client folds a long id across two lines
    content_id = " ".join(str(part.get("Content-ID", "<1>")).split())
    return BatchCall(content_id, words[0], words[1], headers.get("authorization", ""))
