"""Errors of the HTTP interface, each with its problem type (`serving.http.problems`).

The exceptions of `resources.core.errors` are mapped here only. Callers never see a stack
trace: an unexpected error is logged under an id that they can quote.
"""

import errno
import math
import re
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from resources import tracing
from resources.core import errors
from resources.logging import logger
from resources.stores import disk
from serving.http.invalid import faults
from serving.http.problems import MEDIA_TYPE, PREFIX, PROBLEMS

CHALLENGE = 'Bearer realm="concordance"'
SCIM_PATHS = "/scim/"
SCIM_ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
"""Source: RFC 7644 3.12."""

log = logger("serving")


DOCUMENTATION = "/docs"
NOTHING_SAVED = {
    "storage-full": "The disk of this installation is full, so nothing was saved.",
    "storage-read-only": "The disk of this installation is not writable, so nothing was saved.",
}
"""The detail names no folder: that is for administrators, in the log, /readyz and `concordance status`."""
NOT_READ = (
    "The disk of this installation is full or not writable, so this cannot be read at the moment. Try again later."
)
READING = frozenset(
    {"search", "ragSearch", "searchFiles", "ask", "chat", "askBook", "askBookSelection", "askWidget", "formatCitations"}
)
"""Operations that only read although their method is POST."""
DISK_PROBLEMS = {errno.ENOSPC: "storage-full", errno.EDQUOT: "storage-full", errno.EROFS: "storage-read-only"}


