"""The routes that need a role, so that none loses its guard unnoticed."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from resources.core.domain import Role
from serving.http.roles import NeedsRole
from tests.fixtures.routes import declared_handlers

ROUTES: dict[tuple[Role, ...], set[str]] = {
    (): {
        "connectGoogle", "connectSource", "storeSourceSettings",
        "listAllKeys", "revokeAnyKey", "listAllSessions", "endAnySession", "listAllAgents",
        "endAnyAgent", "keysPage", "sessionsPage", "agentsPage", "policiesPage",
    },
    (Role.AUDITOR,): {"listAudit", "auditPage"},
    (Role.OPERATOR,): {"startSync", "decideHeldDeletions", "checkSource", "browseSource", "setUpPage"},
    (Role.OPERATOR, Role.AUDITOR): {"listHeldDeletions", "sourceCard", "openDagster"},
    (Role.CURATOR,): {
        "listQuestions", "decideQuestion", "proposeQuestion", "questionsPage", "feedbackPage", "takeDownsPage",
    },
    (Role.OPERATOR, Role.CURATOR, Role.AUDITOR): {"usagePage"},
    (Role.PUBLISHER,): {"pushDocument", "pushDocuments", "deletePushed"},
}  # fmt: skip
"""Operation IDs by the roles besides administrator. Other routes check roles where they decide what to show."""


def test_routes_that_need_a_role_declare_it() -> None:
    found: dict[tuple[Role, ...], set[str]] = defaultdict(set)
    for operation_id, (_, handler) in declared_handlers().items():
        for guard in cast("list[object]", handler.resolve_guards()):  # pyright: ignore[reportUnknownMemberType]
            assert isinstance(guard, NeedsRole), operation_id
            found[guard.roles].add(operation_id)
    assert found == ROUTES


def test_every_route_of_administration_needs_a_role() -> None:
    paths = {path for path, handler in declared_handlers().values() if handler.guards}
    administration = {path for path, _ in declared_handlers().values() if path.startswith(("/admin", "/api/admin"))}
    assert administration <= paths
