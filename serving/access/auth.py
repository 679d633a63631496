"""Authentication with bearer tokens and API keys.

Tokens are JWTs signed (HS256) with this installation's key. The caller's `Access` derives from the token or key and from the directory
entries of its email; nothing in a request's body or query can add a principal.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jwt
from litestar.connection import ASGIConnection
from litestar.datastructures import Address
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult

from resources.core.domain import Access, Role
from resources.core.durations import duration
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from resources.core.permissions import principals_of
from serving.access import api_keys
from serving.agents.connections import ACCESS_PREFIX, MCP_PATH
from serving.audit import AuditEvent
from serving.errors import ProblemError, UnauthorizedError, token_revoked
from serving.sign_in.bearer import provider_access, provider_of
from serving.sign_in.sessions import SignedIn, cookie_name

if TYPE_CHECKING:
    from resources.settings import Settings
    from serving.deps import Services

ISSUER = "concordance"
AUDIENCE = "concordance"
ALGORITHM = "HS256"
DEFAULT_LIFETIME = timedelta(hours=12)
PAGE_HEADER = "x-concordance"
"""Header that a page of ours sends with changes. A page of another origin cannot add it without a preflight, which is refused."""
_SAFE = frozenset({"GET", "HEAD"})
_LEEWAY_SECONDS = 5
SCIM = "scim"
"""Option of routes that only keys for SCIM may call."""
AGENTS = "agents"
"""Option of routes that accept tokens of agents, which open nothing else, and no session."""


class Verified(NamedTuple):
    """What a token says: whose it is, and the id that a revocation names."""

    access: Access
    token_id: str
    issued: float
    expires: float


def key_id(key: str) -> str:
    """Return the `kid` of a key, by which a token names the key that signed it."""
    return hashlib.sha256(f"concordance kid {key}".encode()).hexdigest()[:16]


def encode(
    key: str, email: str, groups: Sequence[str] = (), admin: bool = False, expires: timedelta = DEFAULT_LIFETIME
) -> str:
    """Return a token for an email and its groups (`NAME@DOMAIN`), valid from now for `expires`."""
    email = email.strip().lower()
    principals_of(email, groups)  # raises for malformed emails and groups
    now = datetime.now(UTC)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": email,
        "iat": now,
        "exp": now + expires,
        "jti": str(uuid.uuid4()),
        "groups": [group.strip().lower() for group in groups],
    }
    if admin:
        claims["admin"] = True
    return sign(key, claims)


def sign(key: str, claims: Mapping[str, Any]) -> str:
    """Return a token with these claims. Its `kid` names the key."""
    return jwt.encode(dict(claims), key, algorithm=ALGORITHM, headers={"kid": key_id(key)})


def mint(
    settings: Settings,
    email: str,
    groups: Sequence[str] = (),
    admin: bool = False,
    expires: timedelta = DEFAULT_LIFETIME,
) -> str:
    """Return a token signed with this installation's key.

    Raises `InvalidRequestError` for a malformed email or group, and if it would be valid for longer than allowed.
    """
    from resources.keys import secret_key

    if expires > duration(settings.token_max_lifetime):
        raise InvalidRequestError(
            f"A token is valid for at most {settings.token_max_lifetime}. Choose less, or raise token_max_lifetime in "
            "CONCORDANCE_LIMITS."
        )
    return encode(secret_key(settings), email, groups, admin, expires)


def verify(token: str, *keys: str) -> Access:
    """Return the access that a token grants. Raises `UnauthorizedError` with the reason and what to do."""
    return verified(token, keys).access


def verified(token: str, keys: Sequence[str], longest: timedelta | None = None) -> Verified:
    """Return what a token of ours says. Only a token without `kid`, as older versions made them, is tried with every key.

    `longest` limits how long after its issue a token is accepted. Raises `UnauthorizedError` with the reason and what to do.
    """
    found = _verified(token, tuple(keys))
    until = found.expires if longest is None else min(found.expires, found.issued + longest.total_seconds())
    if time.time() >= until + _LEEWAY_SECONDS:
        raise _expired()
    return found


def _expired() -> UnauthorizedError:
    return UnauthorizedError("token-expired", "This token has expired. Ask for a new one: concordance token EMAIL")


@lru_cache(1_000)
def _verified(token: str, keys: tuple[str, ...]) -> Verified:
    """Return what a token says. Cached because a valid signature stays valid; `verified` checks the time again."""
    claims = claims_of(token, keys)
    groups: Any = claims.get("groups", [])
    if not is_list(groups) or not all(isinstance(group, str) for group in groups):
        raise UnauthorizedError("token-invalid", "This token's claim `groups` is not a list of names.")
    access = access_of(claims["sub"], groups, admin=claims.get("admin") is True)
    return Verified(access, token_id(token, claims), float(claims["iat"]), float(claims["exp"]))


def claims_of(token: str, keys: Sequence[str], audience: str = AUDIENCE) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed for this audience. Raises `UnauthorizedError`."""
    try:
        return _claims(token, keys, audience)
    except jwt.ExpiredSignatureError:
        raise _expired() from None
    except jwt.InvalidSignatureError:
        detail = "This token was signed by another key. Ask this installation for one: concordance token EMAIL"
        raise UnauthorizedError("token-signature", detail) from None
    except jwt.InvalidAlgorithmError:
        raise UnauthorizedError(
            "token-signature", f"This token is not signed with {ALGORITHM}, the only accepted algorithm."
        ) from None
    except jwt.DecodeError:
        raise UnauthorizedError("token-malformed", "This token cannot be read. Send it whole and unchanged.") from None
    except jwt.InvalidTokenError as error:
        raise UnauthorizedError("token-invalid", f"This token is not accepted: {error}.") from None


