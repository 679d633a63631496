"""Identity of a user by a provider's claims: the email and the groups that Concordance accepts."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list, is_object
from resources.logging import logger
from resources.settings import OidcProvider
from serving.identity.sign_in.provider import EXPIRED, IMMATURE, Provider, Tokens
from serving.identity.sign_in.refusals import SignInRefusedError

GOOGLE = "https://accounts.google.com"

log = logger("serving")


class ProviderIdentity(msgspec.Struct, frozen=True):
    """A person as a provider knows them."""

    subject: str
    email: str
    groups: list[str]
    groups_omitted: bool = False
    """True if the person is in too many groups for the provider to list them."""


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
    if claims.get("sub") != subject:
        raise SignInRefusedError("subject", "The provider renewed the session of another user.", about_person=True)
    return await _identity(provider, tokens, claims)


async def _id_claims(provider: Provider, token: str) -> Mapping[str, Any]:
    client = provider.setting.client_id
    try:
        claims = await provider.claims(token, (client,))
    except SignInRefusedError as error:
        if error.reason in {EXPIRED, IMMATURE}:  # although the provider has just issued it
            log.error("clock_wrong", provider=provider.setting.name, reason=error.reason)
            detail = f"The clock of Concordance's server differs from that of {provider.setting.name}."
            raise SignInRefusedError(error.reason, detail) from None
        raise
    audience = claims["aud"]
    if claims.get("azp", client) != client or (is_list(audience) and len(audience) > 1 and "azp" not in claims):
        raise SignInRefusedError("authorized-party", "This ID token was made for another application.")
    return claims


async def _identity(provider: Provider, tokens: Tokens, claims: Mapping[str, Any]) -> ProviderIdentity:
    answers = [claims]
    if tokens.access_token is not None and not _is_complete(provider.setting, claims):
        more = await provider.userinfo(tokens.access_token)
        if more and more.get("sub") != claims["sub"]:
            raise SignInRefusedError("subject", "The provider's answers are about different people.", about_person=True)
        answers.append(more)
    return identity(provider.setting, *answers)


def _is_complete(setting: OidcProvider, claims: Mapping[str, Any]) -> bool:
    """Return True if the userinfo endpoint has nothing to add. It has no groups that the ID token leaves out as too many."""
    verified = "email" in claims and ("email_verified" in claims or setting.trust_email)
    groups = setting.groups_claim
    return verified and (groups is None or groups in claims or _leaves_out(groups, claims))


def identity(setting: OidcProvider, *answers: Mapping[str, Any]) -> ProviderIdentity:
    """Return the email and groups in a provider's answers about a person, which were verified: an ID token and userinfo, or one token.

    Raises `SignInRefusedError` for an email that does not count.
    """
    email, name = _email(setting, _about_email(answers)), setting.groups_claim
    nothing: Mapping[str, Any] = {}
    claims = next((one for one in answers if name in one), nothing)
    omitted = name is not None and not claims and any(_leaves_out(name, one) for one in answers)
    if omitted:
        log.warning("oidc_groups_omitted", provider=setting.name)
    return ProviderIdentity(str(answers[0]["sub"]), email, groups_of(setting, claims, email), groups_omitted=omitted)


def _leaves_out(groups_claim: str, claims: Mapping[str, Any]) -> bool:
    """Return True if the claim is too long for the token, which has a link instead.

    Source: OpenID Connect Core 1.0, 5.6.2; https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference#groups-overage-claim
    """
    links = claims.get("_claim_names")
    return (is_object(links) and groups_claim in links) or claims.get("hasgroups") in (True, "true")


def _about_email(answers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the answer that the email is taken from, with all that is said of it: one answer's flag does not vouch for another's email."""
    emails = [one for one in answers if "email" in one]
    return next((one for one in emails if "email_verified" in one), emails[0] if emails else {})


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
            about_person=verified != "missing",
        )
    # Anyone can make a Google account with an address elsewhere, and keeps it after the address is withdrawn; only `hd` says
    # that the domain's owner manages it. Source: https://developers.google.com/identity/openid-connect/openid-connect#an-id-tokens-payload
    managed = setting.issuer.rstrip("/") != GOOGLE or domain in {
        *permissions.CONSUMERS,
        str(claims.get("hd", "")).lower(),
    }
    if not managed or (setting.domains and domain not in setting.domains):
        detail = f"Accounts of {domain} cannot sign in with {setting.name} here."
        raise SignInRefusedError("domain", detail, email, about_person=True)
    return email


def groups_of(setting: OidcProvider, claims: Mapping[str, Any], email: str) -> list[str]:
    """Return the groups of the claim as `NAME@DOMAIN`, named as SCIM names them; those without a domain get that of the email.

    A provider with `domains` vouches for groups of these only. Names that are none are left out.
    """
    given = claims.get(setting.groups_claim) if setting.groups_claim else None
    names = [given] if isinstance(given, str) else given if is_list(given) else []
    found: set[str] = set()
    left_out = 0
    for name in names:
        try:
            principal = permissions.named_group(name if isinstance(name, str) else "", email.rpartition("@")[2])
        except InvalidRequestError:
            left_out += 1
            continue
        group = principal.removeprefix("group:")
        if setting.domains and group.rpartition("@")[2] not in setting.domains:
            left_out += 1
            continue
        found.add(group)
    if left_out:
        log.warning("oidc_groups_left_out", provider=setting.name, count=left_out)
    return sorted(found)
