"""Access tokens of a provider, which programs send instead of a token of ours."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import jwt

from resources.core.domain import Access
from resources.core.permissions import principals_of
from serving.sign_in.identity import identity
from serving.sign_in.provider import Provider
from serving.sign_in.refusals import SignInRefusedError

ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash", "s_hash")
"""Claims that only ID tokens have. Source: OpenID Connect Core 1.0, 2 and 3.3.2.11."""


def provider_of(providers: Iterable[Provider], token: str) -> Provider | None:
    """Return the provider that a token names as its issuer, unverified; None for a token of ours and for text that is none."""
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except jwt.InvalidTokenError:
        return None
    return next((one for one in providers if one.setting.issuer == issuer), None)


async def provider_access(provider: Provider, token: str, max_age: timedelta) -> Access:
    """Return the access of an access token; its groups count while it is younger than `max_age`.

    Raises `SignInRefusedError` and `ProviderDownError`.
    """
    setting = provider.setting
    claims = await provider.claims(token, setting.audiences or (setting.client_id,))
    if any(name in claims for name in ID_TOKEN_CLAIMS) or claims.get("typ") == "ID":
        raise SignInRefusedError("id-token", "This is an ID token, which is for signing in only. Send an access token.")
    party: Any = claims.get("azp", claims.get("client_id", setting.client_id))
    if not setting.audiences and party != setting.client_id:
        raise SignInRefusedError("authorized-party", "This token was made for another application.")
    found = identity(setting, claims)
    fresh = found.groups if time.time() - float(claims["iat"]) <= max_age.total_seconds() else []
    return Access(email=found.email, principals=principals_of(found.email, fresh))
