"""Every error that leaves the HTTP interface: an exception enters, RFC 9457 problem details leave.

`PROBLEMS` is the whole list of problem types; the documentation page is checked against it. The tree of `resources.core.errors` is
mapped here and nowhere else. A person never sees a stack trace: an unforeseen error is logged under an id that they can quote.
"""

from __future__ import annotations

import errno
import math
import uuid
from typing import Any, NamedTuple

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from resources.core import errors
from resources.logging import logger
from resources.stores import disk

MEDIA_TYPE = "application/problem+json"
PREFIX = "/problems/"

log = logger("serving")


class ProblemType(NamedTuple):
    """One kind of problem: its HTTP status, its title, and what a person does about it."""

    status: int
    title: str
    meaning: str


PROBLEMS: dict[str, ProblemType] = {
    "invalid-request": ProblemType(400, "The request is not valid", "The detail names the field and what is allowed."),
    "token-missing": ProblemType(
        401, "Sign in first", "Send `Authorization: Bearer TOKEN`; `concordance token EMAIL` makes one."
    ),
    "token-expired": ProblemType(401, "The token has expired", "Ask for a new token."),
    "token-signature": ProblemType(401, "The token was signed by another key", "Ask this installation for a token."),
    "token-malformed": ProblemType(401, "The token cannot be read", "Send the whole token, unchanged."),
    "token-invalid": ProblemType(
        401, "The token is not meant for this service", "The detail names the claim that is wrong."
    ),
    "api-key-invalid": ProblemType(
        401, "The API key is not valid", "It is unknown, revoked or expired: ask for a new one."
    ),
    "admin-only": ProblemType(403, "Administrators only", "Use a token made with `--admin`."),
    "origin-foreign": ProblemType(
        403,
        "The request comes from a foreign page",
        "Open the page under the address that people use, or send a token.",
    ),
    "sharing-not-allowed": ProblemType(
        403, "You may not share this widely", "Share within your own domain and groups, or ask an administrator."
    ),
    "not-found": ProblemType(404, "Not found", "It does not exist, or you may not see it."),
    "unknown-source": ProblemType(404, "There is no such source", "The detail lists the known ones."),
    "method-not-allowed": ProblemType(
        405, "This address does not take that method", "See the interface's description at /docs."
    ),
    "sync-busy": ProblemType(409, "A sync of this source is running", "`job_id` names it; wait for it or follow it."),
    "source-not-configured": ProblemType(
        409, "This source is not set up", "The detail names the settings that are missing."
    ),
    "too-large": ProblemType(413, "Too large", "The detail names the limit."),
    "quota-exceeded": ProblemType(
        413, "You keep as much as you may", "The detail names the limit. Delete uploads, or ask an administrator."
    ),
    "unsupported-type": ProblemType(415, "This type of file is not supported", "The detail names the supported ones."),
    "content-type": ProblemType(
        415, "The body is of another type than declared", "Send the `Content-Type` that the detail names."
    ),
    "host-unknown": ProblemType(
        421,
        "Nothing is served under this host name",
        "Use the address that people use, or add the name to `CONCORDANCE_ALLOWED_HOSTS`.",
    ),
    "rate-limited": ProblemType(429, "Too many requests", "Wait as many seconds as `Retry-After` says."),
    "too-many-waiting": ProblemType(
        429, "Too many uploads wait to be indexed", "Wait as many seconds as `Retry-After` says."
    ),
    "headers-too-large": ProblemType(
        431, "The request's header is too large", "The detail names the limit: send fewer or shorter headers."
    ),
    "request-timeout": ProblemType(408, "The request came too slowly", "Send it again, over a faster connection."),
    "too-many-connections": ProblemType(503, "Too many connections", "Close some, or wait as `Retry-After` says."),
    "storage-full": ProblemType(
        507, "The disk is full", "Nothing was kept. Whoever runs this installation must free space; then send it again."
    ),
    "storage-read-only": ProblemType(
        507, "The disk cannot be written to", "Nothing was kept. Whoever runs this installation must make it writable."
    ),
    "internal": ProblemType(500, "Something went wrong here", "Quote `error_id` to whoever runs this installation."),
    "service-unavailable": ProblemType(
        503, "A part of the service is down", "Try again shortly; /readyz tells administrators which part."
    ),
    "overloaded": ProblemType(
        503, "Too busy to answer in time", "Try again after as many seconds as `Retry-After` says."
    ),
}
"""Problem types by the last part of their `type`."""

KEPT_NOTHING = {
    "storage-full": "The disk of this installation is full, so this could not be kept.",
    "storage-read-only": "The disk of this installation cannot be written to, so this could not be kept.",
}
"""What everybody is told; the folder is for administrators: the log, /readyz and `concordance status` name it."""
DISK_PROBLEMS = {errno.ENOSPC: "storage-full", errno.EDQUOT: "storage-full", errno.EROFS: "storage-read-only"}


class ProblemError(errors.ConcordanceError):
    """A problem whose type is known where it arises. `extra` are members beside the standard ones."""

    def __init__(self, slug: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.slug = slug
        self.headers = headers or {}
        self.extra = extra


class UnauthorizedError(ProblemError, errors.AuthenticationError):
    """The caller is not signed in; says how to, in words and in `WWW-Authenticate`."""

    def __init__(self, slug: str, detail: str) -> None:
        code = "invalid_request" if slug == "token-missing" else "invalid_token"
        challenge = (
            'Bearer realm="concordance"' if slug == "token-missing" else f'Bearer realm="concordance", error="{code}"'
        )
        super().__init__(slug, detail, headers={"WWW-Authenticate": challenge})


def not_found() -> ProblemError:
    """Return the one answer for what does not exist and for what the caller may not see."""
    return ProblemError("not-found", "There is no such document, or you may not see it.")


def problem(request: Request[Any, Any, Any], slug: str, detail: str, **extra: Any) -> Response[dict[str, Any]]:
    """Return problem details of a listed type."""
    kind = PROBLEMS[slug]
    headers: dict[str, str] = extra.pop("headers", {})
    status: int = extra.pop("status", kind.status)
    body = {
        "type": PREFIX + slug,
        "title": kind.title,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
    }
    return Response(content=body | extra, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _retry_after(error: errors.TemporaryError) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(error.retry_after)))} if error.retry_after else {}


