"""Links that sign people in, sent to mailboxes of the domains in `CONCORDANCE_SIGN_IN_DOMAINS`.

Whoever asks learns nothing about the address: the response is the same, and everything that depends on it happens afterwards, in the
background. What waits is bounded, each message has a deadline, and nobody can fill another person's mailbox.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

from resources import mail
from resources.alerts import alert
from resources.core import permissions
from resources.core.errors import InvalidRequestError, TemporaryError
from resources.logging import logger
from resources.rates import DAY_SECONDS
from serving.http.background import cancel
from serving.http.errors import UnauthorizedError, rate_limited
from serving.http.sign_ins import UNKNOWN_FACTOR
from serving.identity.sign_in import links
from serving.identity.sign_in.refusals import SignInRefusedError

if TYPE_CHECKING:
    from serving.http.service import HttpServices
    from serving.identity.directory import Directory

HOUR_SECONDS = 60.0 * 60
MOST_OF_ORIGIN = 30
"""Links that may be asked for from one address in an hour, besides those that are used: an office may have a single one."""
MOST_OF_MAILBOX, MOST_A_DAY = 5, 20
"""Messages to one mailbox in an hour and in a day."""
MOST_WAITING = 100
AT_A_TIME = 4
"""Messages of one process that are sent at a time, so that a slow server delays others by seconds."""
PAUSE_SECONDS = 0.2
"""Before anything is done for an address: by then, the response has been sent, and its time says nothing."""
SUBJECT = "Sign in to Concordance"
TEXT = """Open this link to sign in to Concordance as {email}:

{link}

It is valid for 15 minutes and works once. Somebody asked for it at {site}/sign-in. If that was not you, nothing needs to be done: \
without this link, nobody signs in as you.
"""
_LOCAL = r"[a-z0-9_+'&-]+"
_PLAIN = re.compile(rf"{_LOCAL}(?:\.{_LOCAL})*@[^@]+")

log = logger("serving")


class WantedLink(NamedTuple):
    """A request for a link: the address as it was typed, the path to go on to, and where the request came from."""

    address: str
    after: str
    origin: str


class EmailedLinks:
    """The requests that wait, and the tasks that answer them."""

    def __init__(self, http: HttpServices, directory: Directory) -> None:
        self._http = http
        self._settings = http.settings
        self._directory = directory
        self._waiting: asyncio.Queue[WantedLink] = asyncio.Queue(MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        limit = http.caller_limits.limit
        self._of_origin = limit(MOST_OF_ORIGIN, "emailed links", HOUR_SECONDS)
        self._of_unknown = limit(MOST_OF_ORIGIN * UNKNOWN_FACTOR, "emailed links, unknown", HOUR_SECONDS)
        self._of_mailbox = limit(MOST_OF_MAILBOX, "emails to a mailbox", HOUR_SECONDS)
        self._a_day = limit(MOST_A_DAY, "emails to a mailbox, a day", DAY_SECONDS)
        self._alerts = limit(1, "alerts of emailed links", HOUR_SECONDS)

    @property
    def offered(self) -> bool:
        """True if anybody may get a link."""
        return bool(self._settings.sign_in_domains)

    def start(self) -> None:
        if self.offered:
            self._tasks = [asyncio.create_task(self._run(), name="emailed-links") for _ in range(AT_A_TIME)]

    async def stop(self) -> None:
        for task in self._tasks:
            await cancel(task)

    async def ask(self, wanted: WantedLink) -> None:
        """Note that somebody asks for a link. Raises the problem `rate-limited`, whatever the address."""
        limit = self._of_origin if wanted.origin else self._of_unknown
        if (wait := await limit.take(wanted.origin)) > 0:
            self._http.metrics.rate_limited.inc()
            raise rate_limited("Too many links were asked for from your address.", wait)
        try:
            self._waiting.put_nowait(wanted)
        except asyncio.QueueFull:
            self._count("dropped")

    def used(self, origin: str) -> None:
        """Count a link no longer that has signed its person in, for the address where it was used: usually the one that asked for it."""
        (self._of_origin if origin else self._of_unknown).give_back(origin)

    def check(self, email: str) -> None:
        """Raise `SignInRefusedError` if the address may not get a link, or no longer."""
        if not is_plain(email) or email.rpartition("@")[2] not in self._settings.sign_in_domains:
            raise SignInRefusedError("domain", "Links by email do not sign you in here.", email)

    async def _run(self) -> None:
        while True:
            wanted = await self._waiting.get()
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                outcome = await self._answer(wanted)
            except TemporaryError as error:
                log.error("sign_in_email_failed", reason=str(error))
                outcome = "failed"
            except Exception:  # the next request may succeed, and nothing else would start this task again
                log.exception("sign_in_email_failed")
                outcome = "failed"
            self._count(outcome)

    async def _answer(self, wanted: WantedLink) -> str:
        """Send a link if the address may get one. Returns what came of it. Raises `TemporaryError`."""
        try:
            email = permissions.email(wanted.address)
            self.check(email)
            await self._directory.require_active(email, self._http.fresh_since())
        except (InvalidRequestError, SignInRefusedError, UnauthorizedError):
            return "refused"
        mailbox = _mailbox(email)
        if await self._of_mailbox.take(mailbox) > 0 or await self._a_day.take(mailbox) > 0:
            return "limited"
        return await self._send(email, wanted)

    async def _send(self, email: str, wanted: WantedLink) -> str:
        settings, now = self._settings, self._http.clock()
        server, sender = settings.smtp_server, settings.smtp_sender
        if server is None or sender is None:  # the settings are refused without them
            return "refused"
        message = mail.message(sender, email, SUBJECT)
        link = await self._http.database.in_thread(
            lambda connection: links.make_emailed(
                settings, connection, email, after=wanted.after, origin=wanted.origin, now=now
            )
        )
        message.set_content(TEXT.format(email=email, link=link, site=settings.base_url))
        try:
            await mail.send(server, message, sender, email)
        except mail.RecipientRefusedError as error:
            log.warning("sign_in_email_refused", reason=str(error))
            return "undeliverable"
        except mail.MailFailedError as error:
            log.error("sign_in_email_failed", reason=str(error))
            if await self._alerts.take("") == 0:
                await asyncio.to_thread(alert, settings, f"Links for signing in cannot be sent by email: {error}")
            return "failed"
        return "sent"

    def _count(self, outcome: str) -> None:
        self._http.metrics.sign_in_emails.labels(outcome).inc()


def is_plain(email: str) -> bool:
    """Return True for an address that every mail server reads alike: no encoded words, routes (`%`, `!`) or other letters than ASCII."""
    return _PLAIN.fullmatch(email) is not None


def _mailbox(email: str) -> str:
    """Return the mailbox of an address without what may follow a plus sign, which many servers ignore."""
    local, _, domain = email.rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"
