"""Google's addresses, or those of the simulator that DRIVE_API_URL names."""

from __future__ import annotations

from resources.settings import Settings

GOOGLE = "https://www.googleapis.com"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address. Source: OpenID configuration of accounts.google.com


def token_url(settings: Settings) -> str:
    """Return the token endpoint: Google's, or the simulator's given by DRIVE_API_URL."""
    return TOKEN_URL if settings.drive_api_url == GOOGLE else f"{settings.drive_api_url}/token"
