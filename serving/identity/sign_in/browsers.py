"""The cookie that binds a sign-in to the browser in which it was begun."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple

from litestar.datastructures import Cookie

from serving.identity.sign_in.attempts import LIFETIME
from serving.identity.sign_in.sessions import is_https

if TYPE_CHECKING:
    from resources.settings import Settings


class Binding(NamedTuple):
    """What a sign-in's state says of its browser, and the cookie by which the browser proves it."""

    digest: str
    cookie: Cookie


def browser_cookie_name(settings: Settings) -> str:
    return "__Host-concordance-sign-in" if is_https(settings) else "concordance-sign-in"


def bound(settings: Settings, kept: str) -> Binding:
    """Return the binding to a browser. `kept` is the cookie's value so far, so that several tabs may sign in at a time."""
    value = kept if _is_secret(kept) else secrets.token_urlsafe(32)
    cookie = Cookie(
        key=browser_cookie_name(settings),
        value=value,
        path="/",
        max_age=int(LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=is_https(settings),  # without it, browsers do not accept a name with `__Host-`
    )
    return Binding(_digest(value), cookie)


def is_bound(digest: object, kept: str) -> bool:
    """Return True if the browser that has this cookie began the sign-in."""
    return _is_secret(kept) and hmac.compare_digest(str(digest), _digest(kept))


def _is_secret(text: str) -> bool:
    return len(text) == 43 and text.isascii()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
