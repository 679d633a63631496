"""Authentication of requests with bearer tokens, API keys and sessions.

The caller's `Access` derives from the credential and from the directory entries of its email; nothing in a
request's body or query can add a principal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, cast

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Address
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult
from litestar.types import HTTPReceiveMessage, Receive, Scope, Send, WebSocketReceiveMessage

from resources.core.domain import Access
from resources.core.durations import duration
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError, UnauthorizedError
from serving.identity import api_keys
from serving.identity.scopes import KeyScope, check_scope, scope_of
from serving.identity.service import ACCESS_PREFIX, MCP_PATH, IdentityServices
from serving.identity.sign_in.bearer import provider_access, provider_of
from serving.identity.sign_in.sessions import SAMPLE, SignedIn, cookie_name
from serving.identity.tokens import Verified, access_of, grace_since, verified

PAGE_HEADER = "x-concordance"
"""Header that a page of ours sends with changes. A page of another origin cannot add it without a preflight, which is refused."""
_SAFE = frozenset({"GET", "HEAD"})
SCIM = "scim"
"""Option of routes that only keys for SCIM may call."""
AGENTS = "agents"
"""Option of routes that accept tokens of agents, which open nothing else, and no session."""
PROMPT_BODY_SECONDS = 1.0
"""A body that takes longer than this has its sender authenticated again once it is there."""
SESSION = "session"
"""Option of routes that sign callers in themselves: which requests may use a browser's session, a `SessionFrom`. Without it, none."""


class SessionFrom(StrEnum):
    """The requests with which a browser may use its session."""

    OWN = "own"
    """Those of our own pages; reads also from the address bar or a bookmark."""
    LINK = "link"
    """Also those by which a link on another site opens the page. Such a page only shows something: it does not search or change."""


async def access_from(
    identity: IdentityServices,
    credential: str,
    client: Address | None,
    scope: KeyScope,
    *,
    scim: bool = False,
    agents: bool = False,
    grace: float = 0.0,
) -> Access:
    """Return the access of a token or API key, including the directory's memberships of its user.

    For SCIM, only a key for SCIM is accepted, and it is accepted nowhere else; its access has no principals and no roles.
    Tokens of agents are accepted only if `agents` is true. `grace` says for how many seconds a token may have expired.
    Failures count for the address of `client`; refused keys and blocked addresses are audited.

    Raises `UnauthorizedError`, the problem `rate-limited`, and `key-scope` for a key that lacks `scope`.
    """
    origin = origin_of(identity, client)
    try:
        async with identity.http.sign_ins.attempt(origin, credential):
            found = await _credential_access(identity, credential, scim=scim, agents=agents, grace=grace)
    except api_keys.KeyRefusedError as error:
        if error.event is not None:
            await identity.http.audit.record(error.event)
        raise
    except ProblemError as error:
        if error.slug == "rate-limited" and identity.http.sign_ins.first_refusal(origin):
            await identity.http.audit.record(
                AuditEvent(email="", action="sign_in_blocked", detail=json.dumps({"address": origin or "unknown"}))
            )
        raise
    check_scope(found.scopes, scope)
    completed = await identity.directory.complete(found.access, identity.http.fresh_since(), found.token, own=found.own)
    if scim:
        return found.access
    if found.scopes is not None and KeyScope.OPERATE not in found.scopes:
        return msgspec.structs.replace(completed, roles=frozenset())
    return completed


class _Credential(NamedTuple):
    """Result of checking a credential: an access, the token if it is one of ours, whether its groups were written here, and its scopes."""

    access: Access
    token: Verified | None = None
    own: bool = True
    scopes: list[str] | None = None


async def _credential_access(
    identity: IdentityServices, credential: str, *, scim: bool, agents: bool, grace: float
) -> _Credential:
    if credential.startswith(api_keys.PREFIX):
        holder = await api_keys.check(
            identity.http.database,
            credential,
            vouching=identity.vouching,
            now=identity.http.clock(),
            fresh_since=identity.http.fresh_since(),
            idle_since=identity.sessions.idle_since(identity.http.clock()),
            scim=scim,
        )
        if scim:
            return _Credential(Access(email=holder.email, principals=frozenset()))
        access = access_of(holder.email, holder.groups, admin=holder.admin)
        access = msgspec.structs.replace(access, groups_omitted=holder.groups_omitted)
        return _Credential(access, own=holder.provider in {None, SAMPLE}, scopes=holder.scopes)
    if scim:
        raise UnauthorizedError("scim-key", api_keys.SCIM_ONLY)
    if credential.startswith(ACCESS_PREFIX):
        if not agents:
            raise UnauthorizedError("token-invalid", f"This token of an agent is for {MCP_PATH} only.")
        agent = await identity.agents.access(credential, identity.http.clock(), grace)
        return _Credential(agent.access, own=agent.sample)
    if (provider := provider_of(identity.providers.values(), credential)) is not None:
        return _Credential(await provider_access(provider, credential, identity.http.acl_max_age, grace), own=False)
    found = verified(credential, identity.http.keys, duration(identity.http.settings.token_max_lifetime), grace)
    return _Credential(found.access, found)


async def session_access(identity: IdentityServices, cookie: str, client: Address | None) -> SignedIn:
    """Return the access of a session's cookie, as `access_from` does for tokens, and the session's id."""
    async with identity.http.sign_ins.attempt(origin_of(identity, client), cookie, session=True):
        found = await identity.sessions.access(cookie, identity.http.clock())
    return await _completed(identity, found)


async def session_access_by_id(identity: IdentityServices, session_id: str) -> SignedIn:
    """Return the access of the session with this ID, as `session_access` does. The caller has proven that it may ask."""
    return await _completed(identity, await identity.sessions.access_by_id(session_id, identity.http.clock()))


