"""OAuth 2.1 for agents: metadata, registration, consent, tokens, revocation. See docs/agents.md.

The routes are not part of the OpenAPI document: their standards and the metadata describe them, and they have OAuth's errors. The
handlers of the package `mcp` check requests; it takes a second to import, so a thread does that for the first request.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from litestar import Request, Response, get, post
from litestar.di import NamedDependency

from resources.core.errors import TemporaryError
from serving.agents import pages
from serving.agents.service import AgentServices
from serving.http.errors import UnauthorizedError
from serving.http.open_route import open_route
from serving.http.origins import FORM, accepts
from serving.identity.authentication import SESSION, SessionFrom, check_same_origin, session_access, session_of
from serving.identity.begin import DATABASE_DOWN
from serving.identity.sign_in.pages import failure_page
from serving.identity.visitor import page_route

if TYPE_CHECKING:
    from serving.identity.sign_in.sessions import SignedIn

OpenRequest = Request[Any, Any, Any]


@open_route(
    get,
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"],
    "protectedResource",
    "open",
    thread=False,
)
def protected_resource(agents: NamedDependency[AgentServices]) -> dict[str, Any]:
    """Say which server issues tokens for `/mcp`. Source: RFC 9728."""
    return {
        "resource": agents.connections.resource,
        "resource_name": "Concordance",
        "authorization_servers": [agents.http.settings.base_url],
        "bearer_methods_supported": ["header"],
    }


@open_route(get, "/.well-known/oauth-authorization-server", "authorizationServer", "open", thread=False)
def authorization_server(agents: NamedDependency[AgentServices]) -> dict[str, Any]:
    """Say what the authorization server supports. Source: RFC 8414."""
    base = agents.http.settings.base_url
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "registration_endpoint": f"{base}/oauth/register",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "scopes_supported": ["offline_access"],  # ChatGPT asks for refresh tokens only if it is listed
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


@open_route(post, "/oauth/register", "registerAgent", "sign-in", status=201)
async def register_agent(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[bytes]:
    """Register an application as a public client. Source: RFC 7591."""
    return await (await _authorization()).register(agents, request)


@open_route(get, "/oauth/authorize", "authorizeAgent", "sign-in")
async def authorize_agent(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[Any]:
    """Check what an application asks for, and redirect to the page on which the person decides."""
    return await (await _authorization()).authorize(agents, request)


@open_route(post, "/oauth/token", "agentToken", "sign-in", accepts(FORM), status=200)
async def agent_token(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[bytes]:
    """Exchange a code, or a refresh token, for an access token and a refresh token."""
    return await (await _authorization()).token(agents, request)


async def _authorization():
    await asyncio.to_thread(import_module, "serving.agents.authorization")
    from serving.agents import authorization

    return authorization


@open_route(post, "/oauth/revoke", "revokeAgent", "sign-in", accepts(FORM), status=200)
async def revoke_agent(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[bytes]:
    """End the connection of a token. An unknown token is no error. Source: RFC 7009."""
    fields = await _form(request)
    await agents.connections.revoke(fields.get("token", ""), fields.get("client_id", ""))
    return Response(b"", media_type="text/plain")


@page_route("/oauth/consent", "agentConsent", "sign-in", SessionFrom.LINK)
async def agent_consent(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[Any]:
    """Ask the person who is signed in whether an agent may act in their name."""
    return await _consent(request, agents, request.query_params.get("request", ""))


@open_route(post, "/oauth/consent", "decideAgent", "sign-in", accepts(FORM) | {SESSION: SessionFrom.OWN}, status=200)
async def decide_agent(request: OpenRequest, agents: NamedDependency[AgentServices]) -> Response[Any]:
    """Connect the agent or refuse it, as the person decided on the page."""
    check_same_origin(request)
    fields = await _form(request)
    secret = fields.get("request", "")
    try:
        person = await _person(request, agents)
        if person is None or person.access.email != fields.get("email"):  # someone else has signed in meanwhile
            return await _consent(request, agents, secret)
        now, allowed = agents.http.clock(), fields.get("answer") == "allow"
        decide = (
            agents.connections.allow(secret, person, now) if allowed else agents.connections.refuse(secret, person, now)
        )
        address = await decide
    except TemporaryError:
        return failure_page(DATABASE_DOWN, "/", 503)
    return pages.over_page() if address is None else pages.decided_page(address, allowed=allowed)


async def _consent(request: OpenRequest, agents: AgentServices, secret: str) -> Response[Any]:
    here = f"/oauth/consent?request={quote(secret, safe='')}"
    try:
        wanted = await agents.connections.undecided(secret, agents.http.clock())
        if wanted is None:
            return pages.over_page()
        person = await _person(request, agents)
    except TemporaryError:
        return failure_page(DATABASE_DOWN, here, 503)
    if person is None:
        return Response(None, status_code=303, headers={"Location": f"/sign-in?next={quote(here, safe='')}"})
    return pages.consent_page(wanted, secret, person.access)


async def _person(request: OpenRequest, agents: AgentServices) -> SignedIn | None:
    """Return the user who is signed in in this browser; None if no one is."""
    cookie = session_of(agents.identity, request)
    try:
        return await session_access(agents.identity, cookie, request.client) if cookie else None
    except UnauthorizedError:
        return None


async def _form(request: OpenRequest) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}
