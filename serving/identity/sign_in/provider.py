"""A client of an OpenID Connect provider: discovery, keys, and the calls of the authorization code flow.

Source: OpenID Connect Core 1.0 and Discovery 1.0; RFC 9700 (best current practice), RFC 9207 (`iss`).
No message and no log contains a code, token or secret.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
import jwt
import msgspec

from resources import http_clients
from resources.core.json import is_list, is_object
from resources.logging import logger
from resources.settings import OidcProvider
from serving.identity.sign_in.refusals import ProviderDownError, RefreshRefusedError, SignInRefusedError

CALL_SECONDS = 10.0
"""Longest time for one call, from connecting to the last byte."""
METADATA_SECONDS = 3600.0
PAUSE_SECONDS = 5.0
KEYS_SECONDS = 3600.0
"""After this time the keys are read again, so that a withdrawn key stops working."""
KEYS_AT_MOST_SECONDS = 86_400.0
"""Longest use of keys while the provider does not answer."""
UNKNOWN_KEY_SECONDS = 30.0
"""An unknown key makes us read the keys again at most this often: anyone can send a token that names one."""
RETRY_AFTER_SECONDS = 10.0
UNKNOWN_KEY, EXPIRED, IMMATURE = "unknown-key", "expired", "not-yet-valid"
LEEWAY_SECONDS = 60
"""Difference of clocks that is tolerated."""
ALGORITHMS = {"RS256": ("RSA", None), "ES256": ("EC", "P-256")}
"""Accepted signatures, with the type and curve of key that they need."""

log = logger("serving")


class Metadata(msgspec.Struct, frozen=True):
    """Provider metadata from discovery. Source: OpenID Connect Discovery 1.0, section 3."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """The answer of the token endpoint."""

    id_token: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None


class SignOutForm(msgspec.Struct, frozen=True):
    """A form that the browser sends to the provider."""

    method: str
    action: str
    fields: Mapping[str, str]


class Provider:
    def __init__(self, setting: OidcProvider) -> None:
        self.setting = setting
        self._client = http_clients.outward_async(timeout=CALL_SECONDS)
        self._discovering = asyncio.Lock()
        self._reading_keys = asyncio.Lock()
        self._failed = -PAUSE_SECONDS
        self._asked_again = -UNKNOWN_KEY_SECONDS
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, Sequence[Mapping[str, Any]]] | None = None

    async def close(self) -> None:
        await self._client.aclose()

    async def metadata(self, max_age: float = METADATA_SECONDS) -> Metadata:
        """Return the provider's metadata, not older than `max_age` seconds. Raises `ProviderDownError`.

        After a failure, others do not wait for the provider again for a few seconds.
        """
        asked = time.monotonic()
        async with self._discovering:
            if self._metadata is not None and (self._metadata[0] >= asked or asked - self._metadata[0] < max_age):
                return self._metadata[1]
            if time.monotonic() - self._failed < PAUSE_SECONDS:
                raise self._down("it did not answer a moment ago")
            try:
                self._metadata = (time.monotonic(), await self._discover())
            except ProviderDownError:
                self._failed = time.monotonic()
                raise
            return self._metadata[1]

    async def _discover(self) -> Metadata:
        issuer = self.setting.issuer
        body = await self._json("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        try:
            found = msgspec.convert(body, Metadata)
        except msgspec.ValidationError as error:
            raise self._down(f"its metadata is incomplete: {error}") from None
        if found.issuer != issuer:
            raise self._down("its metadata names another issuer than CONCORDANCE_OIDC_PROVIDERS")
        endpoints = [found.authorization_endpoint, found.token_endpoint, found.jwks_uri]
        endpoints += [one for one in (found.userinfo_endpoint, found.end_session_endpoint) if one]
        if issuer.startswith("https:") and not all(one.startswith("https://") for one in endpoints):
            raise self._down("its metadata names an endpoint without https")
        return found

    async def exchange(self, grant: dict[str, str]) -> Tokens:
        """Return the tokens of an authorization code, whose form is given. Raises `SignInRefusedError` and `ProviderDownError`."""
        response = await self._token_request(grant)
        if response.is_success:
            return self._tokens(response)
        raise self._refusal(response)

    async def refresh(self, refresh_token: str) -> Tokens:
        """Return new tokens. Raises `RefreshRefusedError` if the provider does not renew them, and `ProviderDownError`."""
        response = await self._token_request({"grant_type": "refresh_token", "refresh_token": refresh_token})
        if response.is_success:
            return self._tokens(response)
        if _error(response) == "invalid_grant":
            raise RefreshRefusedError
        raise self._down(f"it answered a refresh with status {response.status_code}")

    async def _token_request(self, form: dict[str, str]) -> httpx.Response:
        setting, metadata = self.setting, await self.metadata()
        secret = setting.client_secret.get_secret_value() if setting.client_secret is not None else ""
        auth: tuple[str, str] | None = None
        if not secret:
            form = form | {"client_id": setting.client_id}
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            auth = (quote(setting.client_id, safe=""), quote(secret, safe=""))  # Source: RFC 6749 2.3.1
        else:
            form = form | {"client_id": setting.client_id, "client_secret": secret}
        return await self._send("POST", metadata.token_endpoint, data=form, auth=auth)

    def _tokens(self, response: httpx.Response) -> Tokens:
        try:
            return msgspec.json.decode(response.content, type=Tokens)
        except msgspec.MsgspecError:
            raise self._down("its answer holds no tokens") from None

    def _refusal(self, response: httpx.Response) -> Exception:
        error = _error(response)
        log.warning("oidc_refused", provider=self.setting.name, status=response.status_code, error=error)
        if error == "invalid_grant":
            return SignInRefusedError(
                "code-refused", "This sign-in was already used or took too long. Please try again."
            )
        if error in {"invalid_client", "unauthorized_client"}:
            return ProviderDownError(
                f"{self.setting.name} does not accept this installation's client. An administrator should check client_id and "
                "client_secret in CONCORDANCE_OIDC_PROVIDERS."
            )
        return self._down(f"it answered with status {response.status_code}")

    async def userinfo(self, access_token: str) -> Mapping[str, Any]:
        """Return the claims of the userinfo endpoint, none if there is no such endpoint. Raises `ProviderDownError`."""
        endpoint = (await self.metadata()).userinfo_endpoint
        if endpoint is None:
            return {}
        return await self._json("GET", endpoint, headers={"Authorization": f"Bearer {access_token}"})

    async def sign_out(self, id_token: str | None, after: str) -> SignOutForm | None:
        """Return the form with which a person signs out of the provider; None if it has no page for that.

        With the ID token it is posted, so that the token gets into no address, history or log. Without it, the provider may ask the
        person. Source: OpenID Connect RP-Initiated Logout 1.0, section 2.
        """
        endpoint = (await self.metadata()).end_session_endpoint
        if endpoint is None:
            return None
        fields = {"client_id": self.setting.client_id, "post_logout_redirect_uri": after}
        if id_token is not None:
            return SignOutForm("post", endpoint, fields | {"id_token_hint": id_token})
        # browsers replace the query of a form that is not posted
        return SignOutForm("get", endpoint, dict(parse_qsl(urlsplit(endpoint).query)) | fields)

    async def claims(self, token: str, audiences: tuple[str, ...], grace: float = 0.0) -> Mapping[str, Any]:
        """Return the claims of a JWT of this provider: signature, issuer, audience and times are checked.

        `grace` says for how many seconds it may have expired. Raises `SignInRefusedError` and `ProviderDownError`.
        """
        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            if algorithm not in ALGORITHMS:
                raise SignInRefusedError("algorithm", "Only signatures with RS256 and ES256 are accepted.")
            key = await self._key(header.get("kid"), algorithm)
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=list(audiences),
                issuer=self.setting.issuer,
                leeway=LEEWAY_SECONDS + grace,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWTError as error:  # also for a listed key that is none
            raise SignInRefusedError(
                _reason(error), f"The token of {self.setting.name} is not accepted: {error}."
            ) from None

    async def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the key that a token names. An unknown one makes us read the keys again, at most every 30 s."""
        found = self._listed(kid, algorithm)
        if found is None or self._keys_age() > KEYS_SECONDS:
            async with self._reading_keys:
                found = self._listed(kid, algorithm)
                wanted = found is None or self._keys_age() > KEYS_SECONDS
                if self._keys is None or (wanted and time.monotonic() - self._asked_again > UNKNOWN_KEY_SECONDS):
                    if self._keys is not None:
                        self._asked_again = time.monotonic()
                    await self._read_keys(required=found is None)
                    found = self._listed(kid, algorithm)
        if found is None:
            name = self.setting.name
            raise SignInRefusedError(UNKNOWN_KEY, f"The token was signed with a key that {name} does not list.")
        return jwt.PyJWK.from_dict(dict(found), algorithm=algorithm)

    async def _read_keys(self, *, required: bool) -> None:
        """Read the provider's keys. If it is down, known ones stay for a day, unless the wanted key is not among them."""
        try:
            body = await self._json("GET", (await self.metadata()).jwks_uri)
        except ProviderDownError:
            if required:
                raise
            return
        listed = body.get("keys")
        self._keys = (time.monotonic(), [one for one in listed if is_object(one)] if is_list(listed) else [])

    def _keys_age(self) -> float:
        return float("inf") if self._keys is None else time.monotonic() - self._keys[0]

    def _listed(self, kid: str | None, algorithm: str) -> Mapping[str, Any] | None:
        if self._keys is None or self._keys_age() > KEYS_AT_MOST_SECONDS:
            return None
        return _matching(self._keys[1], kid, algorithm)

    async def _json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        response = await self._send(method, url, **more)
        try:
            body = response.json() if response.is_success else None
        except ValueError:
            body = None
        if not is_object(body):
            raise self._down(f"it answered with status {response.status_code}, and not with JSON")
        return body

    async def _send(self, method: str, url: str, **more: Any) -> httpx.Response:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                response = await self._client.request(method, url, **more)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise self._down(f"no answer ({type(error).__name__})") from None
        if response.status_code >= 500:
            raise self._down(f"it answered with status {response.status_code}")
        return response

    def _down(self, why: str) -> ProviderDownError:
        log.warning("oidc_unavailable", provider=self.setting.name, why=why)
        return ProviderDownError(
            f"{self.setting.name} cannot be used for sign-in at the moment. Please try again in a minute.",
            RETRY_AFTER_SECONDS,
        )


