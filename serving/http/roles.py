"""Roles: which principals have which, and the guard by which a route declares that it needs one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from resources import dagster_access
from resources.core.domain import Access, Role
from serving.http.audit import Audit, AuditEvent
from serving.http.errors import ProblemError

AnyConnection = ASGIConnection[Any, Any, Any, Any]
Holders = Mapping[Role, Collection[str]]
"""The emails and groups that have each role, as in `CONCORDANCE_ROLES`."""


def with_roles(access: Access, holders: Holders) -> Access:
    """Return the access with the roles of its email and groups, in addition to its own."""
    given = {role for role, names in holders.items() if not access.principals.isdisjoint(names)}
    return msgspec.structs.replace(access, roles=access.roles | given) if given - access.roles else access


def dagster_rights(access: Access) -> dagster_access.Role | None:
    """Return the rights in Dagster's webserver that the caller's roles give: full, to read, or none."""
    if access.has(Role.OPERATOR):
        return "admin"
    return "viewer" if access.has(Role.AUDITOR) else None


def sees_reasons(access: Access) -> bool:
    """Return True if the caller may read why documents of others are not indexed: such reasons may quote names and texts."""
    return access.has(Role.OPERATOR)


class NeedsRole:
    """Guard of a route: only callers who have one of the roles. Administrators have every role.

    Litestar calls guards after the middleware and before it reads the body.
    """

    def __init__(self, role: Role, *others: Role) -> None:
        self.roles = tuple(one for one in (role, *others) if one is not Role.ADMINISTRATOR)

    @property
    def problem(self) -> str:
        """The type of the problem that anyone else receives."""
        return "role-required" if self.roles else "admin-only"

    async def __call__(self, connection: AnyConnection, handler: BaseRouteHandler) -> None:  # noqa: ARG002 (Litestar's signature)
        """Raise the problem for callers without the roles."""
        audit: Audit = connection.app.state.services.http.audit
        await require(audit, connection.user, *self.roles)


async def require(audit: Audit, access: Access, *roles: Role) -> None:
    """Raise `role-required` unless the caller has one of the roles, or `admin-only` if only administrators may. Denials are audited."""
    if access.has(*roles):
        return
    needed = [role.value for role in (*roles, Role.ADMINISTRATOR)]
    await audit.record(AuditEvent(email=access.email, action="role_denied", detail=json.dumps({"needed": needed})))
    if not roles:
        raise ProblemError(
            "admin-only",
            "This needs the role administrator (CONCORDANCE_ROLES), or a token with the admin scope: "
            "concordance token EMAIL --admin",
        )
    names = " or ".join(needed)
    raise ProblemError(
        "role-required", f"This needs the role {names}. Ask an administrator to add you to CONCORDANCE_ROLES."
    )
