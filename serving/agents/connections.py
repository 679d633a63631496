"""Agents that people have connected: what an agent asks for, the person's decision, and the tokens that follow from it.

Codes and tokens are opaque and have 256 random bits; only hashes are stored. A token opens `/mcp` and nothing else. Whom it is for, and
whether that person is active, is looked up at each request. Without Postgres no token is accepted.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import jwt
import msgspec

from resources.core.domain import Access
from resources.core.durations import duration
from resources.core.errors import StorageFullError
from resources.core.permissions import principals_of
from serving.agents.clients import client_hash
from serving.agents.events import agent_connected, agent_ended, agent_refused
from serving.http.errors import UnauthorizedError
from serving.identity.secret_hash import secret_hash
from serving.identity.service import ACCESS_PREFIX, MCP_PATH, AgentAccess
from serving.identity.sign_in.sessions import SAMPLE, SignedIn
from serving.identity.tokens import MOST_GRACE_SECONDS
from sql.agents import AgentEntry, AgentOwner, AgentReads, AgentToken, ConnectedAgent, EndedAgent

if TYPE_CHECKING:
    from resources.settings import Settings
    from serving.http.audit import Audit
    from serving.http.database import Database

REFRESH_PREFIX = "cr_"
REQUEST_LIFETIME = timedelta(minutes=10)
MAX_STATE = 500
"""Characters of a client's `state`: with all else that it asks for, it must fit into an address."""
_AUDIENCE = "concordance-agent-request"
_ALGORITHM = "HS256"
CODE_LIFETIME = timedelta(minutes=1)
ACCESS_LIFETIME = timedelta(minutes=15)
CONNECTION_DAYS = 30
"""After this, the person is asked again. It bounds how long an agent outlives an account of which only the provider knows its end."""
SEEN_EVERY = timedelta(minutes=1)
SHARED = timedelta(minutes=1)
"""Processes that share a refresh token, and one whose response was lost, may use it so long after its first use."""
MOST_RENEWALS = 10_000
"""Refresh tokens of a connection: 2,880 for an agent that renews its tokens whenever they expire, each of which is remembered."""
RENEWED_TOO_OFTEN = "it renewed its tokens too often"
USED_TWICE = "a code or refresh token of it was used twice"


class AgentRequest(msgspec.Struct, frozen=True):
    """Request of an agent that a person may allow."""

    client_hash: str
    name: str
    redirect_uri: str
    redirect_uri_sent: bool
    """False if the agent left it to its registration."""
    state: str | None
    code_challenge: str
    publisher: str = ""
    """Host of the document that describes the agent; empty if it has registered itself."""


class NewTokens(NamedTuple):
    access_token: str
    refresh_token: str


