"""Statements about sign-in: the deny-list of tokens, and browser sessions."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily, Family
from sql.fields import Moment


class BrowserSession(msgspec.Struct, frozen=True):
    """A valid session, as a request uses it."""

    session_id: str
    email: str
    provider: str
    subject: str
    groups: list[str]
    groups_omitted: bool
    groups_at: datetime
    refreshed_at: datetime
    refreshable: bool
    administrator: bool


class Session(msgspec.Struct, frozen=True):
    """A browser in which the caller is signed in."""

    session_id: str
    """Its ID, which is not the cookie."""
    provider: str
    """The provider it was begun with, or `sample` for the sample company, `link` and `email` for a link, `passkey` for a passkey."""
    browser: str
    """What the browser said of itself (`User-Agent`)."""
    created_at: Moment
    """Time of the sign-in."""
    seen_at: Moment
    """Last use, to the minute."""
    expires_at: Moment
    """When it ends at the latest."""
    current: bool
    """True for the session that sent this request."""


class SessionEntry(msgspec.Struct, frozen=True):
    """A browser in which a person is signed in."""

    session_id: str
    """Its ID, which is not the cookie."""
    email: str
    """Who is signed in."""
    provider: str
    """The provider it was begun with, or `sample` for the sample company, `link` and `email` for a link, `passkey` for a passkey."""
    administrator: bool
    """True if the session itself has the role administrator."""
    browser: str
    """What the browser said of itself (`User-Agent`)."""
    created_at: Moment
    """Time of the sign-in."""
    seen_at: Moment
    """Last use, to the minute."""
    expires_at: Moment
    """When it ends at the latest."""


class EndedSession(msgspec.Struct, frozen=True):
    """A session that was ended."""

    email: str
    provider: str
    secrets: bytes | None


class SignInReads(AsyncFamily, path="sign_in"):
    """Statements that a request waits for."""

    in_turn = frozenset({"session_insert"})

    async def former_holder(self, *, email: str, provider: str, subject: str) -> bool: ...
    async def session_by_id(self, *, session_id: str, now: datetime, idle_since: datetime) -> BrowserSession | None: ...
    async def session_by_secret(
        self, *, secret_hash: str, now: datetime, seen_before: datetime, idle_since: datetime
    ) -> BrowserSession | None: ...
    async def session_claim_refresh(self, *, session_id: str, now: datetime, before: datetime) -> bytes | None: ...
    async def session_end(self, *, session_id: str, email: str | None) -> EndedSession | None: ...
    async def session_insert(
        self,
        *,
        session_id: str,
        secret_hash: str,
        email: str,
        provider: str,
        subject: str,
        passkey_id: str | None,
        browser: str,
        groups: list[str],
        groups_omitted: bool,
        secrets: bytes | None,
        administrator: bool,
        now: datetime,
        expires_at: datetime,
    ) -> int: ...
    async def session_refreshed(
        self, *, session_id: str, groups: list[str], groups_omitted: bool, secrets: bytes | None, now: datetime
    ) -> int: ...
    async def sessions_all(self, *, email: str | None, now: datetime, idle_since: datetime) -> list[SessionEntry]: ...
    async def sessions_of(
        self, *, email: str, current: str | None, now: datetime, idle_since: datetime
    ) -> list[Session]: ...


class SignInSession(Family, path="sign_in"):
    """Statements that are part of a transaction in a thread or command."""

    def revoke_token(self, *, token_id: str, revoked_by: str, expires_at: datetime, now: datetime) -> int: ...
    def session_end(self, *, session_id: str, email: str | None) -> EndedSession | None: ...
    def sessions_end_of(self, *, email: str) -> list[str]: ...
    def sessions_all(self, *, email: str | None, now: datetime, idle_since: datetime) -> list[SessionEntry]: ...
