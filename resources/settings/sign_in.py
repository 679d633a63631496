"""Settings of sign-in with OpenID Connect."""

import json
import re
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from resources.settings.messages import message
from resources.settings.urls import http_url, is_local
from resources.settings.values import text_or_file
from resources.withheld import Withheld

_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_OWN = {
    "sample": "the sample company's people",
    "link": "people who opened a link of `concordance sign-in`",
    "email": "people who opened a link that was sent by email",
    "passkey": "people who used a passkey",
}
"""Providers of ours, which take these names."""
OWN_PARAMETERS = frozenset({
    "client_id", "response_type", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method",
    "response_mode", "request", "request_uri",
})  # fmt: skip


class OidcProvider(BaseModel):
    """A provider that people sign in with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$")
    issuer: str
    client_id: str = Field(min_length=1)
    client_secret: SecretStr | None = None
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    groups_claim: str | None = None
    trust_email: bool = False
    """Accept the email of a provider that never says whether it is verified."""
    domains: tuple[str, ...] = ()
    """Domains of emails and groups that the provider may vouch for. Empty, which is possible for a single provider only: all."""
    audiences: tuple[str, ...] = ()
    """Audiences of access tokens that programs may send. Empty: none are accepted."""
    sign_out_with_id_token: bool = False
    """Send the ID token to the provider's sign-out page, for a provider that demands it."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """More parameters of the authorization request."""

    @property
    def slug(self) -> str:
        """The provider's name in paths."""
        return self.name.lower().replace(" ", "-")

    @field_validator("name")
    @classmethod
    def _not_taken(cls, name: str) -> str:
        if name.lower() in _OWN:
            raise ValueError(f"must not be {name.lower()}, which stands for {_OWN[name.lower()]}")
        return name

    @field_validator("issuer")
    @classmethod
    def _secure(cls, url: str) -> str:
        parts = urlsplit(http_url(url))
        if parts.scheme != "https" and not is_local(parts.hostname or ""):
            raise ValueError(f"must begin with https://, not {url!r}")
        return url

    @field_validator("scopes")
    @classmethod
    def _openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must contain openid")
        return scopes

    @field_validator("domains")
    @classmethod
    def _plain_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(domain.lower() for domain in domains)
        for domain in plain:
            if not _DOMAIN.fullmatch(domain):
                raise ValueError(f"must be a list of domains such as acme.com, not {domain!r}")
        return plain

    @field_validator("audiences")
    @classmethod
    def _not_the_client(cls, audiences: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("client_id") in audiences:
            raise ValueError("must not contain the client_id, which is the audience of ID tokens")
        return audiences

    @field_validator("parameters")
    @classmethod
    def _of_others(cls, given: dict[str, str]) -> dict[str, str]:
        if taken := OWN_PARAMETERS & given.keys():
            raise ValueError(f"must not contain {', '.join(sorted(taken))}, which Concordance sets")
        return given


class SignInSettings(BaseModel):
    """Providers that people sign in with."""

    oidc_providers: SecretStr | None = None
    """JSON list of providers, or @path to one. Secret, because it contains the clients' secrets."""

    @field_validator("oidc_providers")
    @classmethod
    def _valid(cls, text: SecretStr | None) -> SecretStr | None:
        if text is None or isinstance(text, Withheld):  # `up` has checked it
            return text
        found = text_or_file(text.get_secret_value())
        return SecretStr(found) if _providers(found) else None

    @property
    def providers(self) -> tuple[OidcProvider, ...]:
        """The providers, in the order of the setting."""
        return () if self.oidc_providers is None else _providers(self.oidc_providers.get_secret_value())

    @property
    def claims_groups(self) -> bool:
        """True if a provider's claim is a source of groups, or if this process may not know."""
        return isinstance(self.oidc_providers, Withheld) or any(one.groups_claim for one in self.providers)


@lru_cache(8)
def _providers(text: str) -> tuple[OidcProvider, ...]:
    """Return the providers of a JSON list. Raises `ValueError`, which quotes no secret."""
    try:
        rows: Any = json.loads(text) if text.strip() else []
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg}, line {error.lineno}") from None
    if not isinstance(rows, list):
        raise ValueError(  # noqa: TRY004 # pydantic reports only a ValueError
            "must be a JSON list of providers"
        )
    found: list[OidcProvider] = []
    for number, row in enumerate(rows, 1):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (JSON)
        try:
            found.append(OidcProvider.model_validate(row))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ", ".join(map(str, fault["loc"]))
            if "client_secret" in fault["loc"]:
                raise ValueError(f"provider {number} ({where}): must be a text") from None
            raise ValueError(f"provider {number} ({where}): {message(fault, None)}") from None
    slugs = [one.slug for one in found]
    if len(set(slugs)) < len(slugs):
        raise ValueError("names a provider twice: give every provider a name of its own")
    if len(found) > 1 and (open_ended := [one.name for one in found if not one.domains]):
        raise ValueError(
            f"provider {open_ended[0]} (domains): is missing. With several providers, list the domains that each of them vouches for"
        )
    return tuple(found)