class Agents:
    def __init__(
        self, settings: Settings, keys: Sequence[str], database: Database, audit: Audit, providers: Collection[str]
    ) -> None:
        """`providers` are those with which people sign in now: agents allowed with another one are refused.

        Requests are signed with the first of `keys`.
        """
        self._keys = keys
        self._issuer = settings.base_url
        self._max_age = duration(settings.acl_max_age)
        self._idle = duration(settings.session_idle)
        self._reads = AgentReads(database)
        self._audit = audit
        self._providers = sorted(providers)
        self.resource = settings.base_url + MCP_PATH
        """The address that tokens are for. Source: RFC 8707."""

    def ask(self, request: AgentRequest, now: datetime) -> str:
        """Return a request as its page receives it, signed: nothing is stored before a person decides."""
        claims = {
            "aud": _AUDIENCE,
            "jti": secrets.token_urlsafe(8),
            "exp": now + REQUEST_LIFETIME,
            **msgspec.to_builtins(request),
        }
        return jwt.encode(claims, self._keys[0], algorithm=_ALGORITHM)

    def _asked(self, signed: str, now: datetime) -> AgentRequest | None:
        for key in self._keys:
            try:
                claims: Any = jwt.decode(
                    signed,
                    key,
                    algorithms=[_ALGORITHM],
                    audience=_AUDIENCE,
                    options={"require": ["aud", "exp"], "verify_exp": False},
                )
            except jwt.InvalidTokenError:
                continue
            return msgspec.convert(claims, AgentRequest) if claims["exp"] > now.timestamp() else None
        return None

    async def undecided(self, signed: str, now: datetime) -> AgentRequest | None:
        """Return an undecided request; None if there is none."""
        request = self._asked(signed, now)
        if request is None or await self._reads.agent_request_decided(request_hash=secret_hash(signed)):
            return None
        return request

    async def _take(self, signed: str, now: datetime) -> AgentRequest | None:
        """Return an undecided request and record that it is decided on, once for all processes; None if there is none."""
        request = self._asked(signed, now)
        if request is None:
            return None
        decided = await self._reads.agent_request_decide(
            request_hash=secret_hash(signed), claim=str(uuid.uuid4()), now=now, expires_at=now + REQUEST_LIFETIME
        )
        return request if decided else None

    async def allow(self, signed: str, person: SignedIn, now: datetime) -> str | None:
        """Connect the agent to a person, and return the address that hands it its code. None if it was decided on before."""
        request = await self._take(signed, now)
        code, agent_id, email = secrets.token_urlsafe(32), str(uuid.uuid4()), person.access.email
        if request is None or not await self._reads.agent_insert(
            agent_id=agent_id,
            session_id=person.session_id,
            client_hash=request.client_hash,
            name=request.name,
            redirect_uri=request.redirect_uri,
            redirect_uri_sent=request.redirect_uri_sent,
            code_challenge=request.code_challenge,
            code_hash=secret_hash(code),
            now=now,
            expires_at=now + CODE_LIFETIME,
        ):
            return None
        await self._audit.record(agent_connected(email, agent_id, request.name, request.redirect_uri))
        return self._answer(request, {"code": code})

    async def refuse(self, signed: str, person: SignedIn, now: datetime) -> str | None:
        """Record that a person refuses the agent, and return the address that tells it. None if it was decided on before."""
        request = await self._take(signed, now)
        if request is None:
            return None
        await self._audit.record(agent_refused(person.access.email, request.name, request.redirect_uri))
        return self._answer(request, {"error": "access_denied"})

    def _answer(self, request: AgentRequest, answer: dict[str, str]) -> str:
        """Return the redirect URI with an answer, which names us as its issuer. Source: RFC 9207."""
        state = {} if request.state is None else {"state": request.state}
        separator = "&" if "?" in request.redirect_uri else "?"
        return f"{request.redirect_uri}{separator}{urlencode({**answer, **state, 'iss': self._issuer})}"

    async def token(self, secret: str, kind: str, client_id: str, now: datetime) -> AgentToken | None:
        """Return a `code` or `refresh` token of a client.

        If a code was used before, or a refresh token longer ago than processes share one, someone has a copy, so the connection ends.
        """
        found = await self._reads.agent_token(
            token_hash=secret_hash(secret), kind=kind, client_hash=client_hash(client_id)
        )
        if found is None:
            return None
        if found.used_at is not None and (kind == "code" or found.used_at < now - SHARED):
            reason = USED_TWICE
        elif found.renewals >= MOST_RENEWALS:
            reason = RENEWED_TOO_OFTEN
        else:
            return found
        await self.end(found.agent_id, None, by="concordance", reason=reason)
        return None

    async def exchange(self, secret: str, kind: str, client_id: str, now: datetime) -> NewTokens | None:
        """Use a token up that `token` returned, and return new tokens. None if another request was faster."""
        new = NewTokens(ACCESS_PREFIX + secrets.token_urlsafe(32), REFRESH_PREFIX + secrets.token_urlsafe(32))
        stored = await self._reads.agent_token_use(
            token_hash=secret_hash(secret),
            access_hash=secret_hash(new.access_token),
            access_expires_at=now + ACCESS_LIFETIME,
            refresh_hash=secret_hash(new.refresh_token),
            lifetime_days=CONNECTION_DAYS,
            kept_since=now - timedelta(seconds=MOST_GRACE_SECONDS),
            shared_since=now - SHARED,
            now=now,
        )
        if not stored:
            await self.token(secret, kind, client_id, now)
            return None
        return new

    async def access(self, token: str, now: datetime, grace: float) -> AgentAccess:
        """Return the access of an access token, which may have expired for `grace` seconds.

        Raises `UnauthorizedError`, or `ServiceUnavailableError` when Postgres is down.
        """

        async def found(seen_before: datetime) -> AgentOwner | None:
            return await self._reads.agent_access(
                token_hash=secret_hash(token),
                providers=self._providers,
                now=now,
                valid_at=now - timedelta(seconds=grace),
                seen_before=seen_before,
                fresh_since=now - self._max_age,
                idle_since=now - self._idle,
            )

        try:
            row = await found(now - SEEN_EVERY)
        except StorageFullError:
            row = await found(datetime.min.replace(tzinfo=UTC))  # without noting that it is used
        if row is None:
            raise UnauthorizedError(
                "token-expired", "This agent's token has expired or was ended. Connect the agent again."
            )
        access = Access(
            email=row.email, principals=principals_of(row.email, row.groups), groups_omitted=row.groups_omitted
        )
        return AgentAccess(access, row.provider == SAMPLE)

    async def revoke(self, token: str, client_id: str) -> None:
        """End the connection of an access or refresh token, for the client that it was issued to. Source: RFC 7009."""
        ended = await self._reads.agent_end_by_token(token_hash=secret_hash(token), client_hash=client_hash(client_id))
        if ended is not None:
            await self._audit.record(agent_ended(ended, by="agent", reason="revoked by the agent"))

    async def own(self, email: str, now: datetime) -> list[ConnectedAgent]:
        """Return the connected agents of this person, newest first."""
        return await self._reads.agents_of(email=email, now=now)

    async def all(self, now: datetime) -> list[AgentEntry]:
        """Return the latest connected agents of all people, for administrators."""
        return await self._reads.agents_all(now=now)

    async def end(self, agent_id: str, email: str | None, *, by: str, reason: str) -> EndedAgent | None:
        """End a connection of this person, or of anyone if it is None. Returns None if there is none."""
        ended = await self._reads.agent_end(agent_id=agent_id, email=email)
        if ended is not None:
            await self._audit.record(agent_ended(ended, by=by, reason=reason))
        return ended

    async def end_all(self, email: str, provider: str, reason: str) -> None:
        """End what a person allowed with a provider that no longer vouches for them."""
        for ended in await self._reads.agents_end_of(email=email, provider=provider):
            await self._audit.record(agent_ended(ended, by="concordance", reason=reason))
