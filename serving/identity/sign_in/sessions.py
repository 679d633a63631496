"""Browser sessions: an opaque cookie of 256 random bits, of which only a hash is stored, and a row in Postgres.

A session ends when it is idle or old, when its user signs out or ends it, when an operator ends it, and when the provider refuses to
renew it. Groups of the provider's claim are stored with their age, and count for `CONCORDANCE_ACL_MAX_AGE`. Without Postgres no
session is accepted.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from cryptography.fernet import InvalidToken
from litestar.datastructures import Cookie

from resources.core.domain import Access, Role
from resources.core.durations import duration
from resources.core.errors import ServiceUnavailableError, StorageFullError, TemporaryError
from resources.core.permissions import principals_of
from resources.keys import fernet
from resources.logging import logger
from resources.stores.offboarding import offboard
from serving.http.errors import UnauthorizedError
from serving.identity.secret_hash import secret_hash
from serving.identity.sign_in.claims import ProviderIdentity, refreshed
from serving.identity.sign_in.events import session_ended
from serving.identity.sign_in.provider import Provider, SignOutForm, Tokens
from serving.identity.sign_in.refusals import RefreshRefusedError, SignInRefusedError
from sql.sign_in import BrowserSession, EndedSession, Session, SessionEntry, SignInReads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from resources.settings import Settings
    from serving.http.audit import Audit
    from serving.http.database import Database

REFRESH_AFTER = timedelta(minutes=10)
"""A session is renewed with the provider at most this often; a user deactivated there keeps it no longer than that."""
STORE_SECONDS = 60.0
"""How long what follows from a renewal is retried. If its refresh token is lost, the provider may refuse the next renewal."""
STORE_PAUSE_SECONDS = 1.0
FRESH = timedelta(hours=1)
"""A passkey, or a key that changes something, is made this long after a sign-in: a browser that was left open makes none."""
SEEN_EVERY = timedelta(minutes=1)
BROWSER_LENGTH = 200
SAMPLE = "sample"
"""Provider of the sample company's people."""
LINK = "link"
"""Provider of people who opened a link that `concordance sign-in` printed."""
EMAIL = "email"
"""Provider of people who opened a link that was sent to their mailbox."""
PASSKEY = "passkey"
"""Provider of people who used a passkey."""
GIVEN = "the address belongs to another account of the sign-in provider now"

log = logger("serving")


class ProviderTokens(msgspec.Struct, frozen=True):
    """Provider's tokens as a session keeps them, encrypted."""

    refresh_token: str | None = None
    id_token: str | None = None


class SignedIn(NamedTuple):
    """The access of a session, without what the directory adds, and its id."""

    access: Access
    session_id: str
    sample: bool
    """True for a person of the sample company, whose groups no provider vouches for."""


def cookie_name(settings: Settings) -> str:
    """Return the cookie's name. With https it has the prefix that binds it to this host and to the path `/`."""
    return "__Host-concordance" if is_https(settings) else "concordance"


def is_https(settings: Settings) -> bool:
    return settings.base_url.startswith("https://")


def session_cookie(settings: Settings, value: str, seconds: int) -> Cookie:
    """Return the session's cookie; without a value it deletes it."""
    return Cookie(
        key=cookie_name(settings),
        value=value,
        path="/",
        max_age=seconds,
        httponly=True,
        samesite="lax",
        secure=is_https(settings),
    )


