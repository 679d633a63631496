"""Sign-in with Google for Drive: an administrator's wish enters, the address of Google's consent page leaves; then the answer that
Google sends back enters, and a refresh token that is kept encrypted leaves.

The answer comes by a browser that nobody has signed in, so everything hangs on the `state`: signed with our key for this purpose
alone, valid for ten minutes, and used up in Postgres by the first who brings it. The PKCE verifier follows from it and our key, so
that it is kept nowhere. No message holds a code, a token or a secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import jwt

from resources.core import permissions
from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.logging import logger
from resources.settings import Settings
from resources.stores import credentials
from resources.stores.postgres import session
from serving.database import Database
from serving.errors import ProblemError
from sql import statement

CALLBACK = "/api/auth/google/callback"
LIFETIME = timedelta(minutes=10)
PATIENCE_SECONDS = 20.0

DRIVE_SCOPE = "https://www.googleapis.com/auth/drive.readonly"
"""Reads files and who may read them, and changes nothing. Source: developers.google.com/workspace/drive/api/guides/api-specific-auth"""
SCOPES = ("openid", "email", DRIVE_SCOPE)
GOOGLE = "https://www.googleapis.com"
CONSENT_URL = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 # an address
"""Source of these: developers.google.com/identity/protocols/oauth2/web-server"""

_ALGORITHM = "HS256"
_AUDIENCE = "concordance-google-sign-in"
_REFUSALS = {
    "invalid_grant": "Google took the sign-in for used or too old. Please start it again.",
    "invalid_client": "Google does not know this installation's OAuth client. Check CONCORDANCE_GOOGLE_CLIENT_ID and "
    "CONCORDANCE_GOOGLE_CLIENT_SECRET.",
    "unauthorized_client": "This OAuth client may not sign people in. It has to be of the type “Web application”.",
    "redirect_uri_mismatch": "The OAuth client does not list this installation's callback address among its redirect URIs.",
}
"""What to say of Google's error codes. Source: RFC 6749 5.2, and Google's page above."""

log = logger("serving")


class SignInError(ConcordanceError):
    """The sign-in came to nothing; the message tells the person why and what to do. `status` is for the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Connected(NamedTuple):
    """The Google account that Drive is read as from now on, and who connected it."""

    account: str
    by: str


class _Grant(NamedTuple):
    account: str
    refresh_token: str
    scopes: list[str]


def consent_url(settings: Settings) -> str:
    """Return the address of the consent page, which a simulator serves itself."""
    return CONSENT_URL if _is_google(settings) else f"{settings.drive_api_url}/o/oauth2/v2/auth"


def token_url(settings: Settings) -> str:
    """Return the address that codes are exchanged at, which a simulator serves itself."""
    return TOKEN_URL if _is_google(settings) else f"{settings.drive_api_url}/token"


def _is_google(settings: Settings) -> bool:
    return settings.drive_api_url == GOOGLE


def signed_state(key: str, sign_in_id: str, expires: datetime) -> str:
    """Return the `state` of a sign-in. Its audience keeps it from being a token of ours, and a token from being a state."""
    return jwt.encode({"aud": _AUDIENCE, "jti": sign_in_id, "exp": expires}, key, algorithm=_ALGORITHM)


def _sign_in_id(key: str, state: str) -> str:
    try:
        claims = jwt.decode(
            state, key, algorithms=[_ALGORITHM], audience=_AUDIENCE, options={"require": ["exp", "aud", "jti"]}
        )
        return str(uuid.UUID(str(claims["jti"])))
    except jwt.ExpiredSignatureError:
        raise SignInError("This sign-in took longer than ten minutes. Please start it again.") from None
    except (jwt.InvalidTokenError, ValueError):
        raise SignInError("This sign-in was not started here, or its address is not complete.") from None