def _claims(token: str, keys: Sequence[str], audience: str) -> dict[str, Any]:
    """Return the claims of a token signed with one of the keys. Raises `jwt.InvalidTokenError`."""
    kid = jwt.get_unverified_header(token).get("kid")
    candidates = [key for key in keys if kid is None or key_id(key) == kid]
    fault: jwt.InvalidTokenError = jwt.InvalidSignatureError()
    for key in candidates or keys[:1]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=audience,
                issuer=ISSUER,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.InvalidSignatureError as error:
            fault = error
    raise fault


def token_id(token: str, claims: Mapping[str, Any]) -> str:
    """Return the id by which a token is revoked: its `jti`, or for tokens of older versions the hash of what was signed."""
    jti = claims.get("jti")
    if isinstance(jti, str) and jti:
        return jti
    return "sha256:" + hashlib.sha256(token.rpartition(".")[0].encode()).hexdigest()


def access_of(email: str, groups: Sequence[str], *, admin: bool) -> Access:
    """Return the access of an email and its groups. Raises `UnauthorizedError` when either is malformed."""
    email = email.strip().lower()
    try:
        principals = principals_of(email, groups)
    except InvalidRequestError as error:
        raise UnauthorizedError("token-invalid", f"This token's user is not valid: {error}") from None
    return Access(email=email, principals=principals, roles=frozenset({Role.ADMINISTRATOR} if admin else ()))


async def access_from(
    services: Services, credential: str, client: Address | None, *, scim: bool = False, agents: bool = False
) -> Access:
    """Return the access of a token or API key, including the directory's memberships of its user.

    For SCIM, only a key for SCIM is accepted, and it is accepted nowhere else; its access has no principals and no roles.
    Tokens of agents are accepted only if `agents` is true.
    Failures count for the address of `client`; refused keys and blocked addresses are audited.

    Raises `UnauthorizedError` and the problem `rate-limited`.
    """
    origin = origin_of(services, client)
    try:
        with services.sign_ins.attempt(origin, credential):
            found = await _credential_access(services, credential, scim=scim, agents=agents)
    except api_keys.KeyRefusedError as error:
        if error.event is not None:
            await services.audit.record(error.event)
        raise
    except ProblemError as error:
        if error.slug == "rate-limited" and services.sign_ins.first_refusal(origin):
            await services.audit.record(
                AuditEvent(email="", action="sign_in_blocked", detail=json.dumps({"address": origin or "unknown"}))
            )
        raise
    completed = await services.directory.complete(found.access, services.fresh_since(), found.token_id, own=found.own)
    return found.access if scim else completed


class _Credential(NamedTuple):
    """What a credential gives: an access, for a token of ours its id, and whether its groups were written here."""

    access: Access
    token_id: str | None = None
    own: bool = True


