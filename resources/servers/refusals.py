"""Refusals of an HTTP server, written to the socket before the application sees the request."""

from __future__ import annotations

import json
from http import HTTPStatus


class RefusedError(Exception):
    """A request that is not read any further. `slug` names the problem type, as listed in `serving.http.problems.PROBLEMS`."""

    def __init__(self, status: HTTPStatus, slug: str, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.slug, self.title, self.detail = status, slug, title, detail

    def response(self) -> bytes:
        """Return the complete response; it is written to the socket directly, bypassing the application."""
        problem = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": "",
            "documentation": "/docs",
        }
        body = json.dumps(problem).encode()
        again = b"retry-after: 5\r\n" if self.status == HTTPStatus.SERVICE_UNAVAILABLE else b""
        return (
            (
                f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\ncontent-type: application/problem+json\r\n"
                f"cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            ).encode()
            + again
            + b"\r\n"
            + body
        )


def headers_too_large(detail: str) -> RefusedError:
    return RefusedError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "The request's header is too large", detail
    )


def too_slow(detail: str) -> RefusedError:
    return RefusedError(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", "The request was sent too slowly", detail)


FULL = RefusedError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too-many-connections",
    "Too many connections",
    "This service has reached its limit of open connections, in total or from your address. Close some, or try again shortly.",
)
INVALID = RefusedError(
    HTTPStatus.BAD_REQUEST, "invalid-request", "The request is not valid", "This is not a valid HTTP request."
)