class ProblemError(errors.ConcordanceError):
    """An error raised with its problem type. `extra` are further members of the response body."""

    def __init__(self, slug: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.slug = slug
        self.headers = headers or {}
        self.extra = extra


class UnauthorizedError(ProblemError, errors.AuthenticationError):
    """The caller is not authenticated."""

    def __init__(self, slug: str, detail: str) -> None:
        challenge = CHALLENGE if slug == "token-missing" else f'{CHALLENGE}, error="invalid_token"'
        super().__init__(slug, detail, headers={"WWW-Authenticate": challenge})


def account_inactive() -> UnauthorizedError:
    return UnauthorizedError("account-inactive", "This account is deactivated. Ask your administrator.")


def token_revoked() -> UnauthorizedError:
    return UnauthorizedError("token-revoked", "This token was revoked. Ask your administrator for a new one.")


def not_found() -> ProblemError:
    """Return the same error for a document that does not exist and for one that the caller may not see."""
    return ProblemError("not-found", "There is no such document, or you may not see it.")


def rate_limited(detail: str, seconds: float) -> ProblemError:
    """Return the problem `rate-limited`; its detail and `Retry-After` say when to try again."""
    wait = str(max(1, math.ceil(seconds)))
    return ProblemError("rate-limited", f"{detail} Try again in {wait} s.", headers={"Retry-After": wait})


def documentation_of(handler: Any) -> str:
    """Return the path of a route's documentation, or of the whole interface's for an unknown path."""
    operation, tags = getattr(handler, "operation_id", None), getattr(handler, "tags", None)
    return f"{DOCUMENTATION}#/{tags[0]}/{operation}" if operation and tags else DOCUMENTATION


def _handler(request: Request[Any, Any, Any]) -> Any:
    """Return the handler of a request, or None if its path is unknown."""
    scope: Any = request.scope
    return scope.get("route_handler")


def problem(request: Request[Any, Any, Any], slug: str, detail: str, **extra: Any) -> Response[dict[str, Any]]:
    """Return a response with problem details of a type of `PROBLEMS`; on paths of SCIM an error in its format."""
    kind = PROBLEMS[slug]
    headers: dict[str, str] = extra.pop("headers", {})
    status: int = extra.pop("status", kind.status)
    if request.url.path.startswith(SCIM_PATHS):
        body: dict[str, Any] = {"schemas": [SCIM_ERROR], "status": str(status), "detail": detail}
        return Response(content=body, status_code=status, media_type="application/scim+json", headers=headers)
    body = {
        "type": PREFIX + slug,
        "title": kind.title,
        "status": status,
        "detail": detail,
        "instance": request.scope["raw_path"].decode("latin-1"),
        "documentation": documentation_of(_handler(request)),
    }
    if (trace_id := tracing.trace_id()) is not None:
        body["trace_id"] = trace_id
    return Response(content=body | extra, status_code=status, media_type=MEDIA_TYPE, headers=headers)


class Explained(NamedTuple):
    """The explanation of an error for a caller: the name of a problem type, a text, and headers or further members of the body."""

    slug: str
    detail: str
    extra: dict[str, Any]


def explain(error: Exception, disk_faults: Iterable[disk.DiskFault], *, reads: bool, **where: str) -> Explained:
    """Return the explanation of an error for a caller; `disk_faults` are those that are known.

    `reads`: the request saves nothing, so a disk is not its concern. What only operators may know is logged instead, with
    `where` it happened.
    """
    detail = str(error)
    match error:
        case ProblemError():
            return Explained(error.slug, detail, {"headers": error.headers} | error.extra)
        case errors.BusyError():
            return Explained("sync-busy", detail, {"job_id": error.job_id, "merged": error.merged})
        case errors.InvalidRequestError():
            return Explained("invalid-request", detail, {})
        case errors.SkipDocumentError():
            return Explained("unsupported-type", detail, {})
        case errors.AuthenticationError():
            return Explained("token-invalid", detail, {"headers": {"WWW-Authenticate": CHALLENGE}})
        case errors.QuotaExceededError():
            return Explained("quota-exceeded", detail, {})
        case errors.TooManyWaitingError():
            return Explained("too-many-waiting", detail, _retry_after(error))
        case errors.StorageFullError() | errors.StorageReadOnlyError() if reads:
            return Explained("service-unavailable", NOT_READ, _retry_after(error))
        case errors.StorageFullError():
            return Explained("storage-full", detail, {})
        case errors.StorageReadOnlyError():
            return Explained("storage-read-only", detail, {})
        case errors.ServiceUnavailableError() | errors.NotRunningError() if not reads and (
            slug := _disk_problem(disk_faults)
        ):
            return _nothing_saved(slug, detail, where)
        case OSError() if reads and error.errno in DISK_PROBLEMS:
            log.error("disk_not_writable", **where, reason=detail)
            return Explained("service-unavailable", NOT_READ, {})
        case OSError() if error.errno in DISK_PROBLEMS:
            return _nothing_saved(DISK_PROBLEMS[error.errno], detail, where | {"file": str(error.filename or "")})
        case errors.OverloadedError():
            return Explained("overloaded", detail, _retry_after(error))
        case errors.TemporaryError():
            return Explained("service-unavailable", detail, _retry_after(error))
        case errors.NotRunningError():
            return Explained("service-unavailable", detail, {})
        case _:
            error_id = uuid.uuid4().hex[:12]
            log.error("unexpected_error", error_id=error_id, **where, exc_info=error)
            detail = f"An unexpected error was logged. Quote {error_id} to an administrator."
            return Explained("internal", detail, {"error_id": error_id})


def _retry_after(error: errors.TemporaryError) -> dict[str, Any]:
    return {"headers": {"Retry-After": str(max(1, math.ceil(error.retry_after)))}} if error.retry_after else {}


def _disk_problem(disk_faults: Iterable[disk.DiskFault]) -> str | None:
    """Return the problem type if a disk of this installation is known not to be writable."""
    states = {fault.state for fault in disk_faults}
    if disk.FULL in states:
        return "storage-full"
    return "storage-read-only" if states & {disk.READ_ONLY, disk.REFUSED} else None


def _nothing_saved(slug: str, reason: str, where: dict[str, str]) -> Explained:
    log.error("disk_not_writable", **where, reason=reason)
    return Explained(slug, NOTHING_SAVED[slug], {})


def handle(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Map an exception of `resources.core.errors`, a full disk, or an unexpected error."""
    services: Any = request.app.state.get("services")
    disk_faults = () if services is None else services.http.monitor.disk_faults
    reads = request.method in {"GET", "HEAD"} or getattr(_handler(request), "operation_id", None) in READING
    explained = explain(error, disk_faults, reads=reads, path=request.url.path, method=request.method)
    return problem(request, explained.slug, explained.detail, **explained.extra)


def handle_validation(request: Request[Any, Any, Any], error: ValidationException) -> Response[dict[str, Any]]:
    """Name each invalid field, what is wrong with it and what is allowed."""
    found = faults(request, error)
    detail = "; ".join(str(fault) for fault in found) or error.detail
    return problem(request, "invalid-request", detail, errors=found)


_BY_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-type",
    503: "service-unavailable",
}


DISCONNECTED = "client disconnected prematurely"
"""Litestar's message when a client leaves before its body is complete, which it reports as status 500."""


def handle_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, Any]]:
    """Map Litestar's errors, such as an unknown path, a wrong method, a body that is too large or invalid JSON."""
    if error.detail == DISCONNECTED:
        log.debug("client_disconnected", path=request.url.path)
        return problem(request, "invalid-request", "The body of the request ended early.")
    if error.status_code >= 500:
        return handle(request, error)
    slug = _BY_STATUS.get(error.status_code, "invalid-request")
    detail, headers = error.detail, dict(error.headers or {})
    if slug == "not-found":
        detail = "Unknown path. The interface is described at /docs."
    elif slug == "method-not-allowed":
        headers["allow"] = re.sub(r"\bGET\b", "GET, HEAD", headers.get("allow", ""))
        detail = f"This path does not take {request.method}. It takes {headers['allow']}."
    elif slug == "too-large":
        detail = "The body of the request is larger than this route accepts."
    return problem(request, slug, detail, headers=headers, status=error.status_code)


def handle_depth(request: Request[Any, Any, Any], _error: RecursionError) -> Response[dict[str, Any]]:
    """Refuse JSON that is nested more deeply than the decoder supports."""
    return problem(request, "invalid-request", "The JSON of the request is nested too deeply.")


HANDLERS: dict[Any, Any] = {
    ValidationException: handle_validation,
    HTTPException: handle_http,
    RecursionError: handle_depth,
    Exception: handle,
}
"""By the exception that they map."""
