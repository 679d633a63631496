"""Problem types of the HTTP interface, and the body of their responses, RFC 9457 problem details.

A test compares the documentation with `PROBLEMS`.
"""

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from serving.http.invalid import FieldError

MEDIA_TYPE = "application/problem+json"
PREFIX = "/problems/"


class ProblemType(NamedTuple):
    """A kind of problem: its HTTP status, its title, and what to do about it."""

    status: int
    title: str
    meaning: str


PROBLEMS: dict[str, ProblemType] = {
    "invalid-request": ProblemType(400, "The request is not valid", "The detail names the field and what is allowed."),
    "token-missing": ProblemType(
        401, "Sign in first", "Send `Authorization: Bearer TOKEN`; `concordance token EMAIL` makes one."
    ),
    "token-expired": ProblemType(401, "The token has expired", "Ask for a new token."),
    "session-over": ProblemType(401, "The session is over", "Sign in again at `/sign-in`."),
    "token-revoked": ProblemType(401, "The token was revoked", "Ask your administrator for a new token."),
    "account-inactive": ProblemType(401, "This account is deactivated", "Ask your administrator."),
    "token-signature": ProblemType(401, "The token was signed by another key", "Ask this installation for a token."),
    "token-malformed": ProblemType(401, "The token cannot be read", "Send the whole token, unchanged."),
    "token-invalid": ProblemType(
        401, "The token is not meant for this service", "The detail names the claim that is wrong."
    ),
    "api-key-invalid": ProblemType(
        401, "The API key is not valid", "It is unknown, revoked or expired: ask for a new one."
    ),
    "scim-key": ProblemType(
        401, "A key for SCIM and SCIM only", "SCIM needs a key made with `--scim`, and such a key opens nothing else."
    ),
    "admin-only": ProblemType(
        403, "Administrators only", "Ask an administrator for the role, or use a token made with `--admin`."
    ),
    "role-required": ProblemType(
        403, "This needs a role", "The detail names it. Ask an administrator to add you to `CONCORDANCE_ROLES`."
    ),
    "session-only": ProblemType(
        403,
        "Only the service's own pages may use a session",
        "Send the header `X-Concordance: 1` from a page of this installation, or use a token.",
    ),
    "origin-foreign": ProblemType(
        403,
        "The request comes from another site's page",
        "Open the page at this installation's own address, or send a token.",
    ),
    "key-scope": ProblemType(
        403, "The key may not do this", "The detail names the scope that it lacks. Create a key with it on `/me`."
    ),
    "sign-in-only": ProblemType(403, "Only a person may do this", "Sign in with a browser, and do it there."),
    "sharing-not-allowed": ProblemType(
        403, "You may not share this widely", "Share within your own domain and groups, or ask an administrator."
    ),
    "not-shareable": ProblemType(
        409,
        "This answer cannot be shared",
        "Ask the question by itself, outside a conversation, and share that answer.",
    ),
    "not-found": ProblemType(404, "Not found", "It does not exist, or you may not see it."),
    "unknown-source": ProblemType(404, "Unknown source", "The detail lists the known sources."),
    "method-not-allowed": ProblemType(405, "Method not allowed", "The interface is described at /docs."),
    "sync-busy": ProblemType(409, "A sync of this source is running", "Wait for it to end; `job_id` names it."),
    "idempotency-key-in-use": ProblemType(
        409, "A request with this key is in progress", "Send it again after the seconds in `Retry-After`."
    ),
    "idempotency-key-reused": ProblemType(
        422, "This key was used for another body", "Choose a new `Idempotency-Key` for each new request."
    ),
    "source-not-configured": ProblemType(
        409, "This source is not set up", "The detail names the settings that are missing."
    ),
    "set-by-environment": ProblemType(
        409, "The environment sets this up", "Change it where the settings of Concordance are kept, or remove it there."
    ),
    "too-large": ProblemType(413, "Too large", "The detail names the limit."),
    "quota-exceeded": ProblemType(
        413, "Storage quota exceeded", "The detail names the limit. Delete uploads, or ask an administrator."
    ),
    "unsupported-type": ProblemType(415, "This type of file is not supported", "The detail names the supported ones."),
    "content-type": ProblemType(
        415,
        "The content type is not accepted",
        "Send the `Content-Type` that the detail names, and no `Content-Encoding`.",
    ),
    "host-unknown": ProblemType(
        421,
        "Unknown host name",
        "Use this installation's own address, or add the name to `CONCORDANCE_HTTP__ALLOWED_HOSTS`.",
    ),
    "rate-limited": ProblemType(429, "Too many requests", "Retry after the seconds in `Retry-After`."),
    "too-many-waiting": ProblemType(
        429, "Too many uploads are waiting to be indexed", "Retry after the seconds in `Retry-After`."
    ),
    "headers-too-large": ProblemType(
        431, "The request's header is too large", "The detail names the limit: send fewer or shorter headers."
    ),
    "request-timeout": ProblemType(408, "The request was sent too slowly", "Send it again over a faster connection."),
    "too-many-connections": ProblemType(
        503, "Too many connections", "Close some, or retry after the seconds in `Retry-After`."
    ),
    "too-many-in-progress": ProblemType(
        503, "Too many requests are in progress", "Nothing was done. Retry after the seconds in `Retry-After`."
    ),
    "storage-full": ProblemType(
        507, "The disk is full", "Nothing was saved. Send it again once an administrator has freed space."
    ),
    "storage-read-only": ProblemType(
        507, "The disk is not writable", "Nothing was saved. Send it again once an administrator has made it writable."
    ),
    "internal": ProblemType(500, "Unexpected error", "Quote `error_id` to an administrator."),
    "service-unavailable": ProblemType(
        503, "A dependency is unavailable", "Try again shortly; /readyz shows operators which one it is."
    ),
    "overloaded": ProblemType(503, "Too busy to answer in time", "Retry after the seconds in `Retry-After`."),
}
"""Problem types by the last part of their `type`."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error, as RFC 9457 problem details. Test `type` or `status`; `title` and `detail` are for people."""

    type: str
    """`/problems/` and the stable name of the problem."""
    title: str
    """The problem in a few words, the same for every problem of this type."""
    status: int
    """The HTTP status of the response."""
    detail: str
    """What is wrong with this request, and what to do about it."""
    instance: str | UnsetType = UNSET
    """The path of the request; empty if the request was refused before it was read. Older services leave it out then."""
    documentation: str | UnsetType = UNSET
    """The path of the route's documentation, or of the whole interface's."""
    errors: list[FieldError] | UnsetType = UNSET
    """The errors of the fields of an invalid request."""
    job_id: str | UnsetType = UNSET
    """The sync that is running, for `sync-busy`."""
    merged: bool | UnsetType = UNSET
    """For `sync-busy`, true if the request was added to that sync, which ends once it is done."""
    error_id: str | UnsetType = UNSET
    """The ID under which the error was logged, for `internal`."""
    trace_id: str | UnsetType = UNSET
    """The ID of the request's trace, if the installation exports traces."""
    error: str | UnsetType = UNSET
    """On `/api/rag.search` only: Outline's name of the error."""
