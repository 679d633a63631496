"""The end of every sign-in: a session in place of the browser's former one, or a page that says why there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Request, Response

from resources.core.errors import TemporaryError
from serving.http.errors import ProblemError, UnauthorizedError
from serving.identity.authentication import origin_of, session_of
from serving.identity.service import IdentityServices
from serving.identity.sign_in import events, pages
from serving.identity.sign_in.claims import ProviderIdentity
from serving.identity.sign_in.provider import Tokens
from serving.identity.sign_in.refusals import ProviderDownError, SignInRefusedError

DATABASE_DOWN = "The database does not answer at the moment. Please try again in a minute."


async def attempted(
    request: Request[Any, Any, Any],
    identity: IdentityServices,
    way: str,
    credential: str,
    sign_in: Callable[[], Awaitable[Response[Any]]],
    *,
    after: str,
) -> Response[Any]:
    """Return the response of a sign-in, or the page that says why it failed. `after` is the path to go on to with another one.

    Failures count for the address of the request, and refusals are audited.
    """
    address = origin_of(identity, request.client)
    try:
        async with identity.http.sign_ins.attempt(address, credential):
            return await sign_in()
    except SignInRefusedError as error:
        await identity.http.audit.record(events.sign_in_refused(error.email, way, error.reason, address))
        return pages.failure_page(str(error), after, 403)
    except ProblemError as error:
        return pages.failure_page(str(error), after, 429 if error.slug == "rate-limited" else 403)
    except TemporaryError as error:
        await identity.http.audit.record(events.sign_in_refused("", way, "unavailable", address))
        return pages.failure_page(down(error), after, 503)


async def require_active(identity: IdentityServices, email: str) -> None:
    """Raise `SignInRefusedError` for a person whom a directory reports as inactive. Raises `RegistryDownError`."""
    try:
        await identity.directory.require_active(email, identity.http.fresh_since())
    except UnauthorizedError as error:
        raise SignInRefusedError("account-inactive", str(error), email) from None


async def begin(
    request: Request[Any, Any, Any],
    identity: IdentityServices,
    who: ProviderIdentity,
    way: str,
    after: str,
    *,
    tokens: Tokens | None = None,
    administrator: bool = False,
) -> Response[Any]:
    """Begin a session in place of the browser's former one, and redirect. `way` is a provider, or one of our own ways to sign in."""
    await _end_current(request, identity)
    session_id, cookie = await identity.sessions.begin(
        who,
        way,
        tokens or Tokens(),
        request.headers.get("user-agent", ""),
        identity.http.clock(),
        administrator=administrator,
    )
    address = origin_of(identity, request.client)
    event = events.signed_in(who.email, way, session_id, address, administrator=administrator)
    await identity.http.audit.record(event)
    return Response(None, status_code=303, headers={"Location": after}, cookies=[cookie])


async def _end_current(request: Request[Any, Any, Any], identity: IdentityServices) -> None:
    try:
        cookie = session_of(identity, request)
        if not cookie:
            return
        current = await identity.sessions.access(cookie, identity.http.clock())
    except ProblemError:
        return
    email = current.access.email
    if await identity.sessions.end(current.session_id, email) is not None:
        event = events.session_ended(email, current.session_id, by=email, reason="signed in again")
        await identity.http.audit.record(event)


def down(error: TemporaryError) -> str:
    """Return what a person is told of a dependency that does not answer."""
    return str(error) if isinstance(error, ProviderDownError) else DATABASE_DOWN
