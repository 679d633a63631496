"""The page of one's own account, `/me`."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.di import NamedDependency

from resources.core.permissions import PUBLIC
from serving.account.service import AccountServices
from serving.agents.install import install_links
from serving.identity.authentication import SessionFrom, credential_of
from serving.identity.me import own_identity
from serving.identity.own_keys import offered_days, own_keys_of
from serving.identity.passkeys import own_passkeys_of
from serving.identity.visitor import current_session, page_route, signed_in
from serving.web.render import view


@page_route("/me", "mePage", "open", SessionFrom.LINK)
async def me_page(request: Request[Any, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """Show who the visitor is: groups with where they come from, roles, sessions, passkeys, agents and keys."""
    access = await signed_in(request, account.identity)
    identity = await own_identity(account.identity, access, credential_of(request))
    now, session_id = account.http.clock(), await current_session(request, account.identity)
    passkeys = account.identity.passkeys
    return view(
        "me.html",
        access,
        script="me.js",
        here="/me",
        identity=identity,
        principals=[one for one in identity.principals if one.principal not in {access.email, PUBLIC}],
        now=now,
        roles=sorted(role.value for role in access.roles),
        sessions=await account.identity.sessions.own(access.email, session_id, now),
        passkeys_at=passkeys.party.origin if passkeys else "",
        passkeys=await own_passkeys_of(account.identity, access) if passkeys else [],
        may_add_passkey=passkeys and session_id and await passkeys.is_fresh(session_id, access.email, now),
        agents=await account.agents.connections.own(access.email, now),
        keys=await own_keys_of(account.identity, access, now),
        days=offered_days(account.identity),
        agents_address=account.agents.connections.resource,
        install_links=install_links(account.agents.connections.resource),
    )