def handle_known(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Map our own tree of errors."""
    detail = str(error)
    match error:
        case ProblemError():
            return problem(request, error.slug, detail, headers=error.headers, **error.extra)
        case errors.BusyError():
            return problem(request, "sync-busy", detail, job_id=error.job_id)
        case errors.InvalidRequestError():
            return problem(request, "invalid-request", detail)
        case errors.SkipDocumentError():
            return problem(request, "unsupported-type", detail)
        case errors.AuthenticationError():
            return problem(request, "token-invalid", detail, headers={"WWW-Authenticate": 'Bearer realm="concordance"'})
        case errors.AccessDeniedError():
            return problem(request, "not-found", str(not_found()))
        case errors.QuotaExceededError():
            return problem(request, "quota-exceeded", detail)
        case errors.TooManyWaitingError():
            return problem(request, "too-many-waiting", detail, headers=_retry_after(error))
        case errors.StorageFullError():
            return problem(request, "storage-full", detail)
        case errors.StorageReadOnlyError():
            return problem(request, "storage-read-only", detail)
        case errors.ServiceUnavailableError() | errors.NotRunningError() if slug := _disk_state(request):
            log.error("disk_takes_no_writes", path=request.url.path, reason=detail)
            return problem(request, slug, KEPT_NOTHING[slug])
        case errors.OverloadedError():
            return problem(request, "overloaded", detail, headers=_retry_after(error))
        case errors.TemporaryError():
            return problem(request, "service-unavailable", detail, headers=_retry_after(error))
        case errors.NotRunningError():
            return problem(request, "service-unavailable", detail)
        case _:
            return handle_unknown(request, error)


def _disk_state(request: Request[Any, Any, Any]) -> str | None:
    """Return the problem that a part which is down comes from, if the disks of this installation take no writes."""
    services: Any = request.app.state.get("services")
    states: set[str] = set() if services is None else {fault.state for fault in services.figures.disk}
    if disk.FULL in states:
        return "storage-full"
    return "storage-read-only" if states & {disk.READ_ONLY, disk.REFUSED} else None


def handle_validation(request: Request[Any, Any, Any], error: ValidationException) -> Response[dict[str, Any]]:
    """Name each field that is wrong and why."""
    faults: list[dict[str, str]] = []
    for fault in error.extra if isinstance(error.extra, list) else []:
        field = fault.get("key") or fault.get("source") or "body"
        faults.append({"field": str(field), "message": str(fault.get("message", ""))})
    detail = "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults) or error.detail
    return problem(request, "invalid-request", detail, errors=faults)


_BY_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-type",
    503: "service-unavailable",
}


DISCONNECTED = "client disconnected prematurely"
"""What Litestar says when a client leaves before its body is complete, as an error of ours."""


def handle_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, Any]]:
    """Map the framework's own errors (unknown address, wrong method, body too large, unreadable JSON)."""
    if error.detail == DISCONNECTED:
        log.debug("client_left", path=request.url.path)
        return problem(request, "invalid-request", "The body of the request ended early.")
    if error.status_code >= 500:
        return handle_unknown(request, error)
    slug = _BY_STATUS.get(error.status_code, "invalid-request")
    detail = error.detail
    if slug == "not-found":
        detail = "There is nothing at this address. See /docs for the interface."
    elif slug == "too-large":
        detail = "The body of the request is larger than this address takes."
    return problem(request, slug, detail, headers=dict(error.headers or {}), status=error.status_code)


def handle_unknown(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Log an unforeseen error with its trace under an id; tell the person that id and nothing else."""
    error_id = uuid.uuid4().hex[:12]
    log.error("unforeseen_error", error_id=error_id, path=request.url.path, method=request.method, exc_info=error)
    detail = f"An unforeseen error was logged. Quote {error_id} to whoever runs this installation."
    return problem(request, "internal", detail, error_id=error_id)


def handle_depth(request: Request[Any, Any, Any], _error: RecursionError) -> Response[dict[str, Any]]:
    """Refuse JSON that is nested more deeply than its decoder goes."""
    return problem(request, "invalid-request", "The JSON of the request is nested too deeply.")


def handle_os(request: Request[Any, Any, Any], error: OSError) -> Response[dict[str, Any]]:
    """Say that the disk takes no writes; anything else of the operating system is unforeseen."""
    if error.errno in DISK_PROBLEMS:
        slug = DISK_PROBLEMS[error.errno]
        log.error("disk_takes_no_writes", path=request.url.path, file=str(error.filename or ""), reason=str(error))
        return problem(request, slug, KEPT_NOTHING[slug])
    return handle_unknown(request, error)


HANDLERS: dict[Any, Any] = {
    OSError: handle_os,
    errors.ConcordanceError: handle_known,
    ValidationException: handle_validation,
    HTTPException: handle_http,
    RecursionError: handle_depth,
    Exception: handle_unknown,
}
"""What `Litestar(exception_handlers=…)` takes."""
