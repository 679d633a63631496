"""Whose Drive may be read, according to Google's answer to a person's consent. No message contains a code, token or secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import jwt

from resources import http_clients
from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.core.json import is_object
from resources.logging import logger
from resources.settings import Settings
from resources.sources.drive import READ
from resources.sources.drive.addresses import GOOGLE, token_url
from resources.sources.spec import ConsentError, ConsentGrant

TIMEOUT_SECONDS = 20.0
CONSENT_URL = "https://accounts.google.com/o/oauth2/v2/auth"
"""Source: developers.google.com/identity/protocols/oauth2/web-server"""

log = logger("serving")


def endpoints(settings: Settings) -> tuple[str, str]:
    """Return the consent page and the token endpoint: Google's, or the simulator's given by DRIVE_API_URL."""
    simulated = settings.drive_api_url != GOOGLE
    return f"{settings.drive_api_url}/o/oauth2/v2/auth" if simulated else CONSENT_URL, token_url(settings)


def granted(settings: Settings, tokens: Mapping[str, Any]) -> ConsentGrant:
    """Return what Google's tokens grant. Raises `ConsentError` unless they open Drive for good."""
    scopes = str(tokens.get("scope", READ)).split()
    if READ not in scopes:
        raise ConsentError("Access to Drive was not selected on Google's page. Please start again and select it.")
    if not tokens.get("refresh_token"):
        raise ConsentError(
            "Google issued no refresh token. Remove this application at myaccount.google.com/permissions, then start again."
        )
    account = _account_of(tokens.get("id_token")) or _ask_drive(settings, tokens.get("access_token"))
    return ConsentGrant(account, str(tokens["refresh_token"]), scopes)


def _account_of(id_token: Any) -> str | None:
    """Return the email in an ID token. It came directly from Google over TLS, so its signature need not be checked.

    Source: OpenID Connect Core 1.0, 3.1.3.7 (6).
    """
    try:
        claims = jwt.decode(str(id_token), options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return None
    return _email(claims.get("email"))


def _ask_drive(settings: Settings, access_token: Any) -> str:
    """Return the account's email according to Drive. Source: developers.google.com/workspace/drive/api/reference/rest/v3/about/get"""
    address = f"{settings.drive_api_url}/drive/v3/about?fields=user(emailAddress)"
    try:
        with http_clients.outward(timeout=TIMEOUT_SECONDS) as client:
            response = client.get(address, headers={"Authorization": f"Bearer {access_token}"})
    except httpx.HTTPError as error:
        log.warning("google_unreachable", error=type(error).__name__)
        raise ConsentError("Google cannot be reached from this installation. Please start again later.", 503) from None
    if response.status_code == 403:
        raise ConsentError("Drive refuses this application. Is the Drive API enabled in its Google Cloud project?", 502)
    if not response.is_success:
        raise ConsentError(f"Google refused with status {response.status_code}. Please start again.", 502)
    try:
        body = response.json()
    except ValueError:
        body = None
    user = body.get("user") if is_object(body) else None
    email = _email(user.get("emailAddress") if is_object(user) else None)
    if email is None:
        raise ConsentError("Google did not name the account. Please start again.", 502)
    return email


def _email(text: Any) -> str | None:
    try:
        return permissions.email(str(text))
    except InvalidRequestError:
        return None
