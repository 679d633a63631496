"""The OAuth sign-in that connects a Google account for Drive and stores its encrypted refresh token.

Google redirects a browser that is not signed in, so security rests on the `state`, which is consumed in Postgres by its first use. No
message contains a code, token or secret.
"""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import httpx
import jwt

from resources import http_clients
from resources.core import permissions
from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.core.json import is_object
from resources.logging import logger
from resources.settings import Settings
from resources.stores import credentials
from resources.stores.postgres import session
from serving.http.database import Database
from serving.http.errors import ProblemError
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from sql.web import WebReads, WebSession

CALLBACK = "/api/auth/google/callback"
TIMEOUT_SECONDS = 20.0

DRIVE_SCOPE = "https://www.googleapis.com/auth/drive.readonly"
"""Read access to files and their permissions. Source: developers.google.com/workspace/drive/api/guides/api-specific-auth"""
SCOPES = ("openid", "email", DRIVE_SCOPE)
GOOGLE = "https://www.googleapis.com"
CONSENT_URL = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 # an address
"""Source of these: developers.google.com/identity/protocols/oauth2/web-server"""

PURPOSE = "google-sign-in"
_REFUSALS = {
    "invalid_grant": "Google reports that the sign-in was already used or has expired. Please start it again.",
    "invalid_client": "Google does not know this installation's OAuth client. Check CONCORDANCE_GOOGLE_CLIENT_ID and "
    "CONCORDANCE_GOOGLE_CLIENT_SECRET.",
    "unauthorized_client": "This OAuth client may not sign users in. Its type must be “Web application”.",
    "redirect_uri_mismatch": "The OAuth client does not list this installation's callback address among its redirect URIs.",
}
"""Messages for Google's error codes. Source: RFC 6749 5.2, and Google's page above."""

log = logger("serving")


