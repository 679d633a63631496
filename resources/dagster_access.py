"""Access to Dagster's webserver: programs send a secret, people open a signed link that works once.

This module makes the header of a program's request, the links that `concordance` prints, and those of people who are signed in to the
HTTP interface; `orchestration/supervision/webserver.py` checks them. It does not import Dagster.
"""

import hmac
import secrets
import time
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

import jwt

from resources import keys
from resources.core.guard import LOOPBACK
from resources.settings import Settings

Role = Literal["admin", "viewer"]
"""Administrators may do everything; viewers may only read."""

ALGORITHM = "HS256"
LINK_SECONDS = 12 * 3600
PERSON_LINK_SECONDS = 60
"""The browser of a signed-in user follows the link at once."""
SESSION_SECONDS = 12 * 3600
READ_ONLY = b"concordance/dagster-read-only"
"""What the read-only secret is derived from, besides the setting DAGSTER_SECRET."""
_LINK, _SESSION = "dagster-link", "dagster-session"


class DagsterSecrets(NamedTuple):
    """The secrets that give access to the webserver."""

    admin: str
    viewer: str

    def role(self, given: str) -> Role | None:
        if hmac.compare_digest(given.encode(), self.admin.encode()):
            return "admin"
        if hmac.compare_digest(given.encode(), self.viewer.encode()):
            return "viewer"
        return None


class Person(NamedTuple):
    """A user who is signed in to the HTTP interface, with the ID of that session."""

    email: str
    session_id: str


class Grant(NamedTuple):
    """Rights of a link or session. With a person, the role is the one that the person had then, and must be looked up again."""

    role: Role
    person: Person | None = None


def secrets_of(settings: Settings) -> DagsterSecrets:
    """Return the secrets of the webserver: the setting DAGSTER_SECRET, otherwise those stored in HOME.

    The read-only one follows from the setting, so that processes on several machines agree on it.
    """
    if settings.dagster_secret is not None:
        admin = settings.dagster_secret.get_secret_value()
        return DagsterSecrets(admin, hmac.new(admin.encode(), READ_ONLY, "sha256").hexdigest())
    keys.ensure(settings)
    kept = keys.load(settings)
    return DagsterSecrets(kept.dagster_secret, kept.dagster_read_secret)


def headers(settings: Settings) -> dict[str, str]:
    """Return the headers of a request to Dagster's webserver; empty for an external webserver without DAGSTER_SECRET."""
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return {}
    return {"Authorization": f"Bearer {secrets_of(settings).admin}"}


def link(settings: Settings, role: Role = "admin", path: str = "/") -> str:
    """Return a URL that opens Dagster in a browser, once and within 12 hours; for an external webserver, its plain URL.

    It is at the public address, if there is one: the browser is often on another machine.
    """
    address = f"{settings.dagster_public_url or settings.dagster_address}{path}"
    if settings.dagster_url is not None and settings.dagster_secret is None:
        return address
    return _with_token(address, _sign(secrets_of(settings), _LINK, Grant(role), LINK_SECONDS))


def link_of(own: DagsterSecrets, grant: Grant, address: str) -> str:
    """Return a URL that opens Dagster at `address` for the person of a grant, once and within a minute."""
    return _with_token(address, _sign(own, _LINK, grant, PERSON_LINK_SECONDS))


def browser_address(settings: Settings) -> str | None:
    """Return where the browsers of people who are signed in reach Dagster's webserver; None if they cannot, or it is not ours."""
    if settings.dagster_public_url is not None:
        return settings.dagster_public_url
    local = urlsplit(settings.base_url).hostname in LOOPBACK
    return settings.dagster_address if local and settings.dagster_url is None else None


def session(own: DagsterSecrets, grant: Grant) -> str:
    """Return the session cookie for a browser that opened a link."""
    return _sign(own, _SESSION, grant, SESSION_SECONDS)


def grant_of_session(own: DagsterSecrets, cookie: str) -> Grant | None:
    """Return what a session cookie gives; None if it is expired or not ours."""
    claims = _verified(own, _SESSION, cookie)
    return _grant(claims) if claims else None


class OneTimeLinks:
    """The links that this webserver process has accepted: each works once. They are not remembered across restarts."""

    def __init__(self, own: DagsterSecrets) -> None:
        self._secrets = own
        self._started = time.time()
        self._used: dict[str, float] = {}

    def use(self, token: str) -> Grant | None:
        """Return what a link grants and mark it as used; None if it is used, expired or not ours.

        A person's link is also refused if it is older than this process, which cannot know whether it was used; printed links,
        which may be opened hours later, are not.
        """
        claims = _verified(self._secrets, _LINK, token)
        now = time.time()
        self._used = {known: until for known, until in self._used.items() if until > now}
        if claims is None or claims["jti"] in self._used:
            return None
        grant = _grant(claims)
        if grant.person is not None and claims["iat"] < self._started:
            return None
        self._used[claims["jti"]] = claims["exp"]
        return grant


def _with_token(address: str, token: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'token': token})}"


def _sign(own: DagsterSecrets, audience: str, grant: Grant, seconds: int) -> str:
    now = time.time()
    claims: dict[str, Any] = {"aud": audience, "role": grant.role, "jti": secrets.token_urlsafe(12)}
    claims |= {"iat": now, "exp": int(now) + seconds}
    if grant.person is not None:
        claims |= {"sub": grant.person.email, "sid": grant.person.session_id}
    return jwt.encode(claims, own.admin, ALGORITHM)


def _verified(own: DagsterSecrets, audience: str, token: str) -> dict[str, Any] | None:
    try:
        claims = jwt.decode(
            token, own.admin, [ALGORITHM], audience=audience, options={"require": ["exp", "iat", "aud", "jti"]}
        )
    except jwt.InvalidTokenError:
        return None
    return claims if claims.get("role") in ("admin", "viewer") else None


def _grant(claims: dict[str, Any]) -> Grant:
    return Grant(claims["role"], Person(claims["sub"], claims["sid"]) if "sid" in claims else None)
