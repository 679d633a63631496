"""Errors of the Drive API in Google's format.

Source: https://developers.google.com/workspace/drive/api/guides/handle-errors
"""

import math
from typing import Any


class ApiError(Exception):
    """A rejected call: status, reason and message in Google's wording."""

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
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["retry-after"] = str(math.ceil(retry_after))
        if status == 401:
            self.headers["www-authenticate"] = 'Bearer realm="https://accounts.google.com/", error=invalid_token'
        detail: dict[str, Any] = {"message": message, "domain": domain, "reason": reason}
        if location is not None:
            detail |= {"location": location, "locationType": location_type}
        self.body: dict[str, Any] = {"error": {"code": status, "message": message, "errors": [detail]}}


def file_not_found(file_id: str) -> ApiError:
    """Return the error for a file that does not exist or is not visible to the account: Google does not distinguish these."""
    return ApiError(404, "notFound", f"File not found: {file_id}.", location="fileId")


def drive_not_found(drive_id: str) -> ApiError:
    """Return the error for a shared drive that does not exist or of which the account is not a member."""
    return ApiError(404, "notFound", f"Shared drive not found: {drive_id}", location="driveId")


def insufficient_permissions() -> ApiError:
    """Return the error for a visible file on which the account may not do this."""
    return ApiError(403, "insufficientFilePermissions", "The user does not have sufficient permissions for this file.")


def bad_parameter(name: str, message: str = "Invalid Value", reason: str = "invalid") -> ApiError:
    """Return the error for an invalid parameter value; also used for an expired page token."""
    return ApiError(400, reason, message, location=name)


def unauthorized() -> ApiError:
    """Return the error for an access token that is missing, wrong, expired or revoked."""
    return ApiError(401, "authError", "Invalid Credentials", location="Authorization", location_type="header")


def rate_limited(seconds: float | None, *, per_user: bool) -> ApiError:
    """Return one of the two errors that Google uses for too many calls; None: it does not say how long to wait."""
    if per_user:
        return ApiError(
            403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits", retry_after=seconds
        )
    return ApiError(429, "rateLimitExceeded", "Rate Limit Exceeded", domain="usageLimits", retry_after=seconds)


def download_quota_exceeded() -> ApiError:
    """Return the error for a file that too many people have downloaded. Source: https://github.com/rclone/rclone/issues/2652"""
    return ApiError(403, "downloadQuotaExceeded", "The download quota for this file has been exceeded.")


def server_error() -> ApiError:
    return ApiError(500, "backendError", "Internal Error")
