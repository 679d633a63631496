"""Access to Dagster's webserver: programs send a secret, people open a signed link that works once.

This module makes the header of a program's request and the links that `concordance` prints; `orchestration/supervision/webserver.py`
checks them. It does not import Dagster.
"""

import hmac
import secrets
import time
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import jwt

from resources import keys
from resources.settings import Settings

Role = Literal["admin", "viewer"]
"""Administrators may do everything; viewers may only read."""

ALGORITHM = "HS256"
LINK_SECONDS = 12 * 3600
SESSION_SECONDS = 12 * 3600
_LINK, _SESSION = "dagster-link", "dagster-session"


class Secrets(NamedTuple):
    """The secrets that give access to the webserver."""

    admin: str
    viewer: str

    def role(self, given: str) -> Role | None:
        if hmac.compare_digest(given.encode(), self.admin.encode()):
            return "admin"
        if hmac.compare_digest(given.encode(), self.viewer.encode()):
            return "viewer"
        return None


def secrets_of(settings: Settings) -> Secrets:
    """Return the secrets of the webserver: the setting DAGSTER_SECRET for administrators, otherwise those stored in HOME."""
    keys.ensure(settings)
    kept = keys.load(settings)
    given = settings.dagster_secret
    return Secrets(given.get_secret_value() if given is not None else kept.dagster_secret, kept.dagster_read_secret)


def headers(settings: Settings) -> dict[str, str]:
    """Return the headers of a request to Dagster's webserver; empty for an external webserver without DAGSTER_SECRET."""
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return {}
    return {"Authorization": f"Bearer {secrets_of(settings).admin}"}


def link(settings: Settings, role: Role = "admin", path: str = "/") -> str:
    """Return a URL that opens Dagster in a browser, once and within 12 hours; for an external webserver, its plain URL."""
    address = f"{settings.dagster_address}{path}"
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return address
    return f"{address}?{urlencode({'token': _sign(secrets_of(settings), _LINK, role, LINK_SECONDS)})}"


def session(own: Secrets, role: Role) -> str:
    """Return the session cookie for a browser that opened a link."""
    return _sign(own, _SESSION, role, SESSION_SECONDS)


def role_of_session(own: Secrets, cookie: str) -> Role | None:
    claims = _verified(own, _SESSION, cookie)
    return claims["role"] if claims else None


class Links:
    """The links that this webserver process has accepted: each works once. They are not remembered across restarts."""

    def __init__(self, own: Secrets) -> None:
        self._secrets = own
        self._used: dict[str, float] = {}

    def use(self, token: str) -> Role | None:
        """Return the role that a link grants and mark it as used; None if it is used, expired or not ours."""
        claims = _verified(self._secrets, _LINK, token)
        now = time.time()
        self._used = {known: until for known, until in self._used.items() if until > now}
        if claims is None or claims["jti"] in self._used:
            return None
        self._used[claims["jti"]] = claims["exp"]
        return claims["role"]


def _sign(own: Secrets, audience: str, role: Role, seconds: int) -> str:
    claims = {"aud": audience, "role": role, "jti": secrets.token_urlsafe(12), "exp": int(time.time()) + seconds}
    return jwt.encode(claims, own.admin, ALGORITHM)


def _verified(own: Secrets, audience: str, token: str) -> dict[str, Any] | None:
    try:
        claims = jwt.decode(
            token, own.admin, [ALGORITHM], audience=audience, options={"require": ["exp", "aud", "jti"]}
        )
    except jwt.InvalidTokenError:
        return None
    return claims if claims.get("role") in ("admin", "viewer") else None
