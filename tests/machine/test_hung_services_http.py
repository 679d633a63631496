"""Services that accept a request and never answer: one caller waits for a limited time, the next ones do not wait."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from resources.embedding.openai_compatible import OpenAICompatible
from serving.search.remote import for_searches
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.s3 import BUCKET, S3Server
from tests.fixtures.serving import Running, Site
from tests.machine.test_degradation_http import codes, titles

ANN, ROOT = "ann@acme.com", "root@acme.com"
PATIENCE = 60


def upload(running: Running, name: str) -> Any:
    file = {"file": (name, f"# {name}\n\nThe ferry.".encode(), "text/markdown")}
    return running.request("POST", "/api/upload", ANN, files=file, timeout=PATIENCE)


def test_a_hung_embedding_service_costs_one_search_a_wait(site: Site) -> None:
    site.add("Open", ["The ferry leaves at nine."], ["public"])
    with OpenAIServer(dimensions=site.model.dimensions) as server:
        site.embedder = for_searches(OpenAICompatible(server.url, None, model="m"))
        with site.running() as running:
            assert codes(running.search("ferry", ANN)) == []
            server.hold()
            for query in ("ferry at nine", "ferry at ten", "ferry at eleven", "ferry at noon"):
                answer = running.search(query, ANN)
                assert (titles(answer), codes(answer)) == ({"Open"}, ["embedding_unavailable"])
            asked = {request["input"][0] for request in server.requests}
            assert "ferry at nine" in asked
            assert not asked & {"ferry at ten", "ferry at eleven", "ferry at noon"}


class HungLauncher:
    """A launcher whose Dagster hangs until `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0

    def __call__(self, *_: Any, **__: Any) -> SimpleNamespace:
        self.calls += 1
        self.release.wait(PATIENCE)
        return SimpleNamespace(job_id="00000000-0000-4000-8000-000000000001", started_at=datetime.now(UTC))


def test_a_hung_dagster_costs_one_upload_a_wait(site: Site) -> None:
    hung = HungLauncher()
    site.launcher = hung  # type: ignore[assignment]
    with site.running() as running:
        for number in range(3):
            answer = upload(running, f"{number}.md")
            assert (answer.status_code, answer.json()["job_id"]) == (202, None)
        refused = running.request("POST", "/api/sync/upload", ROOT, admin=True, json={})
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/service-unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        hung.release.set()
    assert hung.calls == 1


def test_a_hung_object_store_costs_one_upload_a_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        site.settings = site.settings.model_copy(update={"lake_url": f"s3://{BUCKET}/lake"})
        with site.running() as running:
            assert upload(running, "a.md").status_code == 202
            with store.lock:  # every request waits for it
                first, second = upload(running, "b.md"), upload(running, "c.md")
            assert [answer.status_code for answer in (first, second)] == [503, 503]
            assert "within" in first.json()["detail"]
            assert "retried" in second.json()["detail"]
            assert running.search("ferry", ANN)["results"] == []
