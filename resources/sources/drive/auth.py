"""Bearer tokens for Google's APIs, from the settings and the stored refresh tokens.

There are three ways, of which the first configured one is used: DRIVE_TOKEN (tests and simulators), a service account's key
(as itself, or as a user by delegation), and the accounts that administrators connected by consent. Only this module
renews tokens, under one lock for all threads; google-auth's `before_request` is not used, since for service accounts it
starts look-ups of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import google_auth_httplib2
import httpx
from google.auth.exceptions import GoogleAuthError, RefreshError
from google.oauth2.credentials import Credentials
from google.oauth2.service_account import Credentials as ServiceAccount
from pydantic import SecretStr

from resources.core.errors import AuthorizationError, ConfigurationError, RetryLaterError
from resources.settings import Settings
from resources.sources.drive import READ
from resources.sources.drive.addresses import token_url
from resources.sources.drive.service_account import from_content, service_account
from resources.sources.drive.transport import Transport
from resources.stores import credentials as kept

if TYPE_CHECKING:
    from resources.core.retrying import Tally

SCOPES = (READ,)
_TIMEOUT_SECONDS = 30


def is_by_consent(settings: Settings) -> bool:
    """Return True if Drive is read with accounts that were connected by consent."""
    return (
        settings.drive_token is None and not settings.reads_as_service_account and settings.google_client_id is not None
    )


class RefusedUserError(AuthorizationError):
    """Google refuses the user in whose name we read; other users of the same service account may be readable."""


class Authority:
    """Issues bearer tokens of the configured account. Thread-safe; reads and requests nothing before the first one."""

    def __init__(
        self,
        settings: Settings,
        tally: Tally,
        scopes: Sequence[str] = SCOPES,
        connected: str | None = None,
        timeout: int = _TIMEOUT_SECONDS,
    ) -> None:
        """`connected` chooses one of the accounts that were connected by consent; None: the one connected earliest."""
        self._connected = connected
        self._timeout = timeout
        self._settings = settings
        self._tally = tally
        self._scopes = scopes
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None
        self._service: ServiceAccount | None = None

    @classmethod
    def of_key(cls, settings: Settings, text: str, subject: str | None, tally: Tally, timeout: int) -> Authority:
        """Return an authority of a service account's key that is being tried. Raises `InvalidRequestError`."""
        given = {
            "drive_token": None,
            "google_service_account_file": None,
            "google_service_account_key": SecretStr(text),
        }
        trying = settings.model_copy(update={**given, "google_subject": subject})
        authority = cls(trying, tally, timeout=timeout)
        made: Any = from_content(trying, text, SCOPES)
        authority._opened = made, subject or str(made.service_account_email)
        return authority

    def acting_for(self, subject: str) -> Authority:
        """Return an authority for a user, by delegation to the service account. Its key is read once: that takes 0.2 s."""
        with self._lock:
            if self._service is None:
                self._service, _ = service_account(self._settings, self._scopes)
            service: Any = self._service
        other = Authority(self._settings, self._tally, self._scopes)
        other._opened = service.with_subject(subject), subject
        return other

    def of_connected(self, account: str) -> Authority:
        """Return an authority for another account that was connected by consent."""
        return Authority(self._settings, self._tally, self._scopes, account)

    @property
    def hint(self) -> str:
        """Advice for rejected credentials."""
        if self._settings.drive_token is not None:
            return "Set CONCORDANCE_DRIVE_TOKEN to a valid token."
        if self._settings.reads_as_service_account:
            return (
                "Check the service account's key (CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE, or the one that was saved), and that the "
                "administrator delegated "
                f"{', '.join(self._scopes)} to it where CONCORDANCE_GOOGLE_SUBJECT is set."
            )
        return "Connect Google Drive again: run `concordance connect google`, or open Sources → Set up."

    @property
    def account(self) -> str:
        """The account in use: page tokens of one account are invalid for another."""
        with self._lock:
            return self._open()[1]

    @property
    def project(self) -> str:
        """The Google Cloud project, or the client that stands for it: all that call in its name share its quota."""
        if is_by_consent(self._settings):
            return self._settings.google_client_id or ""
        with self._lock:
            return str(getattr(self._open()[0], "project_id", None) or "")

    def token(self) -> str:
        """Return a currently valid token. Raises `AuthorizationError`, `ConfigurationError` or `RetryLaterError`."""
        with self._lock:
            found, _ = self._open()
            if not found.valid:
                self._refresh(found)
            return str(found.token)

    def renew(self, refused: str) -> bool:
        """Replace a token that Drive rejected, unless another thread has done so; False if no other token is available."""
        with self._lock:
            found, _ = self._open()
            if self._settings.drive_token is not None:
                return False
            if found.token == refused:
                self._refresh(found)
            return True

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            self._opened = self._make()
        return self._opened

    def _make(self) -> tuple[Any, str]:
        settings = self._settings
        if settings.drive_token is not None:
            return Credentials(token=settings.drive_token.get_secret_value()), "token"
        if settings.reads_as_service_account:
            return service_account(settings, self._scopes)
        secret = settings.google_client_secret
        if settings.google_client_id is None or secret is None:
            raise ConfigurationError(
                "Google Drive is not set up: set CONCORDANCE_GOOGLE_CLIENT_ID and CONCORDANCE_GOOGLE_CLIENT_SECRET and "
                "connect an account, or set CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE (docs/drive.md)."
            )
        credential = kept.load(settings.postgres_dsn, settings, kept.GOOGLE, self._connected)
        if credential is None:
            raise AuthorizationError(
                "No Google account is connected yet. Run `concordance connect google`, or open Sources → Set up."
            )
        made = Credentials(
            token=None,
            refresh_token=credential.secret,
            token_uri=token_url(settings),
            client_id=settings.google_client_id,
            client_secret=secret.get_secret_value(),
        )
        return made, credential.account

    def _refresh(self, found: Any) -> None:
        http: Any = Transport(self._timeout)
        try:
            self._tally.call("oauth2.token")
            found.refresh(google_auth_httplib2.Request(http))
        except RefreshError as error:
            if getattr(error, "retryable", False):
                raise RetryLaterError("Google's token endpoint is temporarily failing.") from None
            reason = _reason(error)
            refused = RefusedUserError if _is_about_user(reason) else AuthorizationError
            raise refused(f"Google issued no token ({reason}). {self.hint}") from None
        except (GoogleAuthError, httpx.HTTPError):
            raise RetryLaterError("Google's token endpoint does not answer.") from None
        finally:
            http.close()


def _is_about_user(reason: str) -> bool:
    """Return True if Google refuses to issue a token for the subject, not to the service account.

    Observed: `invalid_grant: Invalid email or User ID`; a revoked key is an `invalid_grant` too, with `Invalid JWT Signature`.
    """
    return reason.startswith("invalid_grant") and "user id" in reason.lower()


def _reason(error: RefreshError) -> str:
    """Return only the error's code (`invalid_grant: …`): the full response may repeat what was sent."""
    return str(error.args[0]).splitlines()[0][:200] if error.args else "refused"
