"""`GET /api/agents` and `DELETE /api/agents/{agent_id}`: the agents that one has connected."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from resources.core.domain import Access
from serving.agents.events import host
from serving.deps import Services
from serving.errors import ProblemError
from serving.openapi.describe import described
from serving.references import parse_id

_AGENT = {
    "agent_id": "0d9a1f57-64c5-4b0b-9c1e-5d0f6f1c2b3a",
    "name": "Claude",
    "host": "claude.ai",
    "created_at": "2025-11-10T09:00:00Z",
    "seen_at": "2025-11-10T11:30:00Z",
    "expires_at": "2025-12-10T09:00:00Z",
}


class ConnectedAgent(msgspec.Struct, frozen=True):
    """An agent that may search, read and ask in the caller's name."""

    agent_id: str
    """ID of the connection, which is none of its tokens."""
    name: str
    """What the agent calls itself. Nobody has checked it."""
    host: str
    """Where the agent was connected: the host that received its code."""
    created_at: datetime
    """When the caller allowed it."""
    seen_at: datetime
    """Last use, to the minute."""
    expires_at: datetime
    """When it ends at the latest."""


class AgentList(msgspec.Struct, frozen=True):
    """The caller's agents, newest first."""

    agents: list[ConnectedAgent]
    """Agents that are connected now."""


class AgentEnded(msgspec.Struct, frozen=True):
    """A connection that is over."""

    agent_id: str
    """ID of the connection."""
    status: str
    """Always `ended`."""


@get(
    "/api/agents",
    operation_id="listAgents",
    tags=["sessions"],
    summary="List the agents that one has connected",
    opt=described(example={"agents": [_AGENT]}),
)
async def list_agents(request: Request[Access, Any, Any], services: NamedDependency[Services]) -> AgentList:
    """Return the agents that act for the caller's email."""
    rows = await services.agents.listed(request.user.email, services.clock())
    return AgentList(
        [
            ConnectedAgent(row.agent_id, row.name, host(row.redirect_uri), row.created_at, row.seen_at, row.expires_at)
            for row in rows
        ]
    )


@delete(
    "/api/agents/{agent_id:str}",
    operation_id="endAgent",
    tags=["sessions"],
    summary="End the connection of an agent",
    status_code=200,
    opt=described(
        problems=("not-found",),
        parameters={"agent_id": _AGENT["agent_id"]},
        example={"agent_id": _AGENT["agent_id"], "status": "ended"},
    ),
)
async def end_agent(
    request: Request[Access, Any, Any],
    services: NamedDependency[Services],
    agent_id: Annotated[str, PathParameter(description="ID of the connection, from `GET /api/agents`.")],
) -> AgentEnded:
    """End all tokens of an agent at once. Agents of others do not exist for the caller."""
    missing = ProblemError("not-found", "There is no such agent of yours.")
    agent_id = parse_id(agent_id, missing)
    if await services.agents.end(agent_id, request.user.email) is None:
        raise missing
    return AgentEnded(agent_id, "ended")
