"""Saved searches: over HTTP, on the start page, by the command and in the export. Nobody's exist for anybody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestration.cli import run
from resources.core.domain import SourceName
from serving.search.page import RequestedSearch, saved_address
from serving.search.saved import MOST
from sql.saved_searches import SavedSearch
from tests.fixtures.serving import Running, Site
from tests.integration.test_search_page import ANN, BOB, SCRIPT, page, titles

PATH = "/api/saved-searches"


def save(running: Running, name: str, query: str, who: str = ANN, **filters: Any) -> dict[str, Any]:
    answer = running.request("POST", PATH, who, json={"name": name, "query": query, "filters": filters})
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(running: Running, who: str = ANN) -> list[str]:
    return [one["name"] for one in running.request("GET", PATH, who).json()["searches"]]


def test_a_person_saves_lists_replaces_and_removes_searches_of_their_own_alone(running: Running) -> None:
    tea = save(running, " Tea \n time ", "kettle  descaled", source_types=["slack"])
    assert (tea["name"], tea["query"], tea["filters"]) == ("Tea time", "kettle descaled", {"source_types": ["slack"]})
    save(running, "Coffee", "mill", BOB)
    again = save(running, "Tea time", "kettle")
    assert again["search_id"] == tea["search_id"]
    save(running, "Biscuits", "oat")
    assert names(running) == ["Biscuits", "Tea time"]
    assert names(running, BOB) == ["Coffee"]
    address = f"{PATH}/{tea['search_id']}"
    assert running.request("DELETE", address, BOB).status_code == 404
    assert running.request("DELETE", address, ANN).json() == {"search_id": tea["search_id"], "status": "removed"}
    assert [running.request("DELETE", f"{PATH}/{one}", ANN).status_code for one in (tea["search_id"], "x")] == [
        404,
        404,
    ]
    assert names(running) == ["Biscuits"]
    assert running.request("GET", PATH).status_code == 401
    exported = running.request("GET", "/api/me/export", ANN).json()
    assert [one["name"] for one in exported["saved_searches"]] == ["Biscuits"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": " ", "query": "tea"}, "name: is empty"),
        ({"name": "Tea", "query": " "}, "query: is empty"),
        ({"name": "Tea", "query": "tea", "filters": {"source_types": ["none"]}}, "filters.source_types"),
        (
            {"name": "Tea", "query": "tea", "filters": {"date_range": {"last_days": 7, "start": "2026-01-01"}}},
            "filters.date_range: give last_days, or start and end.",
        ),
        ({"name": "Tea", "query": "tea", "filters": {"date_range": {"last_days": 0}}}, "last_days"),
    ],
)
def test_what_could_not_be_run_is_not_saved(running: Running, body: dict[str, Any], said: str) -> None:
    refused = running.request("POST", PATH, ANN, json=body)
    assert refused.status_code == 400
    assert said in refused.text
    assert names(running) == []


def test_a_person_keeps_a_hundred(site: Site, running: Running) -> None:
    site.sql(
        "INSERT INTO saved_searches (search_id, email, name, query, filters, saved_at)"
        " SELECT gen_random_uuid(), %s, 'n' || n, 'q', '{}', now() FROM generate_series(1, %s) AS s (n)",
        ANN,
        MOST,
    )
    refused = running.request("POST", PATH, ANN, json={"name": "Tea", "query": "tea"})
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (413, "quota-exceeded")
    assert "Remove one first." in refused.json()["detail"]
    assert save(running, "n7", "tea")["query"] == "tea"
    assert save(running, "Tea", "tea", BOB)["name"] == "Tea"


def test_a_period_moves_on_with_the_date(site: Site, running: Running) -> None:
    now = datetime.now(UTC)
    site.add("Late", ["The kettle whistles."], [ANN], modified_at=now - timedelta(days=5))
    site.add("Early", ["The kettle is descaled on Fridays."], [ANN], modified_at=now - timedelta(days=15))
    saved = save(running, "Kettle", "kettle", date_range={"last_days": 10})
    assert saved["filters"] == {"date_range": {"field": "modified_at", "last_days": 10}}

    def found(days: int) -> set[str]:
        filters = {"date_range": {"last_days": days}}
        return {one["title"] for one in running.search("kettle", ANN, filters=filters)["results"]}

    assert (found(1), found(10), found(20)) == (set(), {"Late"}, {"Early", "Late"})


def test_the_start_page_lists_them_and_each_address_runs_the_search(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The kettle is broken."], [ANN], source=SourceName.SLACK)
    assert page(running, "/").css_first("#saved") is None
    offered = page(running, "/?q=kettle&source=slack").css_first("[data-save]").attributes["data-save"]
    assert offered == "kettle · Slack"
    assert page(running, "/?q=kettle&ignore=date").css_first("[data-save]") is None  # this is not kept
    save(running, SCRIPT, "kettle", source_types=["slack"])
    save(running, "By tag", "kettle", tags={"topic": "tea"})
    shown = page(running, "/")
    assert [" ".join(one.text().split()) for one in shown.css("#saved li > div")] == [
        SCRIPT,
        "By tag It has filters that this page does not offer.",
    ]
    [link] = shown.css("#saved a")
    assert titles(page(running, link.attributes["href"] or "")) == ["Talk"]
    assert page(running, "/", BOB).css_first("#saved") is None


def test_an_address_says_all_of_a_saved_search_or_there_is_none() -> None:
    for search in (
        RequestedSearch("tea"),
        RequestedSearch("tea", {"source": "slack", "type": "text/html", "author": "Ann"}, "30"),
    ):
        assert saved_address(made(search.query, msgspec.to_builtins(search.filters()))) == search.address()
    for spelling, name in {"google-drive": "google_drive", "uploads": "upload", " Slack": "slack"}.items():
        assert saved_address(made("tea", {"source_types": [spelling]})) == f"/?q=tea&source={name}"
    for filters in (
        {"source_types": ["gone"]},
        {"source_types": ["slack", "files"]},
        {"date_range": {"last_days": 31}},
        {"date_range": {"last_days": 30, "field": "created_at"}},
        {"date_range": {"start": "2026-01-01"}},
        {"include_archived": True},
    ):
        assert saved_address(made("tea", filters)) is None


def made(query: str, filters: dict[str, Any]) -> SavedSearch:
    return SavedSearch("id", "name", query, filters, datetime.now(UTC))


def test_the_command_lists_and_runs_them_as_their_person(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(site.settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", site.settings.postgres_dsn)
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", str(site.settings.http_port))
    site.add("Tea", ["The kettle is descaled on Fridays."], [ANN])
    site.add("Talk", ["The kettle is broken."], [ANN], source=SourceName.SLACK)
    with site.running(port=site.settings.http_port) as running:
        save(running, "Kettles", "kettle", source_types=["slack"])
        assert run(["saved", "--as", ANN]) == 0
        assert '\nKettles  kettle  {"source_types":["slack"]}\n' in f"\n{capsys.readouterr().out}"
        assert run(["saved", "Kettles", "--as", ANN]) == 0
        printed = capsys.readouterr().out
        assert ("Talk" in printed, "Tea" in printed) == (True, False)
        assert run(["saved", "Kettles", "--as", BOB]) == 2
        assert f"{BOB} has no saved search named 'Kettles'." in capsys.readouterr().err
        assert run(["saved", "--as", BOB]) == 0
        assert f"{BOB} has saved no search." in capsys.readouterr().err
