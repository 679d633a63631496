"""The page of sources, `/sources`, the card of one source, which is replaced while it syncs, and its set-up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.params import FromPath

from resources.alerts.states import sentence
from resources.core.domain import Access, Role
from resources.dagster_access import browser_address
from resources.embedding.budget import Budget, month_key
from resources.sources import find, names, specs
from resources.sources.stored import storable
from resources.syncs.progress import progress
from serving.http.errors import ProblemError
from serving.http.roles import dagster_rights, sees_reasons
from serving.identity.authentication import SessionFrom
from serving.identity.visitor import VisitorNeedsRole, is_navigation, page_route, signed_in
from serving.sources.cards import Card, Running, by_source, card
from serving.sources.days import since
from serving.sources.held_deletions import held
from serving.sources.ledger import SourceReport
from serving.sources.service import SourceServices
from serving.sources.states import reports
from serving.web.plots import searches
from serving.web.render import OTHER, view
from sql.alerts import AlertReads
from sql.growth import GrowthReads
from sql.operators import CommandReads, OperatorReads
from sql.rows import JobError
from sql.serving import WebReads

RECENT_SYNCS, RECEIPTS, ERRORS = 30, 20, 20


@page_route("/sources", "sourcesPage", "read", SessionFrom.LINK)
async def sources_page(
    request: Request[Any, Any, Any], source_services: NamedDependency[SourceServices]
) -> Response[str]:
    """Show the state of all sources; to people without a role, how many documents they may read."""
    access = await signed_in(request, source_services.identity)
    found = await reports(source_services, access)
    if not access.has(Role.OPERATOR, Role.AUDITOR):
        return view("sources_readable.html", access, here="/sources", reports=found, now=source_services.http.clock())
    reads = OperatorReads(source_services.http.database)
    month = await reads.month(month=month_key(source_services.http.clock()))
    return view(
        "sources.html",
        access,
        script="sources.js",
        here="/sources",
        wide=True,
        cards=await _cards(source_services, access, found),
        alerts=[(one, sentence(one)) for one in await AlertReads(source_services.http.database).current()],
        forecasts=await GrowthReads(source_services.http.database).forecasts(),
        held=await held(source_services, access),
        receipts=await reads.receipts(most=RECEIPTS),
        searches=searches(source_services.http.metrics.families()),
        month=month,
        budget=Budget(source_services.http.settings.embedding_budget, month.cost_usd if month else 0.0),
        now=source_services.http.clock(),
        minutes=source_services.http.settings.sync_minutes,
        operates=access.has(Role.OPERATOR),
        dagster=_links_to_runs(source_services, access),
        guided={one.name for one in specs() if one.set_up},
    )


@page_route("/sources/{source:str}", "sourceCard", "read", guards=[VisitorNeedsRole(Role.OPERATOR, Role.AUDITOR)])
async def source_card(
    request: Request[Access, Any, Any], source: FromPath[str], source_services: NamedDependency[SourceServices]
) -> Response[Any]:
    """Return the card of one source alone, for operators and auditors. A browser that opens it is sent to the page of all sources."""
    access = request.user
    wanted = [one for one in await reports(source_services, access) if one.source == source]
    if not wanted:
        raise ProblemError("unknown-source", f"Known sources: {', '.join(names())}.")
    if is_navigation(request):
        return Response(None, status_code=303, headers={"Location": f"/sources#source-{source}"})
    (one,) = await _cards(source_services, access, wanted)
    return view(
        "parts/source.html",
        access,
        card=one,
        now=source_services.http.clock(),
        minutes=source_services.http.settings.sync_minutes,
        operates=access.has(Role.OPERATOR),
        dagster=_links_to_runs(source_services, access),
        guided={one.name for one in specs() if one.set_up},
    )


@page_route("/sources/{source:str}/set-up", "setUpPage", "read", guards=[VisitorNeedsRole(Role.OPERATOR)])
async def set_up_page(
    request: Request[Access, Any, Any], source: FromPath[str], source_services: NamedDependency[SourceServices]
) -> Response[str]:
    """Show how to set a source up, step by step, with a check of the credentials. For operators."""
    access = request.user
    spec = find(source)
    if spec is None:
        raise ProblemError("unknown-source", f"Known sources: {', '.join(names())}.")
    settings = await source_services.settings()
    by_environment = spec.configured(source_services.http.settings)
    administers, names_to_store = access.has(Role.ADMINISTRATOR), storable(spec)
    return view(
        f"{OTHER}:{spec.set_up}" if spec.set_up else "set_up/other.html",
        access,
        script="set_up.js" if spec.set_up else None,
        here="/sources",
        spec=spec,
        configured=spec.configured(settings),
        by_environment=by_environment,
        administers=administers,
        saved_here=administers and bool(names_to_store) and not by_environment,
        storable=names_to_store,
        settings=settings,
    )


def _links_to_runs(source_services: SourceServices, access: Access) -> bool:
    """Return True if the caller's browser reaches Dagster and may see there what a run has done."""
    return dagster_rights(access) == "admin" and browser_address(source_services.http.settings) is not None


async def _cards(source_services: SourceServices, access: Access, found: Sequence[SourceReport]) -> list[Card]:
    """Return the cards of these sources; errors of documents are for operators."""
    wanted = [one.source for one in found]
    reads, now = OperatorReads(source_services.http.database), source_services.http.clock()
    recent = by_source(await reads.recent_syncs(sources=wanted, most=RECENT_SYNCS))
    by_day = by_source(await reads.sync_days(sources=wanted, since=since(now)))
    running = {
        row.source: Running(progress(row), row.done, row.documents)
        for row in await CommandReads(source_services.http.database).running()
    }
    every = timedelta(minutes=source_services.http.settings.sync_minutes)
    return [
        card(
            one,
            running.get(one.source),
            recent.get(one.source, []),
            by_day.get(one.source, []),
            await _errors(source_services, one) if sees_reasons(access) else [],
            now,
            every,
        )
        for one in found
    ]


async def _errors(source_services: SourceServices, report: SourceReport) -> list[JobError]:
    """Return errors and warnings of the source's latest sync."""
    job = report.last_job
    if job is None:
        return []
    return (await WebReads(source_services.http.database).sync_errors(job_id=job.job_id, owner=None))[:ERRORS]
