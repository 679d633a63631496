"""`GET /api/audit`: the audit log, for auditors."""

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from resources.core.domain import Access, Role
from resources.core.errors import InvalidRequestError
from resources.core.moments import checked
from resources.core.permissions import fold
from serving.http import cursors
from serving.http.audit import AuditEvent
from serving.http.fields import PAGE, Cursor, Limit
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.http.service import HttpServices
from sql.fields import Moment
from sql.serving import WebReads
from sql.serving_rows import AuditEntry

MAX_TEXT = 320


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit log, newest first."""

    events: list[AuditEntry]
    """The events of this page."""
    next_cursor: str | None
    """The parameter `cursor` of the next page; null on the last one."""


@get(
    "/api/audit",
    operation_id="listAudit",
    tags=["audit"],
    summary="Read the audit log",
    guards=[NeedsRole(Role.AUDITOR)],
    opt=limited("read")
    | described(
        parameters={"action": "key_create", "limit": 10},
        example={
            "events": [
                {
                    "event_id": 4711,
                    "at": "2026-11-22T00:10:00Z",
                    "email": "ada@acme.com",
                    "action": "key_create",
                    "query_id": None,
                    "query": None,
                    "doc_ids": [],
                    "detail": {"key_id": "0a1b2c3d4e5f6071", "admin": False, "scim": False},
                }
            ],
            "next_cursor": None,
        },
    ),
)
async def list_audit(
    request: Request[Access, Any, Any],
    http: NamedDependency[HttpServices],
    email: Annotated[str | None, QueryParameter(max_length=MAX_TEXT, description="Only events of this person.")] = None,
    action: Annotated[str | None, QueryParameter(max_length=MAX_TEXT, description="Only events of this kind.")] = None,
    since: Annotated[
        str | None, QueryParameter(max_length=64, description="Only events at or after this moment (RFC 3339).")
    ] = None,
    until: Annotated[
        str | None, QueryParameter(max_length=64, description="Only events before this moment (RFC 3339).")
    ] = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> AuditPage:
    """Return events of the audit log, newest first. For auditors and administrators. Reading it is itself recorded."""
    wanted = AuditQuery(email, action, _moment("since", since), _moment("until", until), limit, cursor)
    return await audit_page(http, request.user, wanted)


class AuditQuery(NamedTuple):
    """Filters on events of the audit log; None does not filter."""

    email: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = PAGE
    cursor: str | None = None


async def audit_page(http: HttpServices, access: Access, wanted: AuditQuery) -> AuditPage:
    """Return a page of the audit log, for auditors, and record that it was read. Raises `InvalidRequestError`."""
    before_at, before_id = (None, None)
    if wanted.cursor is not None:
        before_at, before_id = cursors.decode(wanted.cursor, tuple[datetime, int])
    rows = await WebReads(http.database).audit_events(
        email=None if wanted.email is None else fold(wanted.email),
        action=wanted.action,
        since=wanted.since,
        until=wanted.until,
        before_at=before_at,
        before_id=before_id,
        most=wanted.limit + 1,
    )
    asked = {"email": wanted.email, "action": wanted.action, "since": wanted.since, "until": wanted.until}
    detail = msgspec.json.encode({name: value for name, value in asked.items() if value is not None}).decode()
    await http.audit.record(AuditEvent(email=access.email, action="audit_read", detail=detail))
    page = rows[: wanted.limit]
    more = cursors.encode((page[-1].at, page[-1].event_id)) if len(rows) > wanted.limit else None
    return AuditPage(page, more)


def _moment(name: str, text: str | None) -> datetime | None:
    """Return a moment. Raises `InvalidRequestError` naming the parameter."""
    try:
        moment = None if text is None else msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        raise InvalidRequestError(f"{name}: must be a moment with an offset, such as 2026-11-22T00:10:00Z.") from None
    return None if moment is None else checked(moment, name)