def _verifier(key: str, sign_in_id: str) -> str:
    """Return the PKCE verifier: 43 characters that only holders of our key can work out. Source: RFC 7636 4.1."""
    digest = hmac.digest(key.encode(), f"google sign-in {sign_in_id}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class GoogleSignIn:
    """Begins and finishes sign-ins of this installation."""

    def __init__(self, settings: Settings, key: str, database: Database) -> None:
        self._settings = settings
        self._key = key
        self._database = database

    async def begin(self, email: str, now: datetime) -> str:
        """Return the consent page's address for a person of ours. Raises the `source-not-configured` problem."""
        settings, sign_in_id = self._settings, str(uuid.uuid4())
        client_id, _ = self._client()
        row = {"sign_in_id": sign_in_id, "requested_by": email, "now": now, "expires_at": now + LIFETIME}
        await self._database.fetch("sign_in_begin", row)
        challenge = hashlib.sha256(_verifier(self._key, sign_in_id).encode()).digest()
        asked = {
            "client_id": client_id,
            "redirect_uri": settings.base_url + CALLBACK,
            "response_type": "code",
            "scope": " ".join(SCOPES),
            "access_type": "offline",
            # without it Google gives no refresh token to somebody who had consented before
            "prompt": "consent",
            "state": signed_state(self._key, sign_in_id, now + LIFETIME),
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{consent_url(settings)}?{urlencode(asked)}"

    async def finish(self, answer: Mapping[str, str], now: datetime) -> Connected:
        """Keep what Google's answer gives. Raises `SignInError`, or `ServiceUnavailableError` when Postgres is down."""
        sign_in_id = _sign_in_id(self._key, answer.get("state", ""))
        rows = await self._database.fetch("sign_in_finish", {"sign_in_id": sign_in_id, "now": now})
        if not rows:
            raise SignInError("This sign-in was finished before. Please start a new one.")
        if answer.get("error") == "access_denied":
            raise SignInError("Google says that access was not given, so nothing was connected.", 403)
        if "error" in answer or not answer.get("code"):
            raise SignInError("Google could not finish the sign-in. Please start it again.")
        grant = await self._exchange(answer["code"], _verifier(self._key, sign_in_id))
        connected = Connected(grant.account, rows[0]["requested_by"])
        await asyncio.to_thread(self._keep, grant, connected.by)
        return connected

    def _client(self) -> tuple[str, str]:
        settings = self._settings
        named = {
            "CONCORDANCE_GOOGLE_CLIENT_ID": settings.google_client_id,
            "CONCORDANCE_GOOGLE_CLIENT_SECRET": settings.google_client_secret,
        }
        missing = [name for name, value in named.items() if not value]
        if missing or settings.google_client_id is None or settings.google_client_secret is None:
            detail = f"Signing in with Google needs {' and '.join(missing)} (docs/operations.md)."
            raise ProblemError("source-not-configured", detail)
        return settings.google_client_id, settings.google_client_secret.get_secret_value()

    async def _exchange(self, code: str, verifier: str) -> _Grant:
        client_id, secret = self._client()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": client_id,
            "client_secret": secret,
            "redirect_uri": self._settings.base_url + CALLBACK,
            "code_verifier": verifier,
        }
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client:
            tokens = _answer(await _send(client, "POST", token_url(self._settings), data=form))
            scopes = str(tokens.get("scope", DRIVE_SCOPE)).split()
            if DRIVE_SCOPE not in scopes:
                raise SignInError(
                    "Drive was left unticked on Google's page. Please start again and allow to see its files."
                )
            if not tokens.get("refresh_token"):
                raise SignInError(
                    "Google gave no lasting access. Remove this application at myaccount.google.com/permissions, then start again."
                )
            account = _account_of(tokens.get("id_token")) or await self._ask_drive(client, tokens.get("access_token"))
        return _Grant(account, str(tokens["refresh_token"]), scopes)

    async def _ask_drive(self, client: httpx.AsyncClient, access_token: Any) -> str:
        """Return the account's email as Drive knows it. Source: developers.google.com/workspace/drive/api/reference/rest/v3/about/get"""
        address = f"{self._settings.drive_api_url}/drive/v3/about?fields=user(emailAddress)"
        response = await _send(client, "GET", address, headers={"Authorization": f"Bearer {access_token}"})
        user = _answer(response).get("user")
        found = _email(user.get("emailAddress") if isinstance(user, dict) else None)
        if found is None:
            raise SignInError("Google did not say which account this is. Please start again.", 502)
        return found

    def _keep(self, grant: _Grant, by: str) -> None:
        """Store the token and end the pause that a token which was refused had brought, both or neither."""
        with session(self._settings.postgres_dsn) as connection:
            credentials.save(
                connection, self._settings, credentials.GOOGLE, grant.account, grant.refresh_token, grant.scopes, by
            )
            connection.execute(
                statement("serving", "source_resume").encode(), {"source": SourceName.GOOGLE_DRIVE.value}
            )


async def _send(client: httpx.AsyncClient, method: str, url: str, **more: Any) -> httpx.Response:
    try:
        return await client.request(method, url, **more)
    except httpx.HTTPError as error:
        log.warning("google_unreachable", error=type(error).__name__)
        raise SignInError("Google does not answer this installation. Please start again in a while.", 503) from None


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the fields of an answer; of a refusal only a code that we know is repeated."""
    try:
        body = response.json()
    except ValueError:
        body = None
    fields: dict[str, Any] = body if isinstance(body, dict) else {}
    if response.is_success:
        return fields
    error = fields.get("error")
    known = error if isinstance(error, str) and error in _REFUSALS else None
    log.warning("google_refused", status=response.status_code, error=known)
    if known is not None:
        raise SignInError(_REFUSALS[known], 502)
    if response.status_code == 403:
        raise SignInError(
            "Drive refuses this application. Is the Drive API switched on in its Google Cloud project?", 502
        )
    raise SignInError(f"Google refused with status {response.status_code}. Please start again.", 502)


def _account_of(id_token: Any) -> str | None:
    """Return the email in an ID token. It came from Google itself over TLS, so its signature may go unchecked.

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
