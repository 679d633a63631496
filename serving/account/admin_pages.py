"""The pages of administration: audit log, question set, feedback, take-downs, API keys, sessions, agents, roles and retention."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.di import NamedDependency

from resources.core.domain import Access, Role
from resources.core.durations import in_words
from resources.core.moments import day
from resources.settings.limits import RetentionSettings
from resources.settings.variables import variable_of
from serving.account.service import AccountServices
from serving.answers.not_useful import not_useful
from serving.answers.question_set import question_page
from serving.http.audit_log import MAX_TEXT, AuditQuery, audit_page
from serving.identity.administration import all_keys
from serving.identity.visitor import VisitorNeedsRole, page_route
from serving.web.render import NavigationLink, administration, view
from sql.operators import OperatorReads
from sql.serving import WebReads

FILTERS = ("email", "action", "since", "until")
QUESTIONS, RUNS, TAKE_DOWNS = 50, 12, 100
"""Questions of a page, and the latest runs and take-downs that are shown."""
LATEST = 1000
"""Most sessions and agents that their statements return."""


def admin_page(
    template: str, access: Access, here: str, account: AccountServices, script: str | None = None, **values: Any
) -> Response[str]:
    tabs = [NavigationLink("/admin", "Audit log")] if access.has(Role.AUDITOR) else []
    tabs.append(NavigationLink("/admin/usage", "Usage"))
    if access.has(Role.CURATOR):
        tabs += [
            NavigationLink("/admin/questions", "Questions"),
            NavigationLink("/admin/feedback", "Feedback"),
            NavigationLink("/admin/take-downs", "Take-downs"),
        ]
    if access.has():
        tabs += [
            NavigationLink("/admin/keys", "Keys"),
            NavigationLink("/admin/sessions", "Sessions"),
            NavigationLink("/admin/agents", "Agents"),
            NavigationLink("/admin/policies", "Roles and retention"),
        ]
    return view(
        template,
        access,
        script=script,
        here=administration(access),
        tab=here,
        tabs=tabs,
        wide=True,
        now=account.http.clock(),
        **values,
    )


@page_route("/admin", "auditPage", "read", guards=[VisitorNeedsRole(Role.AUDITOR)])
async def audit_log_page(
    request: Request[Access, Any, Any], account: NamedDependency[AccountServices]
) -> Response[str]:
    """Show the audit log by person, action and days. For auditors and administrators."""
    access = request.user
    query = request.query_params
    chosen = {name: value for name in FILTERS if (value := query.get(name, "").strip()[:MAX_TEXT])}
    since, until = (_day(name, chosen.get(name)) for name in ("since", "until"))
    wanted = AuditQuery(
        chosen.get("email"),
        chosen.get("action"),
        since,
        until + timedelta(days=1) if until else None,
        cursor=query.get("cursor"),
    )
    found = await audit_page(account.http, access, wanted)
    more = f"/admin?{urlencode({**chosen, 'cursor': found.next_cursor})}" if found.next_cursor else None
    return admin_page("admin/audit.html", access, "/admin", account, events=found.events, more=more, chosen=chosen)


@page_route("/admin/keys", "keysPage", "read", guards=[VisitorNeedsRole(Role.ADMINISTRATOR)])
async def keys_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """List all API keys. For administrators."""
    access = request.user
    keys = sorted(
        await all_keys(account.identity), key=lambda key: (key.revoked_at is not None, key.email, key.created_at)
    )
    return admin_page("admin/keys.html", access, "/admin/keys", account, "admin.js", keys=keys)


@page_route("/admin/sessions", "sessionsPage", "read", guards=[VisitorNeedsRole(Role.ADMINISTRATOR)])
async def sessions_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """List the browser sessions of all people. For administrators."""
    access = request.user
    sessions = await account.identity.sessions.all(account.http.clock())
    return admin_page(
        "admin/sessions.html", access, "/admin/sessions", account, "admin.js", sessions=sessions, most=LATEST
    )


@page_route("/admin/agents", "agentsPage", "read", guards=[VisitorNeedsRole(Role.ADMINISTRATOR)])
async def agents_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """List the agents that people have connected. For administrators."""
    access = request.user
    agents = await account.agents.connections.all(account.http.clock())
    return admin_page("admin/agents.html", access, "/admin/agents", account, "admin.js", agents=agents, most=LATEST)


@page_route("/admin/policies", "policiesPage", "read", guards=[VisitorNeedsRole(Role.ADMINISTRATOR)])
async def policies_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """Show who has which role, and how long what is kept. For administrators."""
    access = request.user
    settings = account.http.settings
    holders = {role.value: list(settings.roles.get(role, ())) for role in Role}
    kept = {name: in_words(getattr(settings, name)) for name in RetentionSettings.model_fields}
    names = {name: variable_of(name) for name in kept}
    return admin_page(
        "admin/policies.html", access, "/admin/policies", account, holders=holders, kept=kept, variables=names
    )


@page_route("/admin/questions", "questionsPage", "read", guards=[VisitorNeedsRole(Role.CURATOR)])
async def questions_page(
    request: Request[Access, Any, Any], account: NamedDependency[AccountServices]
) -> Response[str]:
    """Show the question set, the proposed questions first, and what its latest runs found. For curators."""
    access = request.user
    cursor = request.query_params.get("cursor")
    proposed = await question_page(account.answers, access, "proposed", QUESTIONS, None)
    accepted = await question_page(account.answers, access, "accepted", QUESTIONS, cursor)
    runs = await OperatorReads(account.http.database).evaluations(most=RUNS)
    return admin_page(
        "admin/questions.html",
        access,
        "/admin/questions",
        account,
        "admin.js",
        proposed=proposed,
        accepted=accepted,
        runs=runs,
    )


@page_route("/admin/feedback", "feedbackPage", "read", guards=[VisitorNeedsRole(Role.CURATOR)])
async def feedback_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """List the questions whose answers were marked not useful, without the answers. For curators."""
    access = request.user
    found = await not_useful(account.answers, QUESTIONS, request.query_params.get("cursor"))
    return admin_page("admin/feedback.html", access, "/admin/feedback", account, "admin.js", found=found)


@page_route("/admin/take-downs", "takeDownsPage", "read", guards=[VisitorNeedsRole(Role.CURATOR)])
async def take_downs_page(
    request: Request[Access, Any, Any], account: NamedDependency[AccountServices]
) -> Response[str]:
    """List the uploads and pushed documents that curators took down, without their titles. For curators."""
    access = request.user
    events = await WebReads(account.http.database).audit_events(
        email=None, action="take_down", since=None, until=None, before_at=None, before_id=None, most=TAKE_DOWNS
    )
    return admin_page(
        "admin/take_downs.html", access, "/admin/take-downs", account, "admin.js", events=events, most=TAKE_DOWNS
    )


def _day(name: str, text: str | None) -> datetime | None:
    """Return the beginning of a day in UTC. Raises `InvalidRequestError`."""
    return None if text is None else day(text, name)
