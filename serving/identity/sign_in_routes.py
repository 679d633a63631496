"""The pages `/sign-in` and `/sign-out`, and the callback of the providers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import FromPath

from resources.core.errors import TemporaryError
from serving.http.errors import ProblemError, UnauthorizedError
from serving.http.origins import FORM, accepts
from serving.http.request_limits import limited
from serving.identity.authentication import (
    SESSION,
    SessionFrom,
    check_same_origin,
    origin_of,
    session_access,
    session_of,
)
from serving.identity.service import IdentityServices
from serving.identity.sign_in import events, links, pages
from serving.identity.sign_in.claims import ProviderIdentity
from serving.identity.sign_in.flow import browser_cookie_name, own_path
from serving.identity.sign_in.provider import Tokens
from serving.identity.sign_in.refusals import SignInRefusedError
from serving.identity.sign_in.sessions import LINK, SAMPLE, session_cookie
from serving.web.docs import page
from serving.web.render import view

DATABASE_DOWN = "The database does not answer at the moment. Please try again in a minute."


@get(
    "/sign-in",
    operation_id="signInPage",
    include_in_schema=False,
    exclude_from_auth=True,
    opt=limited("open") | {SESSION: SessionFrom.LINK},
)
async def sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[str]:
    """Show a button for each provider. `next` is the path to return to."""
    after = own_path(request.query_params.get("next", "/"))
    if (email := await signed_in_email(request, identity)) is not None:
        return pages.already_page(email, after)
    return pages.sign_in_page(list(identity.providers.values()), identity.sample_people, after)


async def signed_in_email(request: Request[Any, Any, Any], identity: IdentityServices) -> str | None:
    """Return the user who is signed in in this browser; None if no one is or it cannot be looked up."""
    try:
        cookie = session_of(identity, request)
        return (await session_access(identity, cookie, request.client)).access.email if cookie else None
    except (ProblemError, TemporaryError):
        return None


@get(
    "/sign-in/{provider:str}",
    operation_id="startSignIn",
    include_in_schema=False,
    exclude_from_auth=True,
    opt=limited("sign-in"),
)
async def start_sign_in(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices], provider: FromPath[str]
) -> Response[Any]:
    """Redirect to the provider's sign-in page."""
    after = own_path(request.query_params.get("next", "/"))
    chosen = identity.providers.get(provider)
    if chosen is None:
        return _unknown()
    kept = request.cookies.get(browser_cookie_name(identity.http.settings), "")
    try:
        address, cookie = await identity.sign_in_flow.begin(chosen, after, kept, identity.http.clock())
    except TemporaryError as error:
        return pages.failure_page(_down(error), after, 503)
    return Response(None, status_code=302, headers={"Location": address}, cookies=[cookie])


@get(
    "/sign-in/{provider:str}/callback",
    operation_id="finishSignIn",
    include_in_schema=False,
    exclude_from_auth=True,
    opt=limited("sign-in") | {SESSION: SessionFrom.LINK},
)
async def finish_sign_in(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices], provider: FromPath[str]
) -> Response[Any]:
    """Complete a sign-in: begin a session and return to the page that was asked for."""
    chosen = identity.providers.get(provider)
    if chosen is None:
        return _unknown()
    address, answer = origin_of(identity, request.client), dict(request.query_params.items())
    browser = request.cookies.get(browser_cookie_name(identity.http.settings), "")
    try:
        async with identity.http.sign_ins.attempt(address, answer.get("state", "")):
            finished = await identity.sign_in_flow.finish(chosen, answer, browser, identity.http.clock())
            await _require_active(identity, finished.identity.email)
            return await _begin(request, identity, finished.identity, provider, finished.tokens, finished.after)
    except SignInRefusedError as error:
        await identity.http.audit.record(events.sign_in_refused(error.email, provider, error.reason, address))
        return pages.failure_page(str(error), "/", 403)
    except ProblemError as error:
        return pages.failure_page(str(error), "/", 429 if error.slug == "rate-limited" else 403)
    except TemporaryError as error:
        await identity.http.audit.record(events.sign_in_refused("", provider, "unavailable", address))
        return pages.failure_page(_down(error), "/", 503)


