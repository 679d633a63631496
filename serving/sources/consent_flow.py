"""The way to a provider's consent page and back, which ends with a stored refresh token: what a source's `connect` declares.

The provider redirects a browser that is not signed in, so security rests on the `state`, which is consumed in Postgres by its first use.
No message contains a code, token or secret.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import httpx
import jwt

from resources import http_clients
from resources.core.json import is_object
from resources.logging import logger
from resources.settings import Settings
from resources.sources.spec import Consent, ConsentError, ConsentGrant, SourceSpec
from resources.stores import credentials
from resources.stores.postgres import session
from serving.http.database import Database
from serving.http.errors import ProblemError
from serving.http.threads import Threads
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from sql.serving import WebReads, WebSession

PATH = "/api/auth"
TIMEOUT_SECONDS = 20.0

log = logger("serving")


class Connected(NamedTuple):
    """The account that the source is now read with, too, and the administrator who connected it."""

    account: str
    by: str


class ConsentFlow:
    def __init__(
        self,
        spec: SourceSpec,
        consent: Consent,
        settings: Settings,
        keys: tuple[str, ...],
        database: Database,
        threads: Threads,
    ) -> None:
        self._spec = spec
        self._consent = consent
        self._settings = settings
        self._attempts = Attempts(keys, f"{consent.provider}-sign-in")
        self._database = database
        self._threads = threads
        self._callback = f"{settings.base_url}{PATH}/{consent.provider}/callback"

    async def begin(self, email: str, now: datetime) -> str:
        """Start an attempt for a user and return the consent page's address. Raises the problem `source-not-configured`."""
        consent, attempt = self._consent, str(uuid.uuid4())
        client_id, _ = self._client()
        await WebReads(self._database).sign_in_begin(
            sign_in_id=attempt, requested_by=email, now=now, expires_at=now + LIFETIME
        )
        page, _ = consent.endpoints(self._settings)
        own = {"client_id": client_id, "redirect_uri": self._callback, "scope": " ".join(consent.scopes)}
        state = self._attempts.signed(attempt, now + LIFETIME)
        return self._attempts.address(page, attempt, state, {**consent.parameters, **own})

    async def finish(self, answer: Mapping[str, str], now: datetime) -> Connected:
        """Store the token that the provider's answer leads to.

        Raises `ConsentError`, or `ServiceUnavailableError` when Postgres is down.
        """
        label = self._consent.label
        try:
            attempt = str(self._attempts.opened(answer.get("state", ""))["jti"])
        except jwt.ExpiredSignatureError:
            raise ConsentError("This sign-in took longer than ten minutes. Please start it again.") from None
        except jwt.InvalidTokenError:
            raise ConsentError("This sign-in was not started here, or its URL is incomplete.") from None
        claim = str(uuid.uuid4())
        requested_by = await WebReads(self._database).sign_in_finish(sign_in_id=attempt, claim=claim, now=now)
        if requested_by is None:
            raise ConsentError("This sign-in was already completed. Please start a new one.")
        if answer.get("error") == "access_denied":
            raise ConsentError(f"Access was not granted on {label}'s page, so nothing was connected.", 403)
        if "error" in answer or not answer.get("code"):
            raise ConsentError(f"{label} could not complete the sign-in. Please start it again.")
        attempts = self._attempts.of(answer["state"])
        tokens = await self._exchange(attempts.grant(attempt, answer["code"], self._callback))
        grant = await self._threads.run(self._consent.granted, self._settings, tokens)
        await self._threads.run(self._store, grant, requested_by)
        return Connected(grant.account, requested_by)

    def _client(self) -> tuple[str, str]:
        own = self._spec.own_settings(self._settings)
        given = {name: getattr(own, name) for name in self._consent.client}
        missing = [self._spec.variable(name) for name, value in given.items() if not value]
        if missing:
            detail = f"Signing in with {self._consent.label} needs {' and '.join(missing)}."
            raise ProblemError("source-not-configured", detail)
        client_id, secret = given.values()
        return client_id, secret.get_secret_value()

    async def _exchange(self, grant: dict[str, str]) -> Mapping[str, Any]:
        """Return the token endpoint's answer to a code."""
        client_id, secret = self._client()
        _, address = self._consent.endpoints(self._settings)
        form = grant | {"client_id": client_id, "client_secret": secret}
        try:
            async with http_clients.outward_async(timeout=TIMEOUT_SECONDS) as client:
                response = await client.post(address, data=form)
        except httpx.HTTPError as error:
            log.warning("consent_unreachable", provider=self._consent.provider, error=type(error).__name__)
            raise ConsentError(
                f"{self._consent.label} cannot be reached from this installation. Please start again later.", 503
            ) from None
        try:
            body = response.json()
        except ValueError:
            body = None
        fields: Mapping[str, Any] = body if is_object(body) else {}
        if response.is_success:
            return fields
        raise self._refusal(response.status_code, fields.get("error"))

    def _refusal(self, status: int, error: Any) -> ConsentError:
        """Return the error for one of the token endpoint, which repeats none but known error codes. Source: RFC 6749 5.2."""
        label, (client_id, secret) = self._consent.label, map(self._spec.variable, self._consent.client)
        known = {
            "invalid_grant": f"{label} reports that the sign-in was already used or has expired. Please start it again.",
            "invalid_client": f"{label} does not know this installation's OAuth client. Check {client_id} and {secret}.",
            "unauthorized_client": "This OAuth client may not sign users in. Its type must be “Web application”.",
            "redirect_uri_mismatch": "The OAuth client does not list this installation's callback address among its redirect URIs.",
        }
        code = error if isinstance(error, str) and error in known else None
        log.warning("consent_refused", provider=self._consent.provider, status=status, error=code)
        return ConsentError(known[code] if code else f"{label} refused with status {status}. Please start again.", 502)

    def _store(self, grant: ConsentGrant, by: str) -> None:
        """Store the token and resume the source if a refused token had paused it, in one transaction."""
        provider = self._consent.provider
        with session(self._settings.postgres_dsn) as connection:
            credentials.save(connection, self._settings, provider, grant.account, grant.refresh_token, grant.scopes, by)
            WebSession(connection).source_resume(source=self._spec.name.value)
