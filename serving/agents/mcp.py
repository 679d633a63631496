"""`POST /mcp`: the Model Context Protocol over streamable HTTP, without sessions. See docs/agents.md.

Each request is complete in itself and is answered with JSON, so any serving process can answer it. The package `mcp` takes a second and
16 MB to import, so a thread does that for the first request.
"""

import asyncio
from importlib import import_module
from typing import Any

from litestar import Request, Response, post
from litestar.di import NamedDependency

from resources.core.domain import Access
from resources.core.errors import ConcordanceError
from serving.agents.service import AgentServices
from serving.http.errors import handle
from serving.http.leaving import unless_left
from serving.http.origins import accepts
from serving.http.request_limits import limited
from serving.identity.authentication import AGENTS, current_access
from serving.identity.service import MCP_PATH

CHALLENGE = "WWW-Authenticate"


def _known(request: Request[Any, Any, Any], error: ConcordanceError) -> Response[dict[str, Any]]:
    """Tell a caller without a valid token where to get one. Source: RFC 9728 5.1."""
    response, base = handle(request, error), request.app.state.services.http.settings.base_url
    if challenge := response.headers.get(CHALLENGE):
        metadata = f"{base}/.well-known/oauth-protected-resource{MCP_PATH}"
        response.headers[CHALLENGE] = f'{challenge}, resource_metadata="{metadata}"'
    return response


@post(
    MCP_PATH,
    operation_id="mcp",
    include_in_schema=False,
    status_code=200,
    opt=limited("agent") | accepts(own_origin=True) | {AGENTS: True},
    exception_handlers={ConcordanceError: _known},
)
async def mcp(request: Request[Access, Any, Any], agents: NamedDependency[AgentServices]) -> Response[bytes]:
    """Answer a message of an agent, in the name of the caller."""
    await asyncio.to_thread(import_module, "serving.agents.mcp_server")
    from serving.agents.mcp_server import AgentCaller, answer

    body = await request.body()
    caller = AgentCaller(request.user, current_access(agents.identity, request))
    return await unless_left(request, answer(agents, caller, request.scope, body))
