"""How Dagster's webserver is entered: with a secret by programs, by a link that is good once for people.

Enter: settings, the keys in HOME. Leave: the header of a program's request, and links that `concordance` prints. The webserver that
checks both is `orchestration/webserver.py`; nothing here imports Dagster.
"""

from __future__ import annotations

import hmac
import secrets
import time
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import jwt

from resources import keys
from resources.settings import Settings

Role = Literal["admin", "viewer"]
"""Administrators may do everything; viewers read."""

ALGORITHM = "HS256"
LINK_SECONDS = 12 * 3600
SESSION_SECONDS = 12 * 3600
_LINK, _SESSION = "dagster-link", "dagster-session"


class Secrets(NamedTuple):
    """The words that open the webserver."""

    admin: str
    viewer: str

    def role(self, given: str) -> Role | None:
        """Return whom a secret stands for."""
        if hmac.compare_digest(given.encode(), self.admin.encode()):
            return "admin"
        if hmac.compare_digest(given.encode(), self.viewer.encode()):
            return "viewer"
        return None


def of(settings: Settings) -> Secrets:
    """Return the secrets of our webserver: the setting DAGSTER_SECRET for administrators, else those kept in HOME."""
    keys.ensure(settings)
    kept = keys.load(settings)
    given = settings.dagster_secret
    return Secrets(given.get_secret_value() if given is not None else kept.dagster_secret, kept.dagster_read_secret)


def headers(settings: Settings) -> dict[str, str]:
    """Return what a request to Dagster's webserver carries; nothing for a webserver of your own without DAGSTER_SECRET."""
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return {}
    return {"Authorization": f"Bearer {of(settings).admin}"}


def link(settings: Settings, role: Role = "admin", path: str = "/") -> str:
    """Return an address that opens Dagster in a browser, once and within 12 hours; the bare one of a webserver of your own."""
    address = f"{settings.dagster_address}{path}"
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return address
    return f"{address}?{urlencode({'token': _sign(of(settings), _LINK, role, LINK_SECONDS)})}"


def session(own: Secrets, role: Role) -> str:
    """Return the cookie of a browser that has opened a link."""
    return _sign(own, _SESSION, role, SESSION_SECONDS)


def role_of_session(own: Secrets, cookie: str) -> Role | None:
    """Return whom a cookie stands for."""
    claims = _verified(own, _SESSION, cookie)
    return claims["role"] if claims else None


class Links:
    """The links that a webserver has seen: each opens it once. A webserver that was started again knows of none."""

    def __init__(self, own: Secrets) -> None:
        self._secrets = own
        self._used: dict[str, float] = {}

    def use(self, token: str) -> Role | None:
        """Return whom a link stands for, and remember that it was used; None when it was, is too old or is not ours."""
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
