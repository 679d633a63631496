"""The problems of a route: those that its place behind the middleware implies, and those that it declares."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from litestar.handlers import HTTPRouteHandler

from resources.core.guard import JSON_ONLY
from serving.http.idempotency import IDEMPOTENT
from serving.http.json_schema import REFERENCE, Schema
from serving.http.openapi.describe import Description
from serving.http.origins import ACCEPTED
from serving.http.problems import MEDIA_TYPE, PREFIX, PROBLEMS, Problem
from serving.http.roles import NeedsRole

ALWAYS = (
    "request-timeout",
    "too-large",
    "host-unknown",
    "rate-limited",
    "headers-too-large",
    "internal",
    "overloaded",
    "too-many-connections",
    "too-many-in-progress",
)
"""The server, and the middleware in front of every route."""
SIGNED_IN = (
    "token-missing",
    "token-expired",
    "account-inactive",
    "token-revoked",
    "session-over",
    "session-only",
    "key-scope",
    "token-signature",
    "token-malformed",
    "token-invalid",
    "api-key-invalid",
    "scim-key",
    "service-unavailable",
)
STORES = ("service-unavailable", "storage-full", "storage-read-only")
"""Whatever needs the stores: a disk that is full is reported as such instead of as an unavailable dependency."""

HEADERS = {
    401: ("WWW-Authenticate", "The scheme `Bearer`, and why the credential is refused."),
    429: ("Retry-After", "Seconds to wait."),
    503: ("Retry-After", "Seconds to wait, if known."),
}


def problems_of(handler: HTTPRouteHandler, declared: Description, *, validates: bool) -> list[str]:
    """Return the problem types of a route, ordered as in `PROBLEMS`. `validates`: the route has a body or query parameters."""
    guards = cast("list[object]", handler.resolve_guards())  # pyright: ignore[reportUnknownMemberType] (of any connection)
    needed = {guard.problem for guard in guards if isinstance(guard, NeedsRole)}
    wanted = {*ALWAYS, *declared.problems, *needed}
    if not handler.opt.get("exclude_from_auth"):
        wanted |= {*SIGNED_IN, *STORES}
    if handler.http_methods - {"GET", "HEAD"}:
        wanted.add("origin-foreign")
        if handler.opt.get(ACCEPTED, JSON_ONLY).body_type is not None:
            wanted.add("content-type")
    if handler.opt.get(IDEMPOTENT):
        wanted |= {"idempotency-key-in-use", "idempotency-key-reused", "invalid-request"}
    if validates:
        wanted.add("invalid-request")
    return [slug for slug in PROBLEMS if slug in wanted]


def responses(slugs: Sequence[str], path: str, documentation: str) -> dict[str, Schema]:
    """Return the responses of these problem types by status, with an example of each."""
    statuses = dict.fromkeys(PROBLEMS[slug].status for slug in slugs)
    return {
        str(status): _response(status, [one for one in slugs if PROBLEMS[one].status == status], path, documentation)
        for status in sorted(statuses)
    }


def _response(status: int, slugs: Sequence[str], path: str, documentation: str) -> Schema:
    response: Schema = {
        "description": _described(slugs),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": f"{REFERENCE}{Problem.__name__}"},
                "examples": {slug: {"value": _example(slug, path, documentation)} for slug in slugs},
            }
        },
    }
    if status in HEADERS:
        name, meaning = HEADERS[status]
        response["headers"] = {name: {"description": meaning, "schema": {"type": "string"}}}
    return response


def _described(slugs: Iterable[str]) -> str:
    lines = [f"`{PREFIX}{slug}`: {PROBLEMS[slug].title}. {PROBLEMS[slug].meaning}" for slug in slugs]
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _example(slug: str, path: str, documentation: str) -> dict[str, Any]:
    kind = PROBLEMS[slug]
    return {
        "type": PREFIX + slug,
        "title": kind.title,
        "status": kind.status,
        "detail": kind.meaning,
        "instance": path,
        "documentation": documentation,
    }