class Sessions:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        audit: Audit,
        providers: Mapping[str, Provider],
        end_allowed: Callable[[str, str, str], Awaitable[None]],
        known: Collection[str],
    ) -> None:
        """`end_allowed` ends the agents and keys that a person, by email, has allowed with a provider, for a reason.

        `known` are the ways to sign in whose sessions are valid: all of `providers`, and those of ours that are set up.
        """
        self._settings = settings
        self._database = database
        self._reads = SignInReads(database)
        self._audit = audit
        self._providers = providers
        self._end_allowed = end_allowed
        self._known = known
        self._lifetime = duration(settings.session_lifetime)
        self._idle = duration(settings.session_idle)
        self._max_age = duration(settings.acl_max_age)

    async def begin(
        self,
        identity: ProviderIdentity,
        provider: str,
        tokens: Tokens,
        browser: str,
        now: datetime,
        *,
        administrator: bool = False,
    ) -> tuple[str, Cookie]:
        """Store a session and return its id and cookie. With `administrator`, it has that role.

        What another account of the provider has made under this email ends first: the address was given to someone else.

        Raises `ServiceUnavailableError`, and `SignInRefusedError` for a passkey that was removed or an account that ended meanwhile.
        """
        email, subject = identity.email, identity.subject
        if provider in self._providers and await self._reads.former_holder(
            email=email, provider=provider, subject=subject
        ):
            await self._database.in_thread(lambda connection: offboard(connection, {email: GIVEN}, "concordance"))
        session_id, secret = str(uuid.uuid4()), secrets.token_urlsafe(32)
        stored = await self._reads.session_insert(
            session_id=session_id,
            secret_hash=secret_hash(secret),
            email=email,
            provider=provider,
            subject=subject,
            passkey_id=subject if provider == PASSKEY else None,
            browser="".join(filter(str.isprintable, browser))[:BROWSER_LENGTH],
            groups=identity.groups,
            administrator=administrator,
            groups_omitted=identity.groups_omitted,
            secrets=self._encrypted(self._kept(provider, tokens)),
            now=now,
            expires_at=now + self._lifetime,
        )
        if not stored and provider == PASSKEY:
            message = "This passkey was removed. Sign in another way."
            raise SignInRefusedError("passkey-removed", message, identity.email)
        if not stored:
            message = "This account was deactivated a moment ago. Ask your administrator."
            raise SignInRefusedError("account-inactive", message, identity.email)
        return session_id, session_cookie(self._settings, secret, int(self._lifetime.total_seconds()))

    def idle_since(self, now: datetime) -> datetime:
        """Return the time since which a session must have been used: one that was not is over."""
        return now - self._idle

    async def access(self, cookie: str, now: datetime) -> SignedIn:
        """Return the access of a cookie's session, renewed with the provider if that is due.

        Raises `UnauthorizedError`, or `ServiceUnavailableError` when Postgres is down.
        """
        idle_since = self.idle_since(now)

        async def found(seen_before: datetime) -> BrowserSession | None:
            return await self._reads.session_by_secret(
                secret_hash=secret_hash(cookie), now=now, seen_before=seen_before, idle_since=idle_since
            )

        try:
            row = await found(now - SEEN_EVERY)
        except StorageFullError:
            row = await found(idle_since)  # without noting that it is used
        return await self._access(row, now)

    async def access_by_id(self, session_id: str, now: datetime) -> SignedIn:
        """Return the access of a session as `access` does, for a service that was given its ID. This does not count as use."""
        row = await self._reads.session_by_id(session_id=session_id, now=now, idle_since=self.idle_since(now))
        return await self._access(row, now)

    async def _access(self, row: BrowserSession | None, now: datetime) -> SignedIn:
        if row is None:
            raise session_over()
        groups, groups_at, omitted = row.groups, row.groups_at, row.groups_omitted
        if row.provider not in self._known:
            await self._end(row, "its provider is no longer set up")
            raise session_over()
        if row.refreshable and row.refreshed_at < now - min(REFRESH_AFTER, self._max_age / 2):
            # to its end, also if the reader of an answer leaves: the provider may take the old refresh token no more
            renewed = await asyncio.shield(self._renewed(row, now))
            if renewed is not None:
                groups, groups_at, omitted = renewed.groups, now, renewed.groups_omitted
        fresh = groups if groups_at >= now - self._max_age else []
        roles = frozenset({Role.ADMINISTRATOR} if row.administrator else ())
        access = Access(
            email=row.email, principals=principals_of(row.email, fresh), roles=roles, groups_omitted=omitted
        )
        return SignedIn(access, row.session_id, row.provider == SAMPLE)

    async def _renewed(self, row: BrowserSession, now: datetime) -> ProviderIdentity | None:
        """Return the identity that the provider reports now. Raises `UnauthorizedError`.

        None if the provider is down, another request renews, the disk is full, or the provider's answer cannot be judged here; the groups
        then age.
        """
        try:
            sealed = await self._reads.session_claim_refresh(
                session_id=row.session_id, now=now, before=now - min(REFRESH_AFTER, self._max_age / 2)
            )
        except StorageFullError:
            return None
        kept = self._decrypted(sealed)
        provider = self._providers.get(row.provider)
        if kept.refresh_token is None or provider is None:
            return None
        try:
            tokens = await provider.refresh(kept.refresh_token)
        except ServiceUnavailableError:
            return None
        except RefreshRefusedError:
            await self._end(row, "the provider refused to renew it")
            raise session_over() from None
        sealed = self._encrypted(self._kept(row.provider, tokens, kept))
        try:
            identity = await refreshed(provider, tokens, row.subject)
        except (ServiceUnavailableError, SignInRefusedError) as error:
            if isinstance(error, SignInRefusedError):
                if error.about_person:
                    await self._end(row, f"refused at its renewal: {error.reason}")
                    raise session_over() from None
                log.error("session_not_renewed", provider=row.provider, reason=error.reason, error=str(error))
            await self._store(row, row.groups, row.groups_omitted, sealed, row.groups_at)  # the old token may be over
            return None
        if identity.email != row.email:
            await self._end(row, "the email changed at the provider")
            raise session_over()
        await self._store(row, identity.groups, identity.groups_omitted, sealed, now)
        return identity

    async def _store(
        self, row: BrowserSession, groups: list[str], omitted: bool, sealed: bytes | None, groups_at: datetime
    ) -> None:
        """Store what the provider says now: it may no longer take the refresh token before."""
        await _retried(
            lambda: self._reads.session_refreshed(
                session_id=row.session_id, groups=groups, groups_omitted=omitted, secrets=sealed, now=groups_at
            )
        )

    async def _end(self, row: BrowserSession, reason: str) -> None:
        """End a session for which the provider vouches no longer, and the agents and keys of its person.

        These end first: while they cannot be ended, the session is there, and its next renewal tries again.
        """
        await _retried(lambda: self._end_allowed(row.email, row.provider, reason))
        if await self._reads.session_end(session_id=row.session_id, email=None) is not None:
            log.info("session_ended", session_id=row.session_id, reason=reason)
            await self._audit.record(session_ended(row.email, row.session_id, by="concordance", reason=reason))
            await self._end_allowed(row.email, row.provider, reason)  # what the session has allowed in the meantime

    async def end(self, session_id: str, email: str | None) -> EndedSession | None:
        """End a session of this person, or of anyone if it is None. Returns None if there is none."""
        return await self._reads.session_end(session_id=session_id, email=email)

    async def own(self, email: str, current: str | None, now: datetime) -> list[Session]:
        """Return the valid sessions of this person, newest first. `current` is the one that sent the request."""
        return await self._reads.sessions_of(email=email, current=current, now=now, idle_since=self.idle_since(now))

    async def all(self, now: datetime) -> list[SessionEntry]:
        """Return the latest valid sessions of all people, for administrators."""
        return await self._reads.sessions_all(email=None, now=now, idle_since=self.idle_since(now))

    async def sign_out_form(self, ended: EndedSession) -> SignOutForm | None:
        """Return how the person signs out at the provider too; None if it has no page for that or does not answer."""
        provider = self._providers.get(ended.provider)
        if provider is None:
            return None
        try:
            return await provider.sign_out(
                self._decrypted(ended.secrets).id_token, f"{self._settings.base_url}/sign-in"
            )
        except ServiceUnavailableError:
            return None

    def _kept(self, slug: str, tokens: Tokens, before: ProviderTokens | None = None) -> ProviderTokens:
        """Return what to store of a provider's tokens: the ID token only if signing out there takes it."""
        before, provider = before or ProviderTokens(), self._providers.get(slug)
        with_id_token = provider is not None and provider.setting.sign_out_with_id_token
        return ProviderTokens(
            tokens.refresh_token or before.refresh_token,
            (tokens.id_token or before.id_token) if with_id_token else None,
        )

    def _encrypted(self, kept: ProviderTokens) -> bytes | None:
        if kept.refresh_token is None and kept.id_token is None:
            return None
        return fernet(self._settings).encrypt(msgspec.json.encode(kept))

    def _decrypted(self, sealed: bytes | None) -> ProviderTokens:
        if sealed is None:
            return ProviderTokens()
        try:
            return msgspec.json.decode(fernet(self._settings).decrypt(sealed), type=ProviderTokens)
        except (InvalidToken, msgspec.MsgspecError):
            log.warning(
                "session_secrets_unreadable"
            )  # CONCORDANCE_ENCRYPTION_KEYS lacks the key; the groups become too old
            return ProviderTokens()


async def _retried(work: Callable[[], Awaitable[object]]) -> None:
    """Do what must not be lost: temporary failures are retried for `STORE_SECONDS`."""
    until = time.monotonic() + STORE_SECONDS
    while True:
        try:
            await work()
        except TemporaryError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(STORE_PAUSE_SECONDS)
        else:
            return


def session_over() -> UnauthorizedError:
    return UnauthorizedError("session-over", "You have been signed out. Please sign in again: /sign-in")
