"""Errors in Google's shape: what a refused call of the Drive API answers.

Source: https://developers.google.com/workspace/drive/api/guides/handle-errors
"""

from __future__ import annotations

import math
from typing import Any


class ApiError(Exception):
    """A call that is refused: status, reason and message as Google words them."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        domain: str = "global",
        location: str | None = None,
        location_type: str = "parameter",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers: list[tuple[bytes, bytes]] = []
        if retry_after is not None:
            self.headers.append((b"retry-after", b"%d" % math.ceil(retry_after)))
        if status == 401:
            self.headers.append(
                (b"www-authenticate", b'Bearer realm="https://accounts.google.com/", error=invalid_token')
            )
        detail: dict[str, Any] = {"message": message, "domain": domain, "reason": reason}
        if location is not None:
            detail |= {"location": location, "locationType": location_type}
        self.body: dict[str, Any] = {"error": {"code": status, "message": message, "errors": [detail]}}


def file_not_found(file_id: str) -> ApiError:
    """There is no such file, or the account may not know of it: Google does not tell which."""
    return ApiError(404, "notFound", f"File not found: {file_id}.", location="fileId")


def drive_not_found(drive_id: str) -> ApiError:
    """There is no such shared drive, or the account is no member."""
    return ApiError(404, "notFound", f"Shared drive not found: {drive_id}", location="driveId")


def insufficient_permissions() -> ApiError:
    """The account may see the file, but not do this with it."""
    return ApiError(403, "insufficientFilePermissions", "The user does not have sufficient permissions for this file.")


def bad_parameter(name: str, message: str = "Invalid Value", reason: str = "invalid") -> ApiError:
    """A parameter's value makes no sense; an expired page token answers the same."""
    return ApiError(400, reason, message, location=name)


def unauthorized() -> ApiError:
    """The access token is missing, wrong, expired or revoked."""
    return ApiError(401, "authError", "Invalid Credentials", location="Authorization", location_type="header")


def rate_limited(seconds: float, *, per_user: bool) -> ApiError:
    """One of the two answers that Google gives to too many calls."""
    if per_user:
        return ApiError(
            403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits", retry_after=seconds
        )
    return ApiError(429, "rateLimitExceeded", "Rate Limit Exceeded", domain="usageLimits", retry_after=seconds)


def server_error() -> ApiError:
    """Google's own failure."""
    return ApiError(500, "backendError", "Internal Error")
