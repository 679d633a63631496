"""Routes of pages, who looks at one, and what browsers are shown instead of a problem: a page in the same frame."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import HTTPException, NotFoundException
from litestar.handlers import BaseRouteHandler
from litestar.types import Scope

from resources.core.domain import Access, Role
from resources.core.errors import ConcordanceError, InvalidRequestError
from serving.http.errors import HANDLERS, SCIM_PATHS, ProblemError, UnauthorizedError
from serving.http.request_limits import limited
from serving.http.roles import AnyConnection, NeedsRole
from serving.identity.authentication import SESSION, SessionFrom, access_from, credential_of, session_access, session_of
from serving.identity.scopes import KeyScope
from serving.identity.service import IdentityServices
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.pages import sign_in_page
from serving.identity.sign_in.sessions import session_cookie
from serving.web.render import view


async def visitor(request: AnyConnection, identity: IdentityServices) -> Access | None:
    """Return the access of the browser's session, or of a credential in the header; None if there is neither.

    Raises `UnauthorizedError` if there is one that is not valid, and the problem `rate-limited`.
    """
    if credential := credential_of(request):
        return await access_from(identity, credential, request.client, KeyScope.READ)
    cookie = session_of(identity, request)
    return (await session_access(identity, cookie, request.client)).access if cookie else None


async def signed_in(request: AnyConnection, identity: IdentityServices) -> Access:
    """Return the visitor's access. Raises `UnauthorizedError`, which pages answer with the sign-in page."""
    access = await visitor(request, identity)
    if access is None:
        raise UnauthorizedError("token-missing", "")
    return access


async def current_session(request: Request[Any, Any, Any], identity: IdentityServices) -> str | None:
    """Return the id of the browser's session; None if the request has another credential or none."""
    cookie = session_of(identity, request)
    return (await session_access(identity, cookie, request.client)).session_id if cookie else None


def here(request: Request[Any, Any, Any]) -> str:
    """Return the path and query of the request, to return to after signing in."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _sign_in(request: Request[Any, Any, Any], error: UnauthorizedError) -> Response[str]:
    identity: IdentityServices = request.app.state.services.identity
    note = "" if error.slug == "token-missing" else str(error)
    page = sign_in_page(identity.ways, here(request), note=note, status=401)
    if (
        error.slug == "session-over"
    ):  # with a page only: the late response to a script could delete the cookie of the next sign-in
        page.set_cookie(session_cookie(identity.http.settings, "", 0))
    return page


def _as_page(
    handle: Callable[[Request[Any, Any, Any], Any], Response[dict[str, Any]]],
    request: Request[Any, Any, Any],
    error: Exception,
) -> Response[Any]:
    """Return the problem that `handle` makes of an error as a page, or as a line for a script that asked for part of one."""
    answer = handle(request, error)
    if isinstance(error, ProblemError) and error.slug == "host-unknown":
        return answer  # nothing is shown under a name that is not ours
    if isinstance(error, NotFoundException):
        answer.content["detail"] = "There is no page at this address, or you may not see it."
    status = answer.status_code or 500
    if isinstance(error, ProblemError) and error.slug == "session-only" and request.method == "GET":
        return view("from_elsewhere.html", status=status, address=own_path(here(request)))
    if PART in request.headers:
        page: Response[Any] = view("parts/problem.html", status=status, problem=answer.content)
    elif isinstance(error, UnauthorizedError):
        page = _sign_in(request, error)
    else:
        page = view("problem.html", request.state.get(VISITOR), status=status, problem=answer.content)
    page.headers.update(answer.headers)
    return page


def is_navigation(request: Request[Any, Any, Any]) -> bool:
    """Return True if a browser asks for a page. Programs and scripts accept anything, or name another type.

    Java's programs name `text/html` first, so below `/api/` it has to be what browsers name beside it.
    """
    path = request.url.path
    if request.method not in ("GET", "HEAD") or path.startswith(SCIM_PATHS):
        return False
    return ("application/xhtml+xml" if path.startswith("/api/") else "text/html") in request.headers.get("accept", "")


def _as_asked(
    handle: Callable[[Request[Any, Any, Any], Any], Response[dict[str, Any]]],
    request: Request[Any, Any, Any],
    error: Exception,
) -> Response[Any]:
    return _as_page(handle, request, error) if is_navigation(request) else handle(request, error)


async def identify_visitor(error: Exception, scope: Scope) -> None:
    """Look up who sees a refusal, for the navigation of its page. Nobody, if the refusal is about the sign-in or the load."""
    about = error.slug if isinstance(error, ProblemError) else ""
    refused = isinstance(error, (ProblemError, HTTPException, InvalidRequestError))
    if scope["type"] != "http" or not refused or isinstance(error, UnauthorizedError) or about in _UNIDENTIFIED:
        return
    request: Request[Any, Any, Any] = Request(scope)
    if is_navigation(request):
        with suppress(ConcordanceError):
            request.state[VISITOR] = await visitor(request, request.app.state.services.identity)


VISITOR = "visitor"
"""Name in a request's state of the access of the person who sees a refusal."""
_UNIDENTIFIED = ("rate-limited", "host-unknown", "origin-foreign", "session-only")
PART = "x-part"
"""Header of requests for a part of a page."""
PAGE_ERRORS: dict[Any, Any] = {kind: partial(_as_page, handle) for kind, handle in HANDLERS.items()}
"""Passed to each page's route: what the interface answers with a problem, a page says in words."""
ERRORS: dict[Any, Any] = {kind: partial(_as_asked, handle) for kind, handle in HANDLERS.items()}
"""Passed to `Litestar(exception_handlers=…)`: a problem for programs, a page for a browser that opens the address."""


class VisitorNeedsRole(NeedsRole):
    """Guard of a page for roles: the visitor is signed in, as the request's user, and needs one of them."""

    async def __call__(self, connection: AnyConnection, handler: BaseRouteHandler) -> None:
        """Raise `UnauthorizedError`, or the problem of the roles in words for somebody who cannot change them."""
        connection.scope["user"] = await signed_in(connection, connection.app.state.services.identity)
        try:
            await super().__call__(connection, handler)
        except ProblemError as refused:
            names = " or ".join(role.value for role in (*self.roles, Role.ADMINISTRATOR))
            message = f"This page needs the role {names}. Ask an administrator for access."
            raise ProblemError(refused.slug, message) from None


def page_route(
    path: str, operation_id: str, limits: str, accepted: SessionFrom = SessionFrom.OWN, guards: Sequence[NeedsRole] = ()
) -> get:
    """Return the decorator of a page's handler. The page is not in the OpenAPI document.

    A page that only shows something may accept links on other sites. From these, the others open once the visitor confirms it.
    """
    return get(
        path,
        operation_id=operation_id,
        include_in_schema=False,
        exclude_from_auth=True,
        exception_handlers=PAGE_ERRORS,
        guards=guards,
        opt=limited(limits) | {SESSION: accepted},
    )
