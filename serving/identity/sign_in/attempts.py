"""Attempts to sign in or to connect an account: the client's side of the authorization code flow with PKCE.

The `state` of an attempt is signed for one purpose and valid for ten minutes. The nonce and the PKCE verifier are derived from its id
and the key that signed it, so they are stored nowhere. Each purpose records in Postgres in its own way that an attempt is used once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import jwt

LIFETIME = timedelta(minutes=10)
_ALGORITHM = "HS256"


class Attempts:
    """Attempts for one purpose, whose states are accepted for no other one and not as tokens."""

    def __init__(self, keys: tuple[str, ...], purpose: str) -> None:
        """The first key signs, all of them verify."""
        self._keys = keys
        self._key = keys[0]
        self._purpose = purpose
        self._audience = f"concordance-{purpose}"

    def signed(self, attempt: str, expires: datetime, **claims: object) -> str:
        """Return the `state` of an attempt, which carries the claims."""
        own = {"aud": self._audience, "jti": attempt, "exp": expires}
        return jwt.encode(claims | own, self._key, algorithm=_ALGORITHM)

    def of(self, state: str) -> Attempts:
        """Return the attempts of the key that signed a state, with which its secrets are derived."""
        return Attempts((self._signer(state),), self._purpose)

    def opened(self, state: str) -> Mapping[str, Any]:
        """Return the claims of a state; `jti` is the attempt's id. Raises `jwt.ExpiredSignatureError` and other `jwt.InvalidTokenError`."""
        return jwt.decode(
            state,
            self._signer(state),
            algorithms=[_ALGORITHM],
            audience=self._audience,
            options={"require": ["exp", "aud", "jti"]},
        )

    def claimed(self, state: str, name: str) -> str:
        """Return a claim of a state of ours, also of an expired one; empty if there is none."""
        try:
            return str(self._claims(state, self._signer(state)).get(name, ""))
        except jwt.InvalidTokenError:
            return ""

    def _signer(self, state: str) -> str:
        """Return the key that signed a state; the first one if none did."""
        for key in self._keys:
            with suppress(jwt.InvalidTokenError):
                self._claims(state, key)
                return key
        return self._key

    def _claims(self, state: str, key: str) -> Mapping[str, Any]:
        return jwt.decode(state, key, algorithms=[_ALGORITHM], audience=self._audience, options={"verify_exp": False})

    def address(self, endpoint: str, attempt: str, state: str, parameters: Mapping[str, str]) -> str:
        """Return the address of the page on which a person agrees. Source: RFC 6749 4.1.1 and RFC 7636 4.3."""
        challenge = hashlib.sha256(self.secret("verifier", attempt).encode()).digest()
        own = {
            "response_type": "code",
            "state": state,
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode({**parameters, **own})}"

    def grant(self, attempt: str, code: str, redirect_uri: str) -> dict[str, str]:
        """Return the form with which a code is exchanged for tokens. Source: RFC 6749 4.1.3 and RFC 7636 4.5."""
        verifier = self.secret("verifier", attempt)
        own = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier}
        return own | {"redirect_uri": redirect_uri}

    def secret(self, name: str, attempt: str) -> str:
        """Return 43 characters that cannot be computed without our key. Source of the length: RFC 7636 4.1."""
        return _base64(hmac.digest(self._key.encode(), f"{self._purpose} {name} {attempt}".encode(), hashlib.sha256))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
