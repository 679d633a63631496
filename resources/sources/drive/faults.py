"""Map errors of Google's API to ours, by status and reason.

Source of the reasons: https://developers.google.com/workspace/drive/api/guides/handle-errors
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    ChangedDocumentError,
    ConcordanceError,
    DeferredDocumentError,
    RateLimitedError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.sources.drive.auth import SCOPES, RefusedUserError

EXPORT_LIMIT_MB = 10
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/export"""

# Reasons in lower case and without underscores: Google writes them as `rateLimitExceeded` in `errors`, and as `RATE_LIMIT_EXCEEDED` in the
# newer `details`, where `status` may be all that names a rate limit.
_DAILY = frozenset({"dailylimitexceeded", "quotaexceeded"})
_RATE = frozenset({"ratelimitexceeded", "userratelimitexceeded", "sharingratelimitexceeded", "resourceexhausted"})
_DIRECTORY = ("groups.", "members.", "users.")
"""Methods whose `quotaExceeded` means too many calls at a time. Source: https://developers.google.com/workspace/admin/directory/v1/limits"""
_DOWNLOADS = "downloadquotaexceeded"
"""Too many people have downloaded the file, for a day or so. Also written as `quotaExceeded` at the location `quota.download`.

Sources: https://github.com/rclone/rclone/issues/2652, https://github.com/odeke-em/drive/issues/922"""
_FOR_USER = "domainpolicy"
"""Drive is switched off for the user, by an administrator or for want of a licence."""
_FORBIDDING = frozenset({_FOR_USER, "accessnotconfigured", "servicedisabled", "appnotinstalledwithuser"})
EXPORT_LINK = "files.exportLinks"
"""Stands for a request to a link that `files.get` gives, which leads to another host and has no errors in the API's format."""
NOT_LINKED = "Google does not allow it to be exported by its link."
NOT_DOWNLOADABLE = "Its owner, or Google, does not allow it to be downloaded."
_NO_DOWNLOAD = frozenset({"cannotdownloadfile", "cannotdownloadabusivefile", "cannotexportfile", "filenotdownloadable"})


class NotFoundError(SkipDocumentError):
    """The file, folder or drive does not exist, or the account may not see it: Drive does not distinguish these.

    `of` is the parameter that named it: `fileId` also for a folder in a query.
    """

    def __init__(self, of: str = "") -> None:
        super().__init__("It was deleted from Drive, or is no longer shared with the account that reads it.")
        self.of = of


class ForbiddenError(SkipDocumentError):
    """The account may see the file, but may not do this with it."""


class ExportTooLargeError(SkipDocumentError):
    """Google does not export a document of this size with `files.export`."""

    def __init__(self) -> None:
        super().__init__(
            f"It is too large for Google to export: more than {EXPORT_LIMIT_MB} MB. Split it, or keep it as an Office file."
        )


class RejectedCallError(AbortSyncError):
    """The call is rejected for a reason that is not known: if it asks for one file's bytes, it concerns this file alone."""


class PageTokenError(RejectedCallError):
    """A page token is no longer valid: the listing or feed must start over."""