def current_access(identity: IdentityServices, request: Request[Access, Any, Any]) -> Callable[[], Awaitable[Access]]:
    """Return what authenticates a request again, for an answer that takes a while. It raises as `access_from` does.

    A token that has expired since counts: it was valid when the request began.
    """
    begun = time.monotonic()
    credential, options = credential_of(request), request.scope["route_handler"].opt
    agents = bool(options.get(AGENTS))

    async def current() -> Access:
        if credential:
            scope, grace = scope_of(options), grace_since(begun)
            return await access_from(identity, credential, request.client, scope, agents=agents, grace=grace)
        return (await session_access_by_id(identity, request.auth)).access

    return current


async def _completed(identity: IdentityServices, found: SignedIn) -> SignedIn:
    access = await identity.directory.complete(found.access, identity.http.fresh_since(), own=found.sample)
    return found._replace(access=access)


def session_of(identity: IdentityServices, connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the session's cookie, empty if there is none, or if the request has a credential in its headers, valid or not.

    Every route gets the cookie from here. Raises the problem `session-only` for a request that the route accepts no session with,
    such as one that a page of another site makes the browser send, and `origin-foreign` for a change from there.
    """
    headers, scope = connection.headers, cast("Mapping[str, Any]", connection.scope)
    if headers.get("authorization", "")[:6].lower() == "bearer" or "x-api-key" in headers:
        return ""
    options: Mapping[str, Any] = getattr(scope.get("route_handler"), "opt", {})  # an unknown path has no route
    open_to_all = bool(options.get("exclude_from_auth"))
    accepted = options.get(SESSION, None if open_to_all else SessionFrom.OWN)
    cookie = connection.cookies.get(cookie_name(identity.http.settings), "")
    if accepted is None or not cookie:
        return ""
    if scope["method"] not in _SAFE:
        if not open_to_all and not headers.get(PAGE_HEADER):  # a form cannot send it
            raise _elsewhere()
        check_same_origin(connection)
    elif sender_of(identity, connection) not in {SessionFrom.OWN, accepted}:
        raise _elsewhere()
    return cookie


def sender_of(identity: IdentityServices, connection: ASGIConnection[Any, Any, Any, Any]) -> SessionFrom | None:
    """Return what made the browser send a read; None if it is a page of another site that would embed or load what it gets."""
    headers = connection.headers
    site = headers.get("sec-fetch-site")
    if site is None:  # an old browser, or neither https nor loopback: https://www.w3.org/TR/fetch-metadata/#framework
        page = headers.get("origin") or headers.get("referer")
        ours = page is None or identity.http.rules.is_ours(page, headers.get("host", ""))
        return SessionFrom.OWN if ours else None
    if site in {"same-origin", "none"}:
        return SessionFrom.OWN
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return SessionFrom.LINK if opened else None


def _elsewhere() -> ProblemError:
    return ProblemError(
        "session-only",
        "A session can be used by this installation's own pages only, for changes with the header X-Concordance: 1. Use a token.",
    )


def check_same_origin(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Raise the problem `origin-foreign` unless the browser says that a page of ours made it send this change."""
    site = connection.headers.get("sec-fetch-site")
    if site != "same-origin" and not (site is None and "origin" in connection.headers):
        raise ProblemError(
            "origin-foreign", "The request does not come from a page of this installation. Open /sign-in there."
        )


def origin_of(identity: IdentityServices, client: Address | None) -> str:
    return identity.http.origins.of(client.host) if client else ""


def credential_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the token or key in a request's headers, or an empty string."""
    header = connection.headers.get("authorization", "")
    scheme, _, credential = header.partition(" ")
    if not header and "x-api-key" in connection.headers:
        scheme, credential = "bearer", connection.headers["x-api-key"]
    return credential.strip() if scheme.lower() == "bearer" else ""


class Authentication(AbstractAuthenticationMiddleware):
    """Authenticates each request unless its route sets `exclude_from_auth`.

    A browser's session counts only for requests of our own pages: see `session_of`.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate before the body is read, and once more after one that took a while: its sender may have lost rights since."""
        begun, has_body = time.monotonic(), False

        async def received() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal has_body
            message = await receive()
            if message["type"] == "http.request":
                has_body |= bool(message["body"])
                late = not message["more_body"] and time.monotonic() - begun > PROMPT_BODY_SECONDS
                if late and has_body and "user" in scope:
                    found = await self.authenticate_request(ASGIConnection(scope))
                    scope["user"], scope["auth"] = found.user, found.auth
                    handler: Any = scope["route_handler"]
                    await handler.authorize_connection(connection=Request(scope))
            return message

        await super().__call__(scope, received, send)

    async def authenticate_request(self, connection: ASGIConnection[Any, Any, Any, Any]) -> AuthenticationResult:
        identity: IdentityServices = connection.app.state.services.identity
        credential = credential_of(connection)
        options = connection.scope["route_handler"].opt
        scim, agents = bool(options.get(SCIM)), bool(options.get(AGENTS))
        cookie = "" if credential or scim or agents else session_of(identity, connection)
        if cookie:
            signed_in = await session_access(identity, cookie, connection.client)
            return AuthenticationResult(signed_in.access, signed_in.session_id)
        if not credential:
            await identity.http.sign_ins.without_credential(origin_of(identity, connection.client))
            raise UnauthorizedError("token-missing", "Send a token in the header: Authorization: Bearer TOKEN")
        client = connection.client
        access = await access_from(identity, credential, client, scope_of(options), scim=scim, agents=agents)
        return AuthenticationResult(user=access, auth=None)
