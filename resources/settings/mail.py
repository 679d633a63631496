"""Settings of the links that sign people in by email."""

from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr, field_validator

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.settings.values import Words
from resources.withheld import Withheld

_PORTS = {"smtp": 587, "smtps": 465}
"""Ports of submission with STARTTLS, and with TLS from the beginning. Source: RFC 8314 7.3 and RFC 6409 3.1."""


class SmtpServer(NamedTuple):
    """A server that accepts email for delivery."""

    host: str
    port: int
    tls: bool
    """TLS from the beginning. Otherwise STARTTLS, which only a server on this machine may lack."""
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"


class MailSettings(BaseModel):
    """The server that sends email, and who may get a link."""

    smtp_url: SecretStr | None = None
    smtp_sender: str | None = None
    """Address that emails come from."""
    sign_in_domains: Words = ()
    """Domains whose addresses may ask for a link. Empty: nobody."""

    @field_validator("smtp_url")
    @classmethod
    def _a_server(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not isinstance(url, Withheld):  # `up` has checked it
            _server(url.get_secret_value())
        return url

    @field_validator("smtp_sender")
    @classmethod
    def _an_address(cls, sender: str | None) -> str | None:
        try:
            return None if sender is None else permissions.email(sender)
        except InvalidRequestError as error:
            raise ValueError(str(error)) from None

    @field_validator("sign_in_domains")
    @classmethod
    def _plain(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(permissions.domain(one) for one in domains)
        except InvalidRequestError:
            raise ValueError("must list domains such as acme.com") from None

    @property
    def smtp_server(self) -> SmtpServer | None:
        """The server that sends email; None if there is none."""
        return None if self.smtp_url is None else _server(self.smtp_url.get_secret_value())


def check_mail(settings: Any) -> None:
    """Raise `ValueError` unless links can be sent by email to the domains of the settings, if there are any."""
    if not settings.sign_in_domains:
        return
    needed = {
        "CONCORDANCE_SMTP_URL": settings.smtp_url,
        "CONCORDANCE_SMTP_SENDER": settings.smtp_sender,
        "CONCORDANCE_PUBLIC_URL": settings.public_url,
    }
    if missing := [name for name, value in needed.items() if value is None]:
        raise ValueError(f"CONCORDANCE_SIGN_IN_DOMAINS needs {' and '.join(missing)}")
    if settings.oidc_providers is not None:
        raise ValueError(
            "CONCORDANCE_SIGN_IN_DOMAINS and CONCORDANCE_OIDC_PROVIDERS exclude each other: where a provider signs people in, it alone "
            "decides who has left"
        )


def _server(url: str) -> SmtpServer:
    """Return the server of a URL. Raises `ValueError`, without the URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = parts = None
    if (
        parts is None
        or not host
        or parts.scheme not in _PORTS
        or parts.path.strip("/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            "must have the form smtps://user:password@host:465 or, with STARTTLS, smtp://user:password@host:587; in user and "
            "password, write @, / and # as %40, %2F and %23"
        )
    if (parts.username is None) != (parts.password is None):
        raise ValueError("must have both a user and a password, or neither")
    return SmtpServer(
        host,
        port or _PORTS[parts.scheme],
        tls=parts.scheme == "smtps",
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )
