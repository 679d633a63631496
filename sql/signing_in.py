"""Statements about sign-in: the deny-list of tokens, and browser sessions."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily, Family


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


class ListedSession(msgspec.Struct, frozen=True):
    """A valid session, as its user sees it."""

    session_id: str
    email: str
    provider: str
    administrator: bool
    browser: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


class EndedSession(msgspec.Struct, frozen=True):
    """A session that was ended."""

    email: str
    provider: str
    secrets: bytes | None


class SignInReads(AsyncFamily, path="sign_in"):
    """Statements that a request waits for."""

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
    async def sessions_of(self, *, email: str | None, now: datetime, idle_since: datetime) -> list[ListedSession]: ...


class SignInSession(Family, path="sign_in"):
    """Statements that are part of a transaction in a thread or command."""

    def revoke_token(self, *, token_id: str, revoked_by: str, expires_at: datetime, now: datetime) -> int: ...
    def session_end(self, *, session_id: str, email: str | None) -> EndedSession | None: ...
    def sessions_end_of(self, *, email: str) -> list[str]: ...
    def sessions_of(self, *, email: str | None, now: datetime, idle_since: datetime) -> list[ListedSession]: ...
