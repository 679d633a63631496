"""Access tokens of a provider, which programs send instead of a token of ours.

An ID token says who signed in to a client, and reaches browsers, logs and other clients. It must never work as a credential, so a token
has to be made for an audience that is not our client, and to look like an access token.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import jwt

from resources.core.domain import Access
from resources.core.json import is_list
from resources.core.permissions import principals_of
from resources.settings import OidcProvider
from serving.identity.sign_in.claims import identity
from serving.identity.sign_in.provider import Provider
from serving.identity.sign_in.refusals import SignInRefusedError

ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash", "s_hash")
"""Claims that only ID tokens have. One that a refresh returns may lack them all. Source: OpenID Connect Core 1.0, 2, 3.3.2.11 and 12.2."""
ACCESS_TOKEN_TYPES = frozenset({"at+jwt", "application/at+jwt"})
"""Values of the header `typ`. Source: RFC 9068 2.1 and 4."""
SCOPES = ("scope", "scp")
"""Claims that access tokens of providers without that header have. Source: RFC 9068 2.2.3; Okta and Entra ID name it `scp`."""


def provider_of(providers: Collection[Provider], token: str) -> Provider | None:
    """Return the provider that a token names as its issuer, unverified; None for a token of ours and for text that is none."""
    if not providers:
        return None
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except jwt.InvalidTokenError:
        return None
    return next((one for one in providers if one.setting.issuer == issuer), None)


async def provider_access(provider: Provider, token: str, max_age: timedelta, grace: float) -> Access:
    """Return the access of an access token; its groups count while it is younger than `max_age`.

    `grace` says for how many seconds it may have expired. Raises `SignInRefusedError` and `ProviderDownError`.
    """
    setting = provider.setting
    if not setting.audiences:
        raise SignInRefusedError(
            "no-audiences",
            f"Access tokens of {setting.name} are not accepted here: list their audience as `audiences` in CONCORDANCE_OIDC_PROVIDERS.",
        )
    claims = await provider.claims(token, setting.audiences, grace)
    if not _is_access_token(setting, jwt.get_unverified_header(token), claims):
        raise SignInRefusedError(
            "id-token", "This is not an access token for this interface. ID tokens are for signing in only."
        )
    found = identity(setting, claims)
    fresh = found.groups if time.time() - float(claims["iat"]) <= max_age.total_seconds() else []
    return Access(email=found.email, principals=principals_of(found.email, fresh), groups_omitted=found.groups_omitted)


def _is_access_token(setting: OidcProvider, header: Mapping[str, Any], claims: Mapping[str, Any]) -> bool:
    """Return True for a token that cannot be an ID token: every ID token has its client as an audience, and no scope."""
    audience: Any = claims["aud"]
    if setting.client_id in (audience if is_list(audience) else [audience]):
        return False
    if any(name in claims for name in ID_TOKEN_CLAIMS) or claims.get("typ") == "ID":
        return False
    return str(header.get("typ", "")).lower() in ACCESS_TOKEN_TYPES or any(claims.get(name) for name in SCOPES)
