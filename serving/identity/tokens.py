"""Tokens of this installation: JWTs that are signed (HS256) with its key."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from resources.core import permissions
from resources.core.domain import Access, Role
from resources.core.durations import duration
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from serving.http.errors import UnauthorizedError

if TYPE_CHECKING:
    from resources.settings import Settings

ISSUER = "concordance"
AUDIENCE = "concordance"
ALGORITHM = "HS256"
DEFAULT_LIFETIME = timedelta(hours=12)
_LEEWAY_SECONDS = 5
MOST_GRACE_SECONDS = 600.0
"""A request goes on for at most this long after its token has expired."""


class Verified(NamedTuple):
    """Claims of a verified token: whose it is, and the id that a revocation names."""

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
    email = permissions.email(email)
    permissions.principals_of(email, groups)  # raises for malformed groups
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
            f"A token is valid for at most {settings.token_max_lifetime}. Choose less, or raise "
            "CONCORDANCE_LIMITS__TOKEN_MAX_LIFETIME."
        )
    return encode(secret_key(settings), email, groups, admin, expires)


def verify(token: str, *keys: str) -> Access:
    """Return the access that a token grants. Raises `UnauthorizedError` with the reason and what to do."""
    return verified(token, keys).access


def grace_since(begun: float) -> float:
    """Return for how many seconds a token may have expired that was valid when a request began, a time of `time.monotonic()`."""
    return min(time.monotonic() - begun, MOST_GRACE_SECONDS)


def verified(token: str, keys: Sequence[str], longest: timedelta | None = None, grace: float = 0.0) -> Verified:
    """Return what a token of ours says. Only a token without `kid`, as older versions made them, is tried with every key.

    `longest` limits how long after its issue a token is accepted, and `grace` says for how many seconds it may have expired. Raises
    `UnauthorizedError` with the reason and what to do.
    """
    found = _verified(token, tuple(keys), MOST_GRACE_SECONDS if grace else 0.0)
    until = found.expires if longest is None else min(found.expires, found.issued + longest.total_seconds())
    if time.time() >= until + _LEEWAY_SECONDS + grace:
        raise _expired()
    return found


def _expired() -> UnauthorizedError:
    return UnauthorizedError("token-expired", "This token has expired. Ask for a new one: concordance token EMAIL")


@lru_cache(1_000)
def _verified(token: str, keys: tuple[str, ...], grace: float) -> Verified:
    """Return what a token says. Cached because a valid signature stays valid; `verified` checks the time again."""
    claims = claims_of(token, keys, grace=grace)
    groups: Any = claims.get("groups", [])
    if not is_list(groups) or not all(isinstance(group, str) for group in groups):
        raise UnauthorizedError("token-invalid", "This token's claim `groups` is not a list of names.")
    access = access_of(claims["sub"], groups, admin=claims.get("admin") is True)
    return Verified(access, token_id(token, claims), float(claims["iat"]), float(claims["exp"]))


def claims_of(token: str, keys: Sequence[str], audience: str = AUDIENCE, *, grace: float = 0.0) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed for this audience. Raises `UnauthorizedError`.

    `grace` says for how many seconds it may have expired.
    """
    try:
        return _claims(token, keys, audience, _LEEWAY_SECONDS + grace)
    except jwt.ExpiredSignatureError:
        raise _expired() from None
    except jwt.ImmatureSignatureError:
        detail = "This token is not valid yet: this machine's clock, or that of the one that made it, is wrong. See: concordance doctor"
        raise UnauthorizedError("token-invalid", detail) from None
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


def _claims(token: str, keys: Sequence[str], audience: str, leeway: float) -> dict[str, Any]:
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
                leeway=leeway,
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
    try:
        email = permissions.email(email)
        principals = permissions.principals_of(email, groups)
    except InvalidRequestError as error:
        raise UnauthorizedError("token-invalid", f"This token's user is not valid: {error}") from None
    return Access(email=email, principals=principals, roles=frozenset({Role.ADMINISTRATOR} if admin else ()))
