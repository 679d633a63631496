"""The usage page: its figures against the rows that they come from, and that few people cannot be told from them."""

from __future__ import annotations

import csv
import io
import json
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from resources.settings import Settings
from serving.account.usage_page import PEOPLE, first_monday
from tests.fixtures.serving import Running, Site

OPERATOR = "olga@acme.com"
FIGURES = ("people", "searches", "questions", "without_results", "not_useful", "median_ms", "p95_ms")


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    roles = json.dumps({"operator": [OPERATOR]})
    given = Settings(_env_file=None, roles=roles).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": given})
    with site.running() as running:
        yield running


def shown(running: Running) -> dict[date, dict[str, float | None]]:
    """Return the figures of the CSV file by week."""
    answer = running.request("GET", "/admin/usage?format=csv", OPERATOR)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    rows = csv.DictReader(io.StringIO(answer.text))
    return {
        date.fromisoformat(row["week"]): {name: float(row[name]) if row[name] else None for name in FIGURES}
        for row in rows
    }


def event(site: Site, at: datetime, who: str, action: str, *, found: bool = True) -> None:
    documents = [str(uuid.uuid4())] if found else []
    site.sql(
        "INSERT INTO audit_log (at, email, action, query, doc_ids) VALUES (%s, %s, %s, 'q', %s::uuid[])",
        at, who, action, documents,
    )  # fmt: skip


def answer(site: Site, at: datetime, who: str, ms: float) -> None:
    site.sql(
        "INSERT INTO answers (answer_id, query_id, created_at, email, principals, question, answer, found, mode, sources,"
        " sentences, latency_ms, model_ms)"
        " VALUES (gen_random_uuid(), gen_random_uuid(), %s, %s, '{}', 'q', 'a', true, 'extractive', '[]', '[]', %s, 0)",
        at, who, ms,
    )  # fmt: skip


def rating(site: Site, at: datetime, who: str, verdict: str) -> None:
    site.sql(
        "INSERT INTO feedback (feedback_id, created_at, email, query_id, verdict)"
        " VALUES (gen_random_uuid(), %s, %s, gen_random_uuid(), %s)",
        at, who, verdict,
    )  # fmt: skip


def by_hand(rows: list[tuple[datetime, str, str, Any]]) -> dict[date, dict[str, float | None]]:
    """Return the figures that the rows give: (time, person, what, value)."""
    weeks: dict[date, list[tuple[str, str, Any]]] = defaultdict(list)
    for at, who, what, value in rows:
        weeks[(at - timedelta(days=at.weekday())).date()].append((who, what, value))

    def count(some: list[tuple[str, str, Any]]) -> int | None:
        return len(some) if len({who for who, _, _ in some}) >= PEOPLE else None

    def share(times: list[float], part: float) -> float:
        place = part * (len(times) - 1)
        low = int(place)
        return times[low] + (times[min(low + 1, len(times) - 1)] - times[low]) * (place - low)

    found: dict[date, dict[str, float | None]] = {}
    for week, entries in weeks.items():
        asked = [one for one in entries if one[1] in {"search", "ask"}]
        if not asked:
            continue
        answers = [one for one in entries if one[1] == "answer"]
        times = sorted(one[2] for one in answers) if count(answers) else None
        people = len({who for who, _, _ in asked})
        found[week] = {
            "people": people if people >= PEOPLE else None,
            "searches": count([one for one in asked if one[1] == "search"]),
            "questions": count([one for one in asked if one[1] == "ask"]),
            "without_results": count([one for one in asked if not one[2]]),
            "not_useful": count([one for one in entries if one[1:] == ("rating", "bad")]),
            "median_ms": share(times, 0.5) if times else None,
            "p95_ms": share(times, 0.95) if times else None,
        }
    return found


def test_the_figures_of_90_days_are_those_of_the_rows(site: Site, running: Running) -> None:
    chance, now = random.Random(7), datetime.now(UTC)
    since = max(first_monday(now), now - timedelta(days=90))
    rows: list[tuple[datetime, str, str, Any]] = []
    for day in range((now - since).days + 1):
        people = [f"p{number}@acme.com" for number in range(chance.choice((1, 2, 3, 9, 12)))]
        for who in people:
            at = since + timedelta(days=day, seconds=chance.randrange(1000)) if day else since
            if at > now:
                continue
            if chance.random() < 0.7:
                found = chance.random() < 0.8
                rows.append((at, who, "search", found))
                event(site, at, who, "search", found=found)
            if chance.random() < 0.5:
                ms = chance.randrange(20, 400) * 1.0
                rows += [(at, who, "ask", True), (at, who, "answer", ms)]
                event(site, at, who, "ask")
                answer(site, at, who, ms)
            if chance.random() < 0.2:
                verdict = chance.choice(("good", "bad"))
                rows.append((at, who, "rating", verdict))
                rating(site, at, who, verdict)
    event(site, first_monday(now) - timedelta(seconds=1), "p1@acme.com", "search")  # too old
    event(site, now, "p1@acme.com", "open")  # not a search
    expected, told = by_hand(rows), shown(running)
    assert told.keys() == expected.keys()
    assert len(told) >= 12
    for week, figures in expected.items():
        assert told[week] == pytest.approx(figures), week
    missing = [name for week in told for name in FIGURES if told[week][name] is None]
    assert missing
    page = running.request("GET", "/admin/usage", OPERATOR).text
    assert "@acme.com" not in page.replace(OPERATOR, "")
    assert "few" in page


def test_four_people_are_not_shown_and_five_are(site: Site, running: Running) -> None:
    now = datetime.now(UTC)
    for number in range(PEOPLE - 1):
        for _ in range(3):
            event(site, now, f"p{number}@acme.com", "search", found=False)
            rating(site, now, f"p{number}@acme.com", "bad")
    ((_, figures),) = shown(running).items()
    assert set(figures.values()) == {None}
    event(site, now, "fifth@acme.com", "search")
    ((_, figures),) = shown(running).items()
    assert (figures["people"], figures["searches"]) == (PEOPLE, 3 * (PEOPLE - 1) + 1)
    assert (figures["without_results"], figures["not_useful"]) == (None, None)


def test_cost_is_shown_by_month(site: Site, running: Running) -> None:
    site.sql(
        "INSERT INTO embedding_usage (month, model, texts, tokens, cost_usd) VALUES ('2026-10', 'm', 1200, 34000, 1.5)"
    )
    page = running.request("GET", "/admin/usage", OPERATOR).text
    assert "2026-10" in page
    assert "$1.50" in page
