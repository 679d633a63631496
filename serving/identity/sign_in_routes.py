"""The pages `/sign-in` and `/sign-out`, and the callback of the providers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from resources.core.errors import TemporaryError
from serving.http.errors import ProblemError, UnauthorizedError
from serving.http.open_route import open_route
from serving.http.origins import FORM, accepts
from serving.identity.authentication import SESSION, SessionFrom, check_same_origin, session_access, session_of
from serving.identity.begin import attempted, begin, down, require_active
from serving.identity.service import IdentityServices
from serving.identity.sign_in import events, pages
from serving.identity.sign_in.browsers import browser_cookie_name
from serving.identity.sign_in.claims import ProviderIdentity
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.sessions import SAMPLE, session_cookie


@open_route(get, "/sign-in", "signInPage", "open", {SESSION: SessionFrom.LINK})
async def sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[str]:
    """Show the ways to sign in. `next` is the path to return to."""
    after = own_path(request.query_params.get("next", "/"))
    if (email := await signed_in_email(request, identity)) is not None:
        return pages.already_page(email, after)
    return pages.sign_in_page(identity.ways, after)


async def signed_in_email(request: Request[Any, Any, Any], identity: IdentityServices) -> str | None:
    """Return the user who is signed in in this browser; None if no one is or it cannot be looked up."""
    try:
        cookie = session_of(identity, request)
        return (await session_access(identity, cookie, request.client)).access.email if cookie else None
    except (ProblemError, TemporaryError):
        return None


@open_route(get, "/sign-in/{provider:str}", "startSignIn", "sign-in")
async def start_sign_in(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices], provider: FromPath[str]
) -> Response[Any]:
    """Redirect to the provider's sign-in page."""
    after = own_path(request.query_params.get("next", "/"))
    chosen = identity.providers.get(provider)
    if chosen is None:
        return pages.unknown_page()
    kept = request.cookies.get(browser_cookie_name(identity.http.settings), "")
    try:
        address, cookie = await identity.sign_in_flow.begin(chosen, after, kept, identity.http.clock())
    except TemporaryError as error:
        return pages.failure_page(down(error), after, 503)
    return Response(None, status_code=302, headers={"Location": address}, cookies=[cookie])


@open_route(get, "/sign-in/{provider:str}/callback", "finishSignIn", "sign-in", {SESSION: SessionFrom.LINK})
async def finish_sign_in(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices], provider: FromPath[str]
) -> Response[Any]:
    """Complete a sign-in: begin a session and return to the page that was asked for."""
    chosen = identity.providers.get(provider)
    if chosen is None:
        return pages.unknown_page()
    answer = dict(request.query_params.items())
    browser = request.cookies.get(browser_cookie_name(identity.http.settings), "")

    async def sign_in() -> Response[Any]:
        finished = await identity.sign_in_flow.finish(chosen, answer, browser, identity.http.clock())
        await require_active(identity, finished.identity.email)
        return await begin(request, identity, finished.identity, provider, finished.after, tokens=finished.tokens)

    state = answer.get("state", "")
    return await attempted(request, identity, provider, state, sign_in, after=identity.sign_in_flow.after(state))


@open_route(post, "/sign-in/sample", "sampleSignIn", "sign-in", accepts(FORM) | {SESSION: SessionFrom.OWN})
async def sample_sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """Sign in as a person of the sample company, if this installation only tries it out."""
    check_same_origin(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    after = own_path(fields.get("next", ["/"])[0])
    chosen = fields.get("person", [""])[0]
    person = next((one for one in identity.sample_people if one.id == chosen), None)
    if person is None:
        return pages.unknown_page()
    who = ProviderIdentity(person.id, person.email, person.groups)
    try:
        return await begin(request, identity, who, SAMPLE, after, administrator=person.administrator)
    except TemporaryError as error:
        return pages.failure_page(down(error), after, 503)


@open_route(post, "/sign-out", "signOut", "sign-in", accepts(FORM) | {SESSION: SessionFrom.OWN}, status=200)
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
        return pages.failure_page(down(error), "/", 503)
    answer = pages.signed_out_page(form)
    answer.cookies = [session_cookie(identity.http.settings, "", 0)]
    return answer