def explain(
    method: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes | str,
    hint: str,
    label: str = "Drive",
    scopes: Sequence[str] = SCOPES,
) -> ConcordanceError:
    """Return the error for an unsuccessful response of the API `label`; `hint` says how to repair the account's credentials."""
    reasons, message, location = _read(body)
    if method.startswith(_DIRECTORY) and "quotaexceeded" in reasons:
        reasons = reasons - {"quotaexceeded"} | {"ratelimitexceeded"}
    if any(reason.startswith("push.") for reason in reasons):
        # Some of these come with status 401, which says nothing of the credentials here.
        return AbortSyncError(f"Google sends no notifications to this address: {message}.")
    if method == EXPORT_LINK and status < 500 and status not in {408, 429} and not reasons & _RATE:
        return ForbiddenError(NOT_LINKED)
    if status == 401:
        return AuthorizationError(f"Google rejects the credentials for {label} ({message or 'they expired'}). {hint}")
    if status == 429 or (status == 403 and reasons & _RATE and not reasons & _DAILY):
        return RateLimitedError(f"{label} asks to slow down ({method}).", _seconds(headers.get("retry-after")))
    if status == 403 and not reasons:
        # A page of a proxy, for example: it says nothing of the file, which must not be taken for lost.
        return RetryLaterError(f"{label} gives no reason for refusing {method} (HTTP 403).")
    if status == 403 and (_DOWNLOADS in reasons or location == "quota.download"):
        return DeferredDocumentError("Too many people have downloaded it, so Google does not send it for now.")
    if status == 403:
        return _forbidden(method, reasons, message, hint, label, scopes)
    if status == 416:
        # The range that is asked for follows from the size that was listed. Source: RFC 9110, section 15.5.17
        return ChangedDocumentError()
    if status == 404:
        return NotFoundError(location)
    if (status == 410 and method.endswith(".list")) or (status == 400 and _is_about_token(method, location, message)):
        return PageTokenError(
            f"{label} rejects the page token of {method}: HTTP {status}, {message or 'no reason given'}."
        )
    if status >= 500 or status == 408:
        return RetryLaterError(f"{label} is temporarily failing ({method}: HTTP {status}).")
    return RejectedCallError(f"{label} rejects {method}: HTTP {status}, {message or 'no reason given'}.")


def _is_about_token(method: str, location: str, message: str) -> bool:
    """Return True if a 400 rejects the page token.

    Drive does not always name the parameter. In `changes.list` the token is the only parameter whose value we do not choose.
    """
    return method == "changes.list" or location == "pageToken" or "page token" in message.lower()


def _forbidden(
    method: str, reasons: set[str], message: str, hint: str, label: str, scopes: Sequence[str]
) -> ConcordanceError:
    if "accesstokenscopeinsufficient" in reasons or ("insufficientpermissions" in reasons and "scope" in message):
        needed = ", ".join(scope.rpartition("/")[2] for scope in scopes)
        return AuthorizationError(f"The credentials for {label} lack the scope {needed}. {hint}")
    if reasons & _FORBIDDING:
        refused = RefusedUserError if _FOR_USER in reasons else AuthorizationError
        return refused(
            f"Google does not let this application use {label} ({message}). Enable its API in the project "
            "of the credentials, and ask the domain's administrator to allow the application."
        )
    if reasons & _DAILY:
        return AbortSyncError(f"The Google project's daily quota for {label} is used up ({message}).")
    if "exportsizelimitexceeded" in reasons:
        return ExportTooLargeError()
    if reasons & _NO_DOWNLOAD:
        return SkipDocumentError(NOT_DOWNLOADABLE)
    return ForbiddenError(f"The account that reads {label} may not do this with the file ({method}: {message}).")


def _read(body: bytes | str) -> tuple[set[str], str, str]:
    """Return the reasons in their plain spelling, message and parameter of an error's body; empty if it is unreadable."""
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        return set(), "", ""
    error: Any = cast("dict[str, Any]", parsed).get("error") if isinstance(parsed, dict) else None
    if not isinstance(error, dict):
        return set(), str(error or ""), ""
    error = cast("dict[str, Any]", error)
    listed = [*error.get("errors", ()), *error.get("details", ())]
    entries = [cast("dict[str, Any]", entry) for entry in listed if isinstance(entry, dict)]
    named = [*(entry.get("reason") for entry in entries), error.get("status")]
    reasons = {str(reason).replace("_", "").lower() for reason in named if reason}
    location = next((str(entry["location"]) for entry in entries if entry.get("location")), "")
    return reasons, str(error.get("message", "")).strip().rstrip("."), location


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None  # a date instead of seconds: use our own backoff
