"""The service account that reads Drive for a whole company, from the content or the path of its JSON key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from google.auth.exceptions import GoogleAuthError
from google.oauth2.service_account import Credentials as ServiceAccount

from resources.core.errors import ConfigurationError, InvalidRequestError
from resources.core.json import is_object
from resources.settings import Settings
from resources.sources.drive.addresses import GOOGLE, token_url

_KEY_FIELDS = ("client_email", "private_key", "private_key_id")


def service_account(settings: Settings, scopes: Sequence[str]) -> tuple[ServiceAccount, str]:
    """Return the account of the settings, and whom it reads for. Raises `ConfigurationError`."""
    if settings.google_service_account_key is None:
        made = _from_file(settings, scopes)
    else:
        try:
            made = from_content(settings, settings.google_service_account_key.get_secret_value(), scopes)
        except InvalidRequestError as error:
            raise ConfigurationError(f"CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_KEY: {error}") from None
    email: Any = made.service_account_email
    return made, settings.google_subject or str(email)


def from_content(settings: Settings, text: str, scopes: Sequence[str]) -> ServiceAccount:
    """Return the account of a key file's content. Its tokens come from the settings' address, whatever the key names.

    Raises `InvalidRequestError`.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not is_object(found) or not all(isinstance(found.get(name), str) for name in _KEY_FIELDS):
        raise InvalidRequestError(
            "This is not the JSON key file of a service account. Download it again from the Google Cloud console."
        )
    key = {name: str(found[name]) for name in _KEY_FIELDS} | {"token_uri": token_url(settings)}
    library: Any = ServiceAccount  # its types are incomplete
    make: Callable[..., ServiceAccount] = library.from_service_account_info
    try:
        return make(key, scopes=scopes, subject=settings.google_subject)
    except (ValueError, GoogleAuthError):
        raise InvalidRequestError(
            "The private key in this file cannot be read. Download the file again from the Google Cloud console."
        ) from None


def _from_file(settings: Settings, scopes: Sequence[str]) -> ServiceAccount:
    library: Any = ServiceAccount  # its types are incomplete
    make: Callable[..., ServiceAccount] = library.from_service_account_file
    try:
        made = make(str(settings.google_service_account_file), scopes=scopes, subject=settings.google_subject)
    except (OSError, ValueError, GoogleAuthError) as error:
        raise ConfigurationError(
            f"CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE: {settings.google_service_account_file} is not a readable key file "
            f"({type(error).__name__}). Download it again from the Google Cloud console."
        ) from None
    if settings.drive_api_url != GOOGLE:
        untyped: Any = made
        made = cast("ServiceAccount", untyped.with_token_uri(token_url(settings)))
    return made
