"""Connected agents: one's own at `/api/agents`, and those of all people, for administrators, at `/api/admin/agents`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, delete, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from resources.core.domain import Access, Role
from serving.agents.service import AgentServices
from serving.http.errors import ProblemError
from serving.http.fields import parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from sql.agents import AgentEntry, ConnectedAgent

_AGENT = {
    "agent_id": "0d9a1f57-64c5-4b0b-9c1e-5d0f6f1c2b3a",
    "name": "Claude",
    "host": "claude.ai",
    "created_at": "2025-11-10T09:00:00Z",
    "seen_at": "2025-11-10T11:30:00Z",
    "expires_at": "2025-12-10T09:00:00Z",
}


class AgentList(msgspec.Struct, frozen=True):
    """The caller's agents, newest first."""

    agents: list[ConnectedAgent]
    """Agents that are connected now."""


class AllAgents(msgspec.Struct, frozen=True):
    """The latest 1000 agents of all people, newest first."""

    agents: list[AgentEntry]
    """Agents that are connected now."""


class AgentEnded(msgspec.Struct, frozen=True):
    """A connection that is over."""

    agent_id: str
    """ID of the connection."""
    status: Literal["ended"]
    """The connection is over."""


@get(
    "/api/agents",
    operation_id="listAgents",
    tags=["sessions"],
    summary="List the agents that one has connected",
    opt=limited("read") | described(example={"agents": [_AGENT]}),
)
async def list_agents(request: Request[Access, Any, Any], agents: NamedDependency[AgentServices]) -> AgentList:
    """Return the agents that act for the caller's email."""
    return AgentList(await agents.connections.own(request.user.email, agents.http.clock()))


@delete(
    "/api/agents/{agent_id:str}",
    operation_id="endAgent",
    tags=["sessions"],
    summary="End the connection of an agent",
    status_code=200,
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"agent_id": _AGENT["agent_id"]},
        example={"agent_id": _AGENT["agent_id"], "status": "ended"},
    ),
)
async def end_agent(
    request: Request[Access, Any, Any],
    agents: NamedDependency[AgentServices],
    agent_id: Annotated[str, PathParameter(description="ID of the connection, from `GET /api/agents`.")],
) -> AgentEnded:
    """End all tokens of an agent at once. Agents of others do not exist for the caller."""
    missing = ProblemError("not-found", "There is no such agent of yours.")
    agent_id = parse_id(agent_id, missing)
    email = request.user.email
    if await agents.connections.end(agent_id, email, by=email, reason="ended by its user") is None:
        raise missing
    return AgentEnded(agent_id, "ended")


@get(
    "/api/admin/agents",
    operation_id="listAllAgents",
    tags=["administration"],
    summary="List the agents that people have connected",
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("read") | described(example={"agents": [_AGENT | {"email": "ann@acme.com"}]}),
)
async def list_all_agents(agents: NamedDependency[AgentServices]) -> AllAgents:
    """Return the connected agents of all people. For administrators."""
    return AllAgents(await agents.connections.all(agents.http.clock()))


@delete(
    "/api/admin/agents/{agent_id:str}",
    operation_id="endAnyAgent",
    tags=["administration"],
    summary="End the connection of an agent of anyone",
    status_code=200,
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write")
    | described(
        problems=("not-found",),
        parameters={"agent_id": _AGENT["agent_id"]},
        example={"agent_id": _AGENT["agent_id"], "status": "ended"},
    ),
)
async def end_any_agent(
    request: Request[Access, Any, Any],
    agents: NamedDependency[AgentServices],
    agent_id: Annotated[str, PathParameter(description="ID of the connection, from `GET /api/admin/agents`.")],
) -> AgentEnded:
    """End all tokens of an agent of anyone at once. For administrators."""
    missing = ProblemError("not-found", "There is no such agent.")
    agent_id = parse_id(agent_id, missing)
    by, reason = request.user.email, "ended by an administrator"
    if await agents.connections.end(agent_id, None, by=by, reason=reason) is None:
        raise missing
    return AgentEnded(agent_id, "ended")
