"""Sending email through an SMTP server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

import aiosmtplib

from resources.core.errors import ServiceUnavailableError
from resources.http_clients import tls
from resources.settings.urls import is_local

if TYPE_CHECKING:
    from resources.settings.mail import SmtpServer

DEADLINE_SECONDS = 20.0
"""For the whole exchange, from the connection to the server's acceptance."""
_LONGEST_LINE = 998
"""Longest line of a message: a link is not broken. Source: RFC 5322 2.1.1."""


class MailFailedError(ServiceUnavailableError):
    """The server did not accept a message. The text is for operators, and names neither person nor password."""


class RecipientRefusedError(MailFailedError):
    """The server does not deliver to this address, or not now; it accepts others."""


def message(sender: str, to: str, subject: str) -> EmailMessage:
    """Return a message without content that no vacation responder answers."""
    made = EmailMessage(policy=SMTP.clone(max_line_length=_LONGEST_LINE))
    made["From"] = Address("Concordance", addr_spec=sender)
    made["To"] = Address(addr_spec=to)  # a text would be decoded, and could then name others
    made["Subject"] = subject
    made["Date"] = formatdate()
    made["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834 5
    return made


async def send(server: SmtpServer, sent: EmailMessage, sender: str, to: str) -> None:
    """Hand a message to the server. Raises `MailFailedError`.

    Texts of the server are left out of errors, because they may quote the recipient.
    """
    async with _connected(server, sender) as client:
        await client.send_message(sent, sender=sender, recipients=to)


async def check(server: SmtpServer, sender: str) -> None:
    """Connect and sign in as for a message, and send none. Raises `MailFailedError`."""
    async with _connected(server, sender):
        pass


@asynccontextmanager
async def _connected(server: SmtpServer, sender: str) -> AsyncGenerator[aiosmtplib.SMTP]:
    """Context with a client that is signed in, whose errors become a `MailFailedError`, as does what takes too long."""
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        local_hostname=sender.rpartition("@")[
            2
        ],  # by default it is looked up in the DNS, and everything waits for that
        timeout=DEADLINE_SECONDS,
        use_tls=server.tls,
        start_tls=not server.tls and not is_local(server.host),
        tls_context=tls(),
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            async with client:
                yield client
    except aiosmtplib.SMTPRecipientsRefused as error:
        codes = ", ".join(str(one.code) for one in error.recipients)
        raise RecipientRefusedError(f"{server!r} does not deliver to the address (status {codes}).") from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise MailFailedError(f"{server!r} {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    """Return why a server did not accept a message, as the rest of a sentence."""
    match error:
        case aiosmtplib.SMTPAuthenticationError():
            return f"refuses the user and password of CONCORDANCE_SMTP_URL (status {error.code})"
        case aiosmtplib.SMTPSenderRefused():
            return f"refuses the sender CONCORDANCE_SMTP_SENDER (status {error.code})"
        case aiosmtplib.SMTPResponseException():
            return f"did not accept the message (status {error.code})"
        case TimeoutError():
            return f"did not answer within {DEADLINE_SECONDS:.0f} seconds"
        case OSError():
            cause = error.__cause__ or error
            secured = isinstance(cause, ssl.SSLError)
            return "has no TLS, or no valid certificate" if secured else f"cannot be reached ({type(cause).__name__})"
        case _:
            return "lacks something that is needed, such as STARTTLS or a way to sign in"
