"""The page `/admin/usage`: how much the installation is used by week, from what Postgres keeps, as plots, a table and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency

from resources.core.domain import Access, Role
from serving.account.admin_pages import admin_page
from serving.account.service import AccountServices
from serving.identity.visitor import VisitorNeedsRole, page_route
from serving.web.plots import Plot, Point, plot
from sql.operators import OperatorReads, UsageWeek

WEEKS, MONTHS = 13, 12
"""Weeks of use, and months of cost, that are shown."""
PEOPLE = 5
"""A figure that fewer people stand behind is not shown, so that it tells about no one."""


@page_route(
    "/admin/usage",
    "usagePage",
    "read",
    guards=[VisitorNeedsRole(Role.OPERATOR, Role.CURATOR, Role.AUDITOR)],
)
async def usage_page(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[str]:
    """Show use by week, or with `?format=csv` return it as a file. For operators, curators and auditors."""
    reads = OperatorReads(account.http.database)
    weeks = await reads.usage(since=first_monday(account.http.clock()), people=PEOPLE)
    if request.query_params.get("format") == "csv":
        headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
        return Response(as_csv(weeks), media_type="text/csv; charset=utf-8", headers=headers)
    return admin_page(
        "admin/usage.html",
        request.user,
        "/admin/usage",
        account,
        weeks=weeks,
        plots=[
            ("People", _plot(weeks, "people", lambda week: week.people)),
            ("Questions and searches", _plot(weeks, "questions and searches", _asked)),
        ],
        months=await reads.months(most=MONTHS),
        least=PEOPLE,
    )


def first_monday(now: datetime) -> datetime:
    """Return the beginning of the first of the weeks that are shown."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=today.weekday(), weeks=WEEKS - 1)


def as_csv(weeks: Sequence[UsageWeek]) -> str:
    """Return a line for each week, with empty cells for what is not shown."""
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(UsageWeek.__struct_fields__)
    lines.writerows(msgspec.structs.astuple(week) for week in weeks)
    return text.getvalue()


def _asked(week: UsageWeek) -> int | None:
    if week.questions is None or week.searches is None:
        return week.searches if week.questions is None else week.questions
    return week.questions + week.searches


def _plot(weeks: Sequence[UsageWeek], what: str, figure: Callable[[UsageWeek], int | None]) -> Plot:
    shown = [(week.week, value) for week in weeks if (value := figure(week)) is not None]
    summary = f"{shown[-1][1]:,} {what} in the week of {shown[-1][0]:%-d %B}." if shown else "Too few people."
    return plot([Point(value, f"week of {day:%-d %B}: {value:,} {what}") for day, value in shown], summary)