async def _credential_access(services: Services, credential: str, *, scim: bool, agents: bool) -> _Credential:
    if credential.startswith(api_keys.PREFIX):
        holder = await api_keys.check(services.database, credential, scim=scim)
        if scim:
            return _Credential(Access(email=holder.email, principals=frozenset()))
        return _Credential(access_of(holder.email, holder.groups, admin=holder.admin))
    if scim:
        raise UnauthorizedError("scim-key", api_keys.SCIM_ONLY)
    if credential.startswith(ACCESS_PREFIX):
        if not agents:
            raise UnauthorizedError("token-invalid", f"This token of an agent is for {MCP_PATH} only.")
        agent = await services.agents.access(credential, services.clock())
        return _Credential(agent.access, own=agent.sample)
    if (provider := provider_of(services.providers.values(), credential)) is not None:
        return _Credential(await provider_access(provider, credential, services.acl_max_age), own=False)
    found = verified(credential, services.keys, duration(services.settings.token_max_lifetime))
    if found.token_id in services.revoked_tokens:
        raise token_revoked()
    return _Credential(found.access, found.token_id)


async def session_access(services: Services, cookie: str, client: Address | None) -> SignedIn:
    """Return the access of a session's cookie, as `access_from` does for tokens, and the session's id."""
    with services.sign_ins.attempt(origin_of(services, client), cookie):
        found = await services.sessions.access(cookie, services.clock())
    return await _completed(services, found)


async def session_access_by_id(services: Services, session_id: str) -> SignedIn:
    """Return the access of the session with this ID, as `session_access` does. The caller has proven that it may ask."""
    return await _completed(services, await services.sessions.access_by_id(session_id, services.clock()))


async def _completed(services: Services, found: SignedIn) -> SignedIn:
    access = await services.directory.complete(found.access, services.fresh_since(), own=found.sample)
    return found._replace(access=access)


def session_of(services: Services, connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the session's cookie, empty if there is none, or if the request has a credential in its headers, valid or not."""
    headers = connection.headers
    if headers.get("authorization", "")[:6].lower() == "bearer" or "x-api-key" in headers:
        return ""
    return connection.cookies.get(cookie_name(services.settings), "")


def check_own_page(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Raise the problem `session-only` unless a request with a session comes from a page of ours, or for reads from the address bar.

    `serving.access.origins` has refused changes with a foreign `Origin` already.
    """
    headers, scope = connection.headers, cast("Mapping[str, Any]", connection.scope)
    site = headers.get("sec-fetch-site")
    if scope["method"] in _SAFE:
        if site in (None, "same-origin", "none"):
            return
    elif headers.get(PAGE_HEADER):
        check_same_origin(connection)
        return
    raise ProblemError(
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


def origin_of(services: Services, client: Address | None) -> str:
    return services.origins.of(client.host) if client else ""


def credential_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the token or key in a request's headers, or an empty string."""
    header = connection.headers.get("authorization", "")
    scheme, _, credential = header.partition(" ")
    if not header and "x-api-key" in connection.headers:
        scheme, credential = "bearer", connection.headers["x-api-key"]
    return credential.strip() if scheme.lower() == "bearer" else ""


class Authentication(AbstractAuthenticationMiddleware):
    """Authenticates each request unless its route sets `exclude_from_auth`.

    A browser's session counts only for requests of our own pages: see `check_own_page`.
    """

    async def authenticate_request(self, connection: ASGIConnection[Any, Any, Any, Any]) -> AuthenticationResult:
        services: Services = connection.app.state.services
        credential = credential_of(connection)
        options = connection.scope["route_handler"].opt
        scim, agents = bool(options.get(SCIM)), bool(options.get(AGENTS))
        cookie = "" if credential or scim or agents else session_of(services, connection)
        if cookie:
            check_own_page(connection)
            signed_in = await session_access(services, cookie, connection.client)
            return AuthenticationResult(signed_in.access, signed_in.session_id)
        if not credential:
            services.sign_ins.without_credential(origin_of(services, connection.client))
            raise UnauthorizedError("token-missing", "Send a token in the header: Authorization: Bearer TOKEN")
        access = await access_from(services, credential, connection.client, scim=scim, agents=agents)
        return AuthenticationResult(user=access, auth=None)
