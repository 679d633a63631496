"""Statements about agents: what they ask for, the people who allow it, and their tokens."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import AsyncFamily
from sql.fields import Moment


class AgentToken(msgspec.Struct, frozen=True):
    """A code or refresh token, and what it was issued for."""

    agent_id: str
    email: str
    name: str
    redirect_uri: str
    redirect_uri_sent: bool
    code_challenge: str
    expires_at: datetime
    used_at: datetime | None
    """First use."""
    renewals: int
    """Refresh tokens of the connection."""


class AgentOwner(msgspec.Struct, frozen=True):
    """The person for whom an agent acts."""

    email: str
    provider: str
    groups: list[str]
    groups_omitted: bool


class ConnectedAgent(msgspec.Struct, frozen=True):
    """An agent that may search, read and ask in the caller's name."""

    agent_id: str
    """ID of the connection, which is none of its tokens."""
    name: str
    """Name that the agent gives itself. It has not been verified."""
    host: str
    """Where the agent was connected: the host that received its code, or the scheme of an application, such as `cursor:`."""
    created_at: Moment
    """When its person allowed it."""
    seen_at: Moment
    """Last use, to the minute."""
    expires_at: Moment
    """When it ends at the latest."""


class AgentEntry(ConnectedAgent, frozen=True, kw_only=True):
    """An agent that someone has connected."""

    email: str
    """The person in whose name it acts."""


class EndedAgent(msgspec.Struct, frozen=True):
    """A connection that was ended."""

    agent_id: str
    email: str
    name: str


class AgentReads(AsyncFamily, path="agents"):
    """Statements that a request waits for."""

    async def agent_access(
        self,
        *,
        token_hash: str,
        providers: list[str],
        now: datetime,
        valid_at: datetime,
        seen_before: datetime,
        fresh_since: datetime,
        idle_since: datetime,
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
    async def agent_request_decide(
        self, *, request_hash: str, claim: str, now: datetime, expires_at: datetime
    ) -> int: ...
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
        kept_since: datetime,
        shared_since: datetime,
        now: datetime,
    ) -> int: ...
    async def agents_end_of(self, *, email: str, provider: str) -> list[EndedAgent]: ...
    async def agents_all(self, *, now: datetime) -> list[AgentEntry]: ...
    async def agents_of(self, *, email: str, now: datetime) -> list[ConnectedAgent]: ...
