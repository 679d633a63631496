"""Statements about agents: what they ask for, the people who allow it, and their tokens."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily


class AgentToken(msgspec.Struct, frozen=True):
    """A code or refresh token, and what it was issued for."""

    agent_id: str
    email: str
    name: str
    redirect_uri: str
    redirect_uri_sent: bool
    code_challenge: str
    expires_at: datetime
    used: bool


class AgentOwner(msgspec.Struct, frozen=True):
    """The person for whom an agent acts."""

    email: str
    provider: str
    groups: list[str]
    groups_omitted: bool


class ListedAgent(msgspec.Struct, frozen=True):
    """A connected agent, and the person who connected it."""

    agent_id: str
    email: str
    name: str
    redirect_uri: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


class EndedAgent(msgspec.Struct, frozen=True):
    """A connection that was ended."""

    agent_id: str
    email: str
    name: str


class AgentReads(AsyncFamily, path="agents"):
    """Statements that a request waits for."""

    async def agent_access(
        self, *, token_hash: str, providers: list[str], now: datetime, seen_before: datetime, fresh_since: datetime
    ) -> AgentOwner | None: ...
    async def agent_end(self, *, agent_id: str, email: str | None) -> EndedAgent | None: ...
    async def agent_end_by_token(self, *, token_hash: str, client_hash: str) -> EndedAgent | None: ...
    async def agent_insert(
        self,
        *,
        agent_id: str,
        session_id: str,
        client_hash: str,
        name: str,
        redirect_uri: str,
        redirect_uri_sent: bool,
        code_challenge: str,
        code_hash: str,
        now: datetime,
        expires_at: datetime,
    ) -> int: ...
    async def agent_request_decide(self, *, request_hash: str, now: datetime, expires_at: datetime) -> int: ...
    async def agent_request_decided(self, *, request_hash: str) -> bool: ...
    async def agent_token(self, *, token_hash: str, kind: str, client_hash: str) -> AgentToken | None: ...
    async def agent_token_use(
        self,
        *,
        token_hash: str,
        access_hash: str,
        access_expires_at: datetime,
        refresh_hash: str,
        lifetime_days: int,
        now: datetime,
    ) -> int: ...
    async def agents_end_of(self, *, email: str, provider: str) -> list[EndedAgent]: ...
    async def agents_of(self, *, email: str | None, now: datetime) -> list[ListedAgent]: ...