@post(
    "/sign-in/sample",
    operation_id="sampleSignIn",
    include_in_schema=False,
    exclude_from_auth=True,
    opt=limited("sign-in") | accepts(FORM) | {SESSION: SessionFrom.OWN},
)
async def sample_sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """Sign in as a person of the sample company, if this installation only tries it out."""
    check_same_origin(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    after = own_path(fields.get("next", ["/"])[0])
    chosen = fields.get("person", [""])[0]
    person = next((one for one in identity.sample_people if one.id == chosen), None)
    if person is None:
        return _unknown()
    who = ProviderIdentity(person.id, person.email, person.groups)
    try:
        return await _begin(request, identity, who, SAMPLE, Tokens(), after, administrator=person.administrator)
    except TemporaryError as error:
        return pages.failure_page(_down(error), after, 503)


@get(
    links.PATH,
    operation_id="linkPage",
    include_in_schema=False,
    exclude_from_auth=True,
    sync_to_thread=False,
    opt=limited("sign-in"),
)
def link_page() -> Response[str]:
    """Show whom a link signs in, and a button. The page's script reads the token, which is in the address's fragment."""
    return view("sign_in_link.html", script="link.js")


@post(
    links.PATH,
    operation_id="linkSignIn",
    include_in_schema=False,
    exclude_from_auth=True,
    opt=limited("sign-in") | accepts(FORM) | {SESSION: SessionFrom.OWN},
)
async def link_sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """Sign in with the token of a link that `concordance sign-in` printed."""
    check_same_origin(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = fields.get("token", [""])[0]
    address = origin_of(identity, request.client)
    try:
        async with identity.http.sign_ins.attempt(address, token):
            grant = await links.use(identity.http.database, identity.http.key, token, identity.http.clock())
            await _require_active(identity, grant.email)
        who = ProviderIdentity(grant.email, grant.email, [])
        return await _begin(request, identity, who, LINK, Tokens(), "/", administrator=grant.administrator)
    except SignInRefusedError as error:
        await identity.http.audit.record(events.sign_in_refused(error.email, LINK, error.reason, address))
        return pages.failure_page(str(error), "/", 403)
    except ProblemError as error:
        return pages.failure_page(str(error), "/", 429 if error.slug == "rate-limited" else 403)
    except TemporaryError as error:
        return pages.failure_page(_down(error), "/", 503)


async def _require_active(identity: IdentityServices, email: str) -> None:
    try:
        await identity.directory.require_active(email, identity.http.fresh_since())
    except UnauthorizedError as error:
        raise SignInRefusedError("account-inactive", str(error), email) from None


async def _begin(
    request: Request[Any, Any, Any],
    identity: IdentityServices,
    who: ProviderIdentity,
    provider: str,
    tokens: Tokens,
    after: str,
    *,
    administrator: bool = False,
) -> Response[Any]:
    """Begin a session in place of the browser's former one, and redirect."""
    await _end_current(request, identity, "signed in again")
    session_id, cookie = await identity.sessions.begin(
        who,
        provider,
        tokens,
        request.headers.get("user-agent", ""),
        identity.http.clock(),
        administrator=administrator,
    )
    address = origin_of(identity, request.client)
    event = events.signed_in(who.email, provider, session_id, address, administrator=administrator)
    await identity.http.audit.record(event)
    spent = Cookie(key=browser_cookie_name(identity.http.settings), path="/", max_age=0)
    return Response(None, status_code=303, headers={"Location": after}, cookies=[cookie, spent])


async def _end_current(request: Request[Any, Any, Any], identity: IdentityServices, reason: str) -> None:
    try:
        cookie = session_of(identity, request)
        if not cookie:
            return
        current = await session_access(identity, cookie, request.client)
    except ProblemError:
        return
    if await identity.sessions.end(current.session_id, current.access.email) is not None:
        event = events.session_ended(current.access.email, current.session_id, by=current.access.email, reason=reason)
        await identity.http.audit.record(event)


@post(
    "/sign-out",
    operation_id="signOut",
    include_in_schema=False,
    exclude_from_auth=True,
    status_code=200,
    opt=limited("sign-in") | accepts(FORM) | {SESSION: SessionFrom.OWN},
)
async def sign_out(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """End the browser's session, and go on to the provider's sign-out page."""
    check_same_origin(request)
    form = None
    cookie = session_of(identity, request)
    try:
        if cookie:
            current = await session_access(identity, cookie, request.client)
            ended = await identity.sessions.end(current.session_id, current.access.email)
            if ended is not None:
                await identity.http.audit.record(events.signed_out(ended.email, current.session_id))
                form = await identity.sessions.sign_out_form(ended)
    except UnauthorizedError:
        pass  # it was over already
    except TemporaryError as error:
        return pages.failure_page(_down(error), "/", 503)
    answer = pages.signed_out_page(form)
    answer.cookies = [session_cookie(identity.http.settings, "", 0)]
    return answer


def _unknown() -> Response[str]:
    body = '<h1>Unknown sign-in</h1><p>There is no such way to sign in here.</p><p><a class="button" href="/sign-in">Sign in</a></p>'
    return page("Unknown sign-in", body, 404)


def _down(error: TemporaryError) -> str:
    from serving.identity.sign_in.refusals import ProviderDownError

    return str(error) if isinstance(error, ProviderDownError) else DATABASE_DOWN
