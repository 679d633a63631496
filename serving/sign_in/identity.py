"""Identity of a user by a provider's claims: the email and the groups that Concordance accepts."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from resources.logging import logger
from resources.settings import OidcProvider
from serving.sign_in.provider import Provider, Tokens
from serving.sign_in.refusals import SignInRefusedError

GOOGLE = "https://accounts.google.com"
GMAIL = "gmail.com"

log = logger("serving")


class ProviderIdentity(msgspec.Struct, frozen=True):
    """A person as a provider knows them."""

    subject: str
    email: str
    groups: list[str]


async def signed_in(provider: Provider, tokens: Tokens, nonce: str) -> ProviderIdentity:
    """Return whom the tokens of a new sign-in are for. Raises `SignInRefusedError` and `ProviderDownError`."""
    if tokens.id_token is None:
        raise SignInRefusedError("no-id-token", f"{provider.setting.name} sent no ID token. Please try again.")
    claims = await _id_claims(provider, tokens.id_token)
    if not hmac.compare_digest(str(claims.get("nonce", "")), nonce):
        raise SignInRefusedError("nonce", "This sign-in belongs to another browser or attempt. Please start again.")
    return await _identity(provider, tokens, claims)


async def refreshed(provider: Provider, tokens: Tokens, subject: str) -> ProviderIdentity:
    """Return the identity that the provider now reports for a user who signed in before. Raises as `signed_in` does."""
    claims: Mapping[str, Any] = {"sub": subject}
    if tokens.id_token is not None:
        claims = await _id_claims(provider, tokens.id_token)
    elif tokens.access_token is not None:
        claims = await provider.userinfo(tokens.access_token)
    if claims.get("sub") != subject:
        raise SignInRefusedError("subject", "The provider renewed the session of another user.")
    return await _identity(provider, tokens, claims)


async def _id_claims(provider: Provider, token: str) -> Mapping[str, Any]:
    client = provider.setting.client_id
    claims = await provider.claims(token, (client,))
    audience = claims["aud"]
    if claims.get("azp", client) != client or (is_list(audience) and len(audience) > 1 and "azp" not in claims):
        raise SignInRefusedError("authorized-party", "This ID token was made for another application.")
    return claims


async def _identity(provider: Provider, tokens: Tokens, claims: Mapping[str, Any]) -> ProviderIdentity:
    wanted = ["email", *([provider.setting.groups_claim] if provider.setting.groups_claim else [])]
    if tokens.access_token is not None and not all(name in claims for name in wanted):
        more = await provider.userinfo(tokens.access_token)
        if more and more.get("sub") != claims["sub"]:
            raise SignInRefusedError("subject", "The provider's answers are about different people.")
        claims = {**more, **claims}
    return identity(provider.setting, claims)


def identity(setting: OidcProvider, claims: Mapping[str, Any]) -> ProviderIdentity:
    """Return the email and groups in verified claims. Raises `SignInRefusedError` for an email that does not count."""
    email = _email(setting, claims)
    return ProviderIdentity(str(claims["sub"]), email, groups_of(setting, claims, email))


def _email(setting: OidcProvider, claims: Mapping[str, Any]) -> str:
    given = claims.get("email")
    try:
        email = permissions.email(given if isinstance(given, str) else "")
    except InvalidRequestError:
        raise SignInRefusedError(
            "no-email",
            f"{setting.name} does not tell your email address. Ask your administrator to add the claim `email`.",
        ) from None
    domain = email.rpartition("@")[2]
    verified = str(claims.get("email_verified", "missing")).lower()
    if verified != "true" and not (verified == "missing" and setting.trust_email):
        raise SignInRefusedError(
            "email-unverified",
            f"{setting.name} has not verified your email address. Verify it there, then sign in again.",
            email,
        )
    # Anyone can make a Google account with an address elsewhere, and keeps it after the address is withdrawn; only `hd` says
    # that the domain's owner manages it. Source: https://developers.google.com/identity/openid-connect/openid-connect#an-id-tokens-payload
    managed = setting.issuer.rstrip("/") != GOOGLE or domain in {GMAIL, str(claims.get("hd", "")).lower()}
    if not managed or (setting.domains and domain not in setting.domains):
        raise SignInRefusedError("domain", f"Accounts of {domain} cannot sign in with {setting.name} here.", email)
    return email


def groups_of(setting: OidcProvider, claims: Mapping[str, Any], email: str) -> list[str]:
    """Return the groups of the claim as `NAME@DOMAIN`; names without a domain get that of the email.

    A provider with `domains` vouches for groups of these only. Names that are none are left out.
    """
    given = claims.get(setting.groups_claim) if setting.groups_claim else None
    names = [given] if isinstance(given, str) else given if is_list(given) else []
    found: set[str] = set()
    left_out = 0
    for name in names:
        text = str(name).strip().removeprefix("/") if isinstance(name, str) else ""
        text = text if "@" in text else f"{text}@{email.rpartition('@')[2]}"
        try:
            group = permissions.principal(f"group:{text}").removeprefix("group:")
        except InvalidRequestError:
            left_out += 1
            continue
        if setting.domains and group.rpartition("@")[2] not in setting.domains:
            left_out += 1
            continue
        found.add(group)
    if left_out:
        log.warning("oidc_groups_left_out", provider=setting.name, count=left_out)
    return sorted(found)
