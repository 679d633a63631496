"""Passkeys: `/sign-in/passkey` signs in with one, and `/me/passkeys` adds and removes them.

They exist only in installations without a provider of sign-in. Only a browser that is signed in adds and removes them, no token or key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs

import msgspec
from litestar import Request, Response, delete, post
from litestar.di import NamedDependency
from litestar.exceptions import NotFoundException
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.open_route import open_route
from serving.http.origins import FORM, accepts
from serving.http.request_limits import limited
from serving.identity.authentication import SESSION, SessionFrom, check_same_origin
from serving.identity.begin import attempted, begin, require_active
from serving.identity.service import IdentityServices
from serving.identity.sign_in import events, pages
from serving.identity.sign_in.browsers import browser_cookie_name
from serving.identity.sign_in.claims import ProviderIdentity
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.sessions import PASSKEY
from sql.passkeys import OwnPasskey, PasskeyReads

if TYPE_CHECKING:
    from serving.identity.sign_in.passkeys import Passkeys

MOST_BYTES = 16 * 1024
"""Longest credential of a browser, as JSON: without attestation it takes some 1.5 kB."""


class PasskeyOffer(msgspec.Struct, frozen=True):
    """What the browser's `navigator.credentials` gets, as JSON."""

    options: dict[str, Any]
    """Argument of `PublicKeyCredential.parseCreationOptionsFromJSON` or `parseRequestOptionsFromJSON`."""
    state: str
    """To be sent back with the credential."""


class NewPasskey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A passkey that the browser has made."""

    name: Annotated[str, Meta(max_length=100, extra_json_schema={"minLength": 1})]
    """What to call it, such as the device's name."""
    state: Annotated[str, Meta(max_length=2000)]
    """The offer's state."""
    credential: Annotated[str, Meta(max_length=MOST_BYTES)]
    """The credential, as `JSON.stringify` writes it."""


class PasskeyAdded(msgspec.Struct, frozen=True):
    """A passkey that signs its owner in from now on."""

    passkey_id: str
    """ID of the passkey."""


class PasskeyRemoved(msgspec.Struct, frozen=True):
    """A passkey that is no longer accepted."""

    passkey_id: str
    """ID of the passkey."""
    status: Literal["removed"] = "removed"
    """The passkey is removed."""


async def own_passkeys_of(identity: IdentityServices, access: Access) -> list[OwnPasskey]:
    """Return the passkeys of the caller."""
    return await PasskeyReads(identity.http.database).own_passkeys(email=access.email)


@open_route(post, "/sign-in/passkey/options", "passkeyOptions", "sign-in", status=200)
async def passkey_options(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]
) -> Response[PasskeyOffer]:
    """Return a challenge for any passkey of this site, which is bound to the browser by a cookie."""
    check_same_origin(request)
    kept = request.cookies.get(browser_cookie_name(identity.http.settings), "")
    offer, binding = _offered(identity).begin_sign_in(kept, identity.http.clock())
    return Response(PasskeyOffer(dict(offer.options), offer.state), cookies=[binding.cookie])


@open_route(post, "/sign-in/passkey", "passkeySignIn", "sign-in", accepts(FORM) | {SESSION: SessionFrom.OWN})
async def passkey_sign_in(
    request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]
) -> Response[Any]:
    """Sign in with what a passkey has signed."""
    check_same_origin(request)
    passkeys = identity.passkeys
    if passkeys is None:
        return pages.unknown_page()
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    state, credential = fields.get("state", [""])[0], fields.get("credential", [""])[0]
    after = own_path(fields.get("next", ["/"])[0])
    browser = request.cookies.get(browser_cookie_name(identity.http.settings), "")

    async def sign_in() -> Response[Any]:
        used = await passkeys.finish_sign_in(state, credential, browser, identity.http.clock())
        await require_active(identity, used.email)
        who = ProviderIdentity(used.passkey_id, used.email, [])
        return await begin(request, identity, who, PASSKEY, after)

    return await attempted(request, identity, PASSKEY, state, sign_in, after=after)


@post(
    "/me/passkeys/options",
    operation_id="newPasskeyOptions",
    include_in_schema=False,
    status_code=200,
    opt=limited("write"),
)
async def new_passkey_options(
    request: Request[Access, str | None, Any], identity: NamedDependency[IdentityServices]
) -> PasskeyOffer:
    """Return what the browser makes a passkey of the caller from."""
    passkeys, session_id = _offered(identity), _session_of(request)
    offer = await passkeys.begin_addition(session_id, request.user.email, identity.http.clock())
    return PasskeyOffer(dict(offer.options), offer.state)


@post("/me/passkeys", operation_id="addPasskey", include_in_schema=False, opt=limited("write"))
async def add_passkey(
    request: Request[Access, str | None, Any],
    data: JSONBody[NewPasskey],
    identity: NamedDependency[IdentityServices],
) -> PasskeyAdded:
    """Add a passkey of the caller. Recorded (`passkey_add`)."""
    passkeys, session_id, email = _offered(identity), _session_of(request), request.user.email
    name = " ".join(data.name.replace("\x00", " ").split())
    if not name:
        raise InvalidRequestError("name: is empty; give the passkey a name.")
    added_id = await passkeys.finish_addition(
        session_id, email, data.state, data.credential, name, identity.http.clock()
    )
    await identity.http.audit.record(events.passkey_added(email, added_id, name))
    return PasskeyAdded(added_id)


@delete(
    "/me/passkeys/{passkey_id:str}",
    operation_id="removePasskey",
    include_in_schema=False,
    status_code=200,
    opt=limited("write"),
)
async def remove_passkey(
    request: Request[Access, str | None, Any],
    identity: NamedDependency[IdentityServices],
    passkey_id: Annotated[str, PathParameter(max_length=100)],
) -> PasskeyRemoved:
    """Remove a passkey of the caller, and end the other sessions that it began. Passkeys of others do not exist for the caller."""
    missing = ProblemError("not-found", "There is no such passkey of yours.")
    passkeys, session_id, email = _offered(identity), _session_of(request), request.user.email
    known = parse_id(passkey_id, missing)
    ended = await passkeys.remove(known, email, session_id)
    if ended is None:
        raise missing
    await identity.http.audit.record(events.passkey_removed(email, known, by=email, reason="removed by its owner"))
    for one in ended:
        await identity.http.audit.record(events.session_ended(email, one, by=email, reason="its passkey was removed"))
    return PasskeyRemoved(known)


def _offered(identity: IdentityServices) -> Passkeys:
    """Return the passkeys, or raise `NotFoundException` where there are none."""
    if identity.passkeys is None:
        raise NotFoundException
    return identity.passkeys


def _session_of(request: Request[Access, str | None, Any]) -> str:
    if request.auth is None:
        raise ProblemError("sign-in-only", "A token or key changes no passkeys. Sign in with a browser, and open /me.")
    return request.auth
