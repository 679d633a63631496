"""`/sign-in/email`, which sends a link that signs a person in, and `/sign-in/link`, the page of a link and its button."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.di import NamedDependency

from serving.http.errors import ProblemError
from serving.http.open_route import open_route
from serving.http.origins import FORM, accepts
from serving.identity.authentication import SESSION, SessionFrom, check_same_origin, origin_of
from serving.identity.begin import attempted, begin, require_active
from serving.identity.service import IdentityServices
from serving.identity.sign_in import links, pages
from serving.identity.sign_in.claims import ProviderIdentity
from serving.identity.sign_in.emailed import WantedLink
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.sessions import EMAIL, LINK
from serving.web.render import view


@open_route(post, "/sign-in/email", "emailLink", "sign-in", accepts(FORM), status=200)
async def email_link(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """Send a link to an address, if it may have one. The response is the same for every address."""
    check_same_origin(request)
    if not identity.emailed_links.offered:
        return pages.unknown_page()
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    after = own_path(fields.get("next", ["/"])[0])
    wanted = WantedLink(fields.get("address", [""])[0], after, origin_of(identity, request.client))
    try:
        await identity.emailed_links.ask(wanted)
    except ProblemError as error:
        return pages.failure_page(str(error), after, 429)
    return pages.sent_page()


@open_route(get, links.PATH, "linkPage", "sign-in", thread=False)
def link_page() -> Response[str]:
    """Show whom a link signs in, and a button. The page's script reads the token, which is in the address's fragment."""
    return view("sign_in_link.html", script="link.js")


@open_route(post, links.PATH, "linkSignIn", "sign-in", accepts(FORM) | {SESSION: SessionFrom.OWN})
async def link_sign_in(request: Request[Any, Any, Any], identity: NamedDependency[IdentityServices]) -> Response[Any]:
    """Sign in with the token of a link."""
    check_same_origin(request)
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = fields.get("token", [""])[0]

    async def sign_in() -> Response[Any]:
        grant = await links.use(identity.http.database, identity.http.keys, token, identity.http.clock())
        if grant.way == EMAIL:
            identity.emailed_links.check(grant.email)
        await require_active(identity, grant.email)
        who = ProviderIdentity(grant.email, grant.email, [])
        begun = await begin(request, identity, who, grant.way, grant.after, administrator=grant.administrator)
        if grant.way == EMAIL:
            identity.emailed_links.used(origin_of(identity, request.client))
        return begun

    after = links.after_of(identity.http.keys, token)
    return await attempted(request, identity, LINK, token, sign_in, after=after)
