"""Events of the audit log about agents. None contains a code or token. An agent's name is its own claim."""

import json
from urllib.parse import urlsplit

from serving.http.audit import AuditEvent
from sql.agents import EndedAgent


def agent_connected(email: str, agent_id: str, name: str, redirect_uri: str) -> AuditEvent:
    detail = {"agent_id": agent_id, "name": name, "host": host(redirect_uri)}
    return AuditEvent(email=email, action="agent_connected", detail=json.dumps(detail))


def agent_refused(email: str, name: str, redirect_uri: str) -> AuditEvent:
    """Return the event of a person who did not allow an agent to connect."""
    detail = {"name": name, "host": host(redirect_uri)}
    return AuditEvent(email=email, action="agent_refused", detail=json.dumps(detail))


def agent_ended(ended: EndedAgent, *, by: str, reason: str) -> AuditEvent:
    detail = {"agent_id": ended.agent_id, "name": ended.name, "by": by, "reason": reason}
    return AuditEvent(email=ended.email, action="agent_ended", detail=json.dumps(detail))


def host(redirect_uri: str) -> str:
    """Return the host to which an agent's answers go, or the scheme whose links an application opens, such as `cursor:`."""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"
