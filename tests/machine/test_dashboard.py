"""Prometheus scrapes the running services, and evaluates every query of the dashboard and every rule."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from resources.keys import metrics_token
from resources.servers.processes import free_port
from tests.fixtures.company import Company

pytestmark = pytest.mark.xdist_group("company")

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
SECONDS = 120
INTERVAL = "5m"
"""What stands in the place of `$__rate_interval`: all that has happened since Prometheus started."""
MAY_BE_EMPTY = {
    "rag_search_degraded_total": "no search was degraded",
    "held_deletions": "no deletion waits",
    "embedding_budget_usd": "no budget is set",
    "llm_tokens_total": "there is no language model",
}
"""Metrics that this installation does not have, and why."""


class Answered(NamedTuple):
    """A query and the number of series that it returned."""

    title: str
    query: str
    series: int


class Prometheus:
    """A running server and its API."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer; fails if it is an error or has warnings."""
        response = self._http.get(f"/api/v1/{path}", params=parameters)
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            response.raise_for_status()
        answer = response.json()
        assert answer["status"] == "success", answer
        assert not answer.get("warnings"), answer
        return answer["data"]

    def series(self, query: str) -> int:
        """Return the number of series that have a value now other than NaN."""
        found = self.ask("query", query=query.replace("$__rate_interval", INTERVAL))["result"]
        return sum(one["value"][1] != "NaN" for one in found)

    def wait(self, query: str) -> None:
        """Wait until a query has a result."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                if self.series(query):
                    return
            except (httpx.TransportError, httpx.HTTPStatusError):
                pass  # it has not started yet
            assert time.monotonic() < deadline, f"{query} has no result"
            time.sleep(0.2)


@pytest.fixture
def prometheus(company: Company, tmp_path: Path) -> Iterator[Prometheus]:
    """Prometheus with our rules, which scrapes the service every second."""
    search_and_ask(company, "first")  # so that counters are there before they rise
    port = free_port()
    token = {"type": "Bearer", "credentials": metrics_token(company.settings)}
    target = {"targets": [f"127.0.0.1:{company.settings.http_port}"]}
    (tmp_path / "prometheus.yml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(FOLDER / "rules.yaml")],
                "scrape_configs": [
                    {"job_name": "concordance", "authorization": token, "static_configs": [target]},
                ],
            }
        )
    )
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(30)


def search_and_ask(company: Company, word: str) -> None:
    """Do what the panels show of people."""
    person = next(iter(company.clients.values()))
    for query in ("holiday", "When are readings delayed?", "travel costs"):
        person.search(f"{query} {word}", 5)
        person.body("POST", "/api/ask", json={"query": f"{query} {word}"})


# Skipped by a mark: a fixture that skips would come after the backfill, whose run the next tests would kill.
@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed; Debian's package prometheus has it"
)
def test_every_panel_has_data_and_every_rule_is_evaluated(
    company: Company, prometheus: Prometheus, backfill: str
) -> None:
    prometheus.wait("up == 1")
    prometheus.wait("rag_searches_total")
    prometheus.wait("sync_duration_seconds_count")
    search_and_ask(company, "second")  # other words: the candidates of the first ones are cached
    company.sync()
    prometheus.wait(f"sum(rate(rag_answers_total[{INTERVAL}])) > 0")
    prometheus.wait(f"sum(rate(sync_duration_seconds_count[{INTERVAL}])) > 0")
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    answered = [
        Answered(panel["title"], target["expr"], prometheus.series(target["expr"]))
        for panel in panels
        for target in panel["targets"]
    ]
    (group,) = prometheus.ask("rules")["groups"]
    print(f"\n{len(panels)} panels, {len(answered)} queries")  # noqa: T201 (what it saw)
    for one in answered:
        print(f"{one.series:3} series  {one.title}: {one.query}")  # noqa: T201
    for rule in group["rules"]:
        print(f"{rule['health']:>10}  {rule['name']}: {rule['state']}")  # noqa: T201
    empty = [one.query for one in answered if not one.series and not any(name in one.query for name in MAY_BE_EMPTY)]
    assert empty == []
    (file,) = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in file["rules"]]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    company.wait_for_run(backfill)  # the next tests kill processes
