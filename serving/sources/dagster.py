"""`GET /dagster`, by which people who are signed in open Dagster's webserver, and `GET /dagster/rights`, which that webserver asks."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler

from resources.core.domain import Access, Role
from resources.dagster_access import Grant, Person, browser_address, grant_of_session, link_of
from resources.dagster_access import Role as Rights
from serving.http.errors import ProblemError, UnauthorizedError
from serving.http.open_route import open_route
from serving.http.roles import AnyConnection, NeedsRole, dagster_rights
from serving.identity.authentication import credential_of, origin_of, session_access, session_access_by_id, session_of
from serving.identity.sign_in import events
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.sessions import session_over
from serving.identity.visitor import page_route
from serving.sources.service import SourceServices
from serving.web.docs import page

MAY = (Role.OPERATOR, Role.AUDITOR)
ELSEWHERE = (
    "<h1>Dagster cannot be opened from here</h1><p>Concordance does not know at which address your browser reaches it. The person who "
    "runs Concordance can name it in <code>CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL</code>.</p>"
)


class DagsterRights(msgspec.Struct, frozen=True):
    """Current rights of the person of a Dagster session."""

    role: Rights


class SessionNeedsRole(NeedsRole):
    """Guard of the page that opens Dagster: a session, not a token, whose person needs one of the roles."""

    async def __call__(self, connection: AnyConnection, handler: BaseRouteHandler) -> None:
        """Raise `UnauthorizedError`, or the problem of the roles."""
        source_services: SourceServices = connection.app.state.services.source_services
        cookie = session_of(source_services.identity, connection)
        if not cookie:
            raise UnauthorizedError("token-missing", "")
        current = await session_access(source_services.identity, cookie, connection.client)
        connection.scope["user"], connection.scope["auth"] = current.access, current.session_id
        await super().__call__(connection, handler)


@page_route("/dagster", "openDagster", "sign-in", guards=[SessionNeedsRole(*MAY)])
async def open_dagster(
    request: Request[Access, str, Any], source_services: NamedDependency[SourceServices]
) -> Response[Any]:
    """Redirect to Dagster with a link that works once. `next` is a path there."""
    role, address = dagster_rights(request.user), browser_address(source_services.http.settings)
    if role is None or address is None:
        return page("Dagster", ELSEWHERE, 404)
    person = Person(request.user.email, request.auth)
    await source_services.http.audit.record(events.dagster_opened(*person, "full" if role == "admin" else "read-only"))
    target = address + own_path(request.query_params.get("next", "/"))
    location = link_of(source_services.identity.dagster_secrets, Grant(role, person), target)
    return Response(None, status_code=302, headers={"Location": location})


@open_route(get, "/dagster/rights", "dagsterRights", "open")
async def dagster_session(
    request: Request[Any, Any, Any], source_services: NamedDependency[SourceServices]
) -> DagsterRights:
    """Return what the person of a Dagster session may do now. The session is its own credential, sent as a bearer token."""
    session = credential_of(request)
    async with source_services.http.sign_ins.attempt(origin_of(source_services.identity, request.client), session):
        grant = grant_of_session(source_services.identity.dagster_secrets, session)
        if grant is None or grant.person is None:
            raise session_over()
        current = await session_access_by_id(source_services.identity, grant.person.session_id)
    role = dagster_rights(current.access)
    if role is None:
        raise ProblemError("role-required", f"Dagster needs the role {', '.join(MAY)} or administrator.")
    return DagsterRights(role)