def _matching(keys: Sequence[Mapping[str, Any]], kid: str | None, algorithm: str) -> Mapping[str, Any] | None:
    """Return the key for a signature; without a name only if there is just one."""
    fit = [
        one
        for one in keys
        if (one.get("kty"), one.get("crv")) == ALGORITHMS[algorithm]
        and one.get("use", "sig") == "sig"
        and one.get("alg", algorithm) == algorithm
    ]
    named = [one for one in fit if one.get("kid") == kid] if kid is not None else fit
    return named[0] if len(named) == 1 or (named and kid is not None) else None


def _reason(error: jwt.PyJWTError) -> str:
    kinds: dict[type[jwt.PyJWTError], str] = {
        jwt.ExpiredSignatureError: EXPIRED,
        jwt.ImmatureSignatureError: IMMATURE,
        jwt.InvalidAudienceError: "audience",
        jwt.InvalidIssuerError: "issuer",
        jwt.InvalidSignatureError: "signature",
    }
    return kinds.get(type(error), "malformed")


def _error(response: httpx.Response) -> str:
    """Return the error code of RFC 6749 5.2, or an empty string."""
    try:
        body = response.json()
    except ValueError:
        return ""
    code = body.get("error") if is_object(body) else None
    return code if isinstance(code, str) else ""