class SignInError(ConcordanceError):
    """The sign-in failed; the message says why and what to do. `status` is the HTTP status of the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Connected(NamedTuple):
    """The Google account that Drive is now read with, too, and the administrator who connected it."""

    account: str
    by: str


class _Grant(NamedTuple):
    account: str
    refresh_token: str
    scopes: list[str]


def consent_url(settings: Settings) -> str:
    return CONSENT_URL if _is_google(settings) else f"{settings.drive_api_url}/o/oauth2/v2/auth"


def token_url(settings: Settings) -> str:
    return TOKEN_URL if _is_google(settings) else f"{settings.drive_api_url}/token"


def _is_google(settings: Settings) -> bool:
    return settings.drive_api_url == GOOGLE


class GoogleSignIn:
    def __init__(self, settings: Settings, key: str, database: Database) -> None:
        self._settings = settings
        self._attempts = Attempts(key, PURPOSE)
        self._database = database

    async def begin(self, email: str, now: datetime) -> str:
        """Start a sign-in for a user and return the consent page's URL. Raises the problem `source-not-configured`."""
        settings, sign_in_id = self._settings, str(uuid.uuid4())
        client_id, _ = self._client()
        await WebReads(self._database).sign_in_begin(
            sign_in_id=sign_in_id, requested_by=email, now=now, expires_at=now + LIFETIME
        )
        parameters = {
            "client_id": client_id,
            "redirect_uri": settings.base_url + CALLBACK,
            "scope": " ".join(SCOPES),
            "access_type": "offline",
            # Without `consent`, Google issues no refresh token to a user who consented before.
            "prompt": "select_account consent",
        }
        state = self._attempts.signed(sign_in_id, now + LIFETIME)
        return self._attempts.address(consent_url(settings), sign_in_id, state, parameters)

    async def finish(self, answer: Mapping[str, str], now: datetime) -> Connected:
        """Store the token that Google's callback leads to. Raises `SignInError`, or `ServiceUnavailableError` when Postgres is down."""
        try:
            sign_in_id = str(self._attempts.opened(answer.get("state", ""))["jti"])
        except jwt.ExpiredSignatureError:
            raise SignInError("This sign-in took longer than ten minutes. Please start it again.") from None
        except jwt.InvalidTokenError:
            raise SignInError("This sign-in was not started here, or its URL is incomplete.") from None
        requested_by = await WebReads(self._database).sign_in_finish(sign_in_id=sign_in_id, now=now)
        if requested_by is None:
            raise SignInError("This sign-in was already completed. Please start a new one.")
        if answer.get("error") == "access_denied":
            raise SignInError("Access was not granted on Google's page, so nothing was connected.", 403)
        if "error" in answer or not answer.get("code"):
            raise SignInError("Google could not complete the sign-in. Please start it again.")
        grant = await self._exchange(
            self._attempts.grant(sign_in_id, answer["code"], self._settings.base_url + CALLBACK)
        )
        connected = Connected(grant.account, requested_by)
        await asyncio.to_thread(self._store, grant, connected.by)
        return connected

    def _client(self) -> tuple[str, str]:
        settings = self._settings
        values = {
            "CONCORDANCE_GOOGLE_CLIENT_ID": settings.google_client_id,
            "CONCORDANCE_GOOGLE_CLIENT_SECRET": settings.google_client_secret,
        }
        missing = [name for name, value in values.items() if not value]
        if missing or settings.google_client_id is None or settings.google_client_secret is None:
            detail = f"Signing in with Google needs {' and '.join(missing)} (docs/operations.md)."
            raise ProblemError("source-not-configured", detail)
        return settings.google_client_id, settings.google_client_secret.get_secret_value()

    async def _exchange(self, grant: dict[str, str]) -> _Grant:
        client_id, secret = self._client()
        form = grant | {"client_id": client_id, "client_secret": secret}
        async with http_clients.outward_async(timeout=TIMEOUT_SECONDS) as client:
            tokens = _answer(await _send(client, "POST", token_url(self._settings), data=form))
            scopes = str(tokens.get("scope", DRIVE_SCOPE)).split()
            if DRIVE_SCOPE not in scopes:
                raise SignInError(
                    "Access to Drive was not selected on Google's page. Please start again and select it."
                )
            if not tokens.get("refresh_token"):
                raise SignInError(
                    "Google issued no refresh token. Remove this application at myaccount.google.com/permissions, then start again."
                )
            account = _account_of(tokens.get("id_token")) or await self._ask_drive(client, tokens.get("access_token"))
        return _Grant(account, str(tokens["refresh_token"]), scopes)

    async def _ask_drive(self, client: httpx.AsyncClient, access_token: Any) -> str:
        """Return the account's email according to Drive. Source: developers.google.com/workspace/drive/api/reference/rest/v3/about/get"""
        address = f"{self._settings.drive_api_url}/drive/v3/about?fields=user(emailAddress)"
        response = await _send(client, "GET", address, headers={"Authorization": f"Bearer {access_token}"})
        user = _answer(response).get("user")
        email = _email(user.get("emailAddress") if is_object(user) else None)
        if email is None:
            raise SignInError("Google did not name the account. Please start again.", 502)
        return email

    def _store(self, grant: _Grant, by: str) -> None:
        """Store the token and resume the source if a refused token had paused it, in one transaction."""
        with session(self._settings.postgres_dsn) as connection:
            credentials.save(
                connection, self._settings, credentials.GOOGLE, grant.account, grant.refresh_token, grant.scopes, by
            )
            WebSession(connection).source_resume(source=SourceName.GOOGLE_DRIVE.value)


async def _send(client: httpx.AsyncClient, method: str, url: str, **more: Any) -> httpx.Response:
    try:
        return await client.request(method, url, **more)
    except httpx.HTTPError as error:
        log.warning("google_unreachable", error=type(error).__name__)
        raise SignInError("Google cannot be reached from this installation. Please start again later.", 503) from None


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the fields of a response. Raises `SignInError` for an error, which repeats none but known error codes."""
    try:
        body = response.json()
    except ValueError:
        body = None
    fields: dict[str, Any] = body if is_object(body) else {}
    if response.is_success:
        return fields
    error = fields.get("error")
    known = error if isinstance(error, str) and error in _REFUSALS else None
    log.warning("google_refused", status=response.status_code, error=known)
    if known is not None:
        raise SignInError(_REFUSALS[known], 502)
    if response.status_code == 403:
        raise SignInError("Drive refuses this application. Is the Drive API enabled in its Google Cloud project?", 502)
    raise SignInError(f"Google refused with status {response.status_code}. Please start again.", 502)


def _account_of(id_token: Any) -> str | None:
    """Return the email in an ID token. It came directly from Google over TLS, so its signature need not be checked.

    Source: OpenID Connect Core 1.0, 3.1.3.7 (6).
    """
    try:
        claims = jwt.decode(str(id_token), options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return None
    return _email(claims.get("email"))


def _email(text: Any) -> str | None:
    try:
        return permissions.email(str(text))
    except InvalidRequestError:
        return None
