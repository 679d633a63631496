"""Traces of searches, answers and syncs, as a collector on loopback receives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from resources import tracing
from resources.core.domain import SourceName
from resources.syncs.launch import TRACE_TAG, run_tags
from resources.syncs.syncing import open_sync
from tests.fixtures.collector import Collector, collecting, drawn
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Site
from tests.fixtures.shelf import Shelf

ANN, BOB = "ann@acme.com", "bob@acme.com"
OURS = "0af7651916cd43dd8448eb211c80319c"
SECRETS = (b"ann@", b"bob@", b"heron", b"Heron", b"shallow")
"""Words of queries, documents and addresses, which no span may hold."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        tracing.configure("test")
        yield found
        tracing.stop()


def test_a_search_is_one_trace_that_continues_the_callers(
    site: Site, collector: Collector, show: Callable[[str], None]
) -> None:
    site.add("Heron", ["The heron stands in shallow water."], [ANN])
    with site.running() as running:
        headers = {"traceparent": f"00-{OURS}-b7ad6b7169203331-01", "Authorization": f"Bearer {site.token(ANN)}"}
        answer = running.http.post("/api/rag/search", json={"query": "Where does the heron stand?"}, headers=headers)
        assert [one["title"] for one in answer.json()["results"]] == ["Heron"]
        assert answer.headers["traceresponse"].startswith(f"00-{OURS}-")
        spans = collector.until(
            lambda found: any(one.trace_id == OURS and one.parent_id == "b7ad6b7169203331" for one in found)
        )
    mine = [one for one in spans if one.trace_id == OURS]
    show(drawn(mine))
    (request,) = [one for one in mine if one.parent_id == "b7ad6b7169203331"]
    assert request.name == "POST /api/rag/search"
    assert request.attributes["http.response.status_code"] == 200
    wanted = {"generate_embedding", "qdrant_search", "bm25_search", "result_fusion", "permission_check"}
    assert wanted <= {one.name for one in mine}
    ids = {one.span_id for one in mine}
    assert all(one.parent_id in ids for one in mine if one is not request)
    assert not [one for one in SECRETS for body in collector.bodies if one in body]


def test_an_answer_has_a_span_and_a_problem_names_its_trace(site: Site, collector: Collector) -> None:
    site.add("Heron", ["The heron stands in shallow water."], [ANN])
    with site.running() as running:
        answer = running.request("POST", "/api/ask", ANN, json={"query": "Where does the heron stand?"})
        assert answer.status_code == 200, answer.text
        refused = running.request("POST", "/api/ask", ANN, json={"query": ""})
        spans = collector.until(lambda found: sum(one.name == "POST /api/ask" for one in found) == 2)
    (answering,) = [one for one in spans if one.name == "answer"]
    assert answering.trace_id == answer.headers["traceresponse"].split("-")[1]
    assert answering.attributes["concordance.mode"] == "extractive"
    assert refused.json()["trace_id"] == refused.headers["traceresponse"].split("-")[1]
    assert not [one for one in SECRETS for body in collector.bodies if one in body]


def test_a_sync_is_one_trace_that_continues_the_request_for_it(
    installation: Installation, collector: Collector, show: Callable[[str], None]
) -> None:
    shelf = Shelf()
    shelf.put("a", permissions=(ANN,))
    with tracing.root("request", {}):
        asked = tracing.trace_id()
        tags = run_tags(SourceName.SLACK, "1")
    parent = {tracing.TRACEPARENT: tags[TRACE_TAG]}
    installation.sync(SourceName.SLACK, port=shelf, carrier=parent)
    spans = collector.until(lambda found: any(one.name == "sync" for one in found))
    mine = [one for one in spans if one.trace_id == asked]
    show(drawn(mine))
    assert {"sync", "list_files", "extract_content", "generate_embeddings", "upsert_vectors"} <= {
        one.name for one in mine
    }
    (sync,) = [one for one in mine if one.name == "sync"]
    assert sync.attributes["concordance.source"] == "slack"
    ids = {one.span_id for one in mine}
    assert all(one.parent_id in ids for one in mine if one.name != "request")
    assert not [one for one in SECRETS for body in collector.bodies if one in body]


def test_an_error_is_recorded_by_its_type_alone(installation: Installation, collector: Collector) -> None:
    with pytest.raises(RuntimeError), open_sync(installation.settings, SourceName.UPLOAD):
        raise RuntimeError("the heron of ann@acme.com")
    (sync,) = collector.until(lambda found: [one.name for one in found] == ["sync"])
    assert (sync.failed, sync.attributes["error.type"]) == (True, "RuntimeError")
    assert b"heron" not in b"".join(collector.bodies)


def test_every_line_of_the_log_in_a_trace_names_it(collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    from resources.logging import configure, logger

    configure("info", "test")
    with tracing.root("request", {}):
        logger("test").info("something")
        found = tracing.trace_id()
    logger("test").info("outside")
    inside, outside = (json.loads(line) for line in capsys.readouterr().err.splitlines()[-2:])
    assert (inside["trace_id"], "trace_id" in outside) == (found, False)


def test_without_a_collector_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    tracing.configure("test")
    assert not tracing.on()
    with tracing.root("request", {}), tracing.span("search", passages=3) as span:
        span.set(readable=2)
        assert (tracing.trace_id(), tracing.carrier()) == (None, {})
