"""Prometheus's rules and Grafana's dashboard ask for metrics that a running installation has."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import yaml

from resources.alerts import rules as product
from resources.embedding.openai_compatible import OpenAICompatible
from resources.logging import configure, logger
from resources.stores.blobs import Blobs
from serving.http.metrics import Metrics
from serving.http.observed import observed
from serving.search.embedding import QueryEmbedder
from serving.search.remote import RemoteEmbedder
from tests.fixtures.llm import ModelServer
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.serving import Site

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
RULES = FOLDER / "rules.yaml"
ANN = "ann@acme.com"
_NAME = re.compile(r"\b[a-z]+_[a-z_]+\b(?!\()")
"""A metric in an expression. Functions are followed by a parenthesis; labels and those of one word have no underscore."""
_FUNCTIONS = {"histogram_quantile", "predict_linear", "__rate_interval"}
_ONLY_IF = {
    "rag_search_degraded_total",
    "llm_tokens_total",
    "held_deletions",
    "source_paused",
}
"""There only while there is something to say."""


def _rising(a_minute: float) -> str:
    return f"0+{a_minute}x700"


def _steady(value: float) -> str:
    return f"{value}+0x700"


THRESHOLDS: dict[str, dict[str, tuple[str, str]]] = {
    "SearchSlow": {
        'rag_search_latency_ms_bucket{le="200"}': (_rising(90), _rising(90)),
        'rag_search_latency_ms_bucket{le="300"}': (_rising(96), _rising(94)),
        'rag_search_latency_ms_bucket{le="500"}': (_rising(100), _rising(100)),
        'rag_search_latency_ms_bucket{le="+Inf"}': (_rising(100), _rising(100)),
    },
    "SearchDegraded": {
        'rag_search_degraded_total{code="x"}': (_rising(0.4), _rising(0.6)),
        'rag_search_degraded_total{code="nothing_indexed"}': (_rising(10), _rising(10)),
        'rag_searches_total{mode="hybrid"}': (_rising(10), _rising(10)),
    },
    "ServerErrors": {
        'http_requests_total{route="/api/rag/search",status="200"}': (_rising(96), _rising(94)),
        'http_requests_total{route="/api/rag/search",status="500"}': (_rising(4), _rising(6)),
        'http_requests_total{route="/readyz",status="200"}': (_rising(1), _rising(1000)),
        'http_requests_total{route="/readyz",status="503"}': (_rising(1000), _rising(1)),
    },
    "ModelFails": {
        'llm_failures_total{kind="unavailable"}': (_rising(0.9), _rising(1.1)),
        'rag_answers_total{mode="model",cached="false"}': (_rising(9.1), _rising(8.9)),
        'rag_answers_total{mode="quotes",cached="false"}': (_rising(90), _rising(90)),
    },
    "DependencyDown": {'serving_dependency_up{dependency="qdrant"}': (_steady(1), _steady(0))},
    "NoneServes": {'serving_dependency_up{dependency="qdrant"}': (_steady(0), "_x700")},
    "SyncsFail": {
        'sync_jobs_total{source="x",status="success"}': (_rising(96), _rising(94)),
        'sync_jobs_total{source="x",status="failed"}': (_rising(4), _rising(6)),
    },
    "SyncsFailInARow": {'sync_failures_in_a_row{source="x"}': (_steady(2), _steady(3))},
    "DocumentsFail": {
        'sync_documents_total{source="x",outcome="synced"}': (_rising(96), _rising(94)),
        'sync_documents_total{source="x",outcome="failed"}': (_rising(4), _rising(6)),
    },
    "ManyDocumentsFail": {
        'sync_documents_total{source="x",outcome="synced"}': (_rising(91), _rising(89)),
        'sync_documents_total{source="x",outcome="failed"}': (_rising(9), _rising(11)),
    },
    "RetriesFail": {
        'source_calls_total{source="x",outcome="repeated"}': (_rising(100), _rising(100)),
        'source_calls_total{source="x",outcome="failed"}': (_rising(9), _rising(11)),
    },
    "SyncOverdue": {
        'sync_awaited_since_timestamp_seconds{source="x"}': (_steady(36_000 - 3_500), _steady(36_000 - 4_000))
    },
    "SourceCallsRepeated": {
        'source_calls_total{source="x",outcome="answered"}': (_rising(100), _rising(100)),
        'source_calls_total{source="x",outcome="repeated"}': (_rising(9), _rising(11)),
    },
    "SourcePaused": {'source_paused{source="x"}': (_steady(0), _steady(1))},
    "DeletionsHeld": {'held_deletions{source="x"}': (_steady(0), _steady(1))},
    "IndexFilling": {
        "qdrant_vector_count": (_steady(79), _steady(81)),
        "index_limit_vectors": (_steady(100), _steady(100)),
    },
    "DiskFilling": {
        "home_disk_free_bytes": (_steady(21), _steady(19)),
        "home_disk_bytes": (_steady(100), _steady(100)),
    },
    "DiskFull": {"home_disk_free_bytes": ("10000-4x700", "10000-6x700")},
    "DiskUnwritable": {"home_disk_writable": (_steady(1), _steady(0))},
    "EmbeddingBudget": {
        "embedding_month_cost_usd": (_steady(79), _steady(81)),
        "embedding_budget_usd": (_steady(100), _steady(100)),
    },
    "AuditWaits": {"serving_audit_waiting": (_steady(1_000), _steady(1_001))},
    "AuditMissing": {"serving_audit_missing_total": (_steady(3), "0+0x595 1+1x100")},
    "WritesDropped": {'serving_dropped_writes_total{statement="x"}': (_steady(3), "0+0x595 1+0x100")},
}
"""For each alert: the series, just below the threshold and just above it, one value a minute for ten hours."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def expressions() -> list[str]:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return [one["expr"] for one in rules()] + [target["expr"] for panel in panels for target in panel["targets"]]


def asked_for() -> set[str]:
    return {name for one in expressions() for name in _NAME.findall(one)} - _FUNCTIONS


@pytest.mark.usefixtures("quick_figures")
def test_every_metric_that_is_asked_for_is_there(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"embedding_budget": 5.0, "max_vectors": 1000})
    site.add("Open", ["The ferry leaves at nine."], ["public"])
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, completed_at, calls, retries, stages)"
        " VALUES ('files', 'success', now(), now(), '{\"list\": 3}', 1, '{\"raw\": {\"seconds\": 1}}')"
    )
    site.sql("INSERT INTO sync_jobs (source, status) VALUES ('files', 'running')")
    site.sql("INSERT INTO source_states (source) VALUES ('files') ON CONFLICT DO NOTHING")
    with site.running() as running:
        assert running.titles("ferry", ANN) == ["Open"]
        assert running.request("POST", "/api/ask", ANN, json={"query": "When does the ferry leave?"}).status_code == 200
        exposition = running.wait_for_metrics(
            'postgres_documents_count{source="files",state="live"} 1.0',
            'source_calls_total{outcome="answered",source="files"} 3.0',
            "home_disk_writable 1.0",
            'http_requests_total{route="/api/rag/search",status="200"} 1.0',
        )
    there = set(re.findall(r"^(\w+)(?:{| )", exposition, re.MULTILINE))
    assert asked_for() - there <= _ONLY_IF
    assert 'sync_jobs_total{source="files",status="success"} 1.0' in exposition
    assert 'status="running"' not in exposition


@pytest.mark.parametrize(("error", "status"), [(asyncio.CancelledError, "499"), (RuntimeError, "500")])
def test_a_client_that_leaves_is_no_error_of_ours(error: type[BaseException], status: str) -> None:
    async def app(*_: Any) -> None:
        raise error

    metrics, scope = Metrics(), {"method": "GET", "path_template": "/slow", "headers": []}
    with pytest.raises(error):
        asyncio.run(observed(app, metrics.requests, cast("Any", scope), cast("Any", None), cast("Any", None)))
    assert metrics.registry.get_sample_value("http_requests_total", {"route": "/slow", "status": status}) == 1


def test_the_log_quotes_no_row_that_postgres_refuses(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Its errors come with the row, in lines after the message, and those of others may follow."""
    site.sql("CREATE TABLE refused (said text CHECK (said = ''), entry jsonb)")
    configure("info", "test")
    log, row = logger("test"), '{"heron": "salary\n\nof ann"'
    for statement in ("INSERT INTO refused VALUES (%s, NULL)", "INSERT INTO refused VALUES ('', %s::jsonb)"):
        try:
            try:
                site.sql(statement, row)
            except psycopg.Error as error:
                log.warning("postgres_failed", error=str(error))
                raise RuntimeError("not stored") from error
        except RuntimeError:
            log.exception("unexpected_error")
    logged = capsys.readouterr().err
    assert [word for word in ("heron", "salary", "of ann") if word in logged] == []
    assert logged.count("violates check constraint") == 2
    assert logged.count("invalid input syntax for type json") == 2
    assert logged.count("RuntimeError: not stored") == 2


def test_calls_of_a_running_sync_are_counted_once(site: Site) -> None:
    site.sql("INSERT INTO sync_jobs (source, status) VALUES ('slack', 'running')")
    for calls in (2, 5):
        site.sql(
            "UPDATE sync_jobs SET calls = jsonb_build_object('history', %s::integer), retries = 1, waited = 2.5"
            " WHERE source = 'slack'",
            calls,
        )
    site.sql("UPDATE sync_jobs SET status = 'success', completed_at = now() WHERE source = 'slack'")
    assert site.sql(
        "SELECT label, value FROM sync_figures WHERE what = 'source_calls' AND value > 0 ORDER BY label"
    ) == [
        ("answered", 5.0),
        ("repeated", 1.0),
    ]
    assert site.sql("SELECT source, value FROM sync_figures WHERE what = 'source_waited' AND value > 0") == [
        ("slack", 2.5)
    ]


@pytest.mark.usefixtures("quick_figures")
def test_load_queues_waits_and_what_models_cost_are_there(
    site: Site, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.http.load.LOOK_SECONDS", 0.05)
    prices = {"llm_input_price": 2.0, "llm_output_price": 10.0}
    settings = {"llm_model": "stand-in", "llm_base_url": model_server.url, **prices}
    site.settings = site.settings.model_copy(update=settings)
    site.add("Open", ["The ferry leaves at nine."], ["public"])
    site.sql("INSERT INTO source_events (event_id, source, kind, urgent) VALUES ('e', 'slack', 'message', FALSE)")
    site.sql("INSERT INTO sync_jobs (source, status, waited) VALUES ('slack', 'running', 2.5)")
    Blobs(site.settings.lake_address).put([b"x" * 100])
    with OpenAIServer(dimensions=site.model.dimensions) as service, site.running() as running:
        asked = running.request("POST", "/api/ask", ANN, json={"query": "When does the ferry leave?"})
        assert asked.json()["mode"] == "model", asked.text
        embedder = RemoteEmbedder(OpenAICompatible(service.url, None, model="m", price=3.0))
        queries = QueryEmbedder.pinned(embedder, "c")
        metrics = Metrics()
        queries.used = metrics.embedded_query
        asyncio.run(queries.query("three words here"))
        exposition = running.wait_for_metrics(
            'serving_pool_connections{state="idle"}',
            "serving_event_loop_lag_seconds_count",
            "lake_bytes 1",
            'queue_size{queue="events"} 1.0',
            'queue_size{queue="syncs"} 1.0',
            'source_wait_seconds_total{source="slack"} 2.5',
            'llm_tokens_total{kind="prompt"} 11.0',
            'llm_tokens_total{kind="completion"} 3.0',
        )
    lag = re.search(r"^serving_event_loop_lag_seconds_count (.*)$", exposition, re.MULTILINE)
    assert lag is not None
    assert float(lag[1]) > 0
    assert "llm_cost_usd_total 5.2e-05" in exposition
    tokens = metrics.registry.get_sample_value("rag_query_embedding_tokens_total")
    assert tokens
    cost = metrics.registry.get_sample_value("rag_query_embedding_cost_usd_total")
    assert cost == pytest.approx(tokens * 3.0 / 1_000_000)


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed; Debian's package prometheus has it")
    return found


_OF_PROCESSES = ("rag_", "http_", "llm_", "serving_", "home_disk_")
"""How the names of metrics begin that a process has of itself or of its machine. The others come from the stores, alike in each process."""
_LABELS = 'source="x",state="live",stage="raw",table="chunks",queue="index"'
_SERIES = (
    ("failed", "failed", "1"),
    ("repeated", "success", "1"),
    ("answered", "failed", "+Inf"),
    ("synced", "success", "+Inf"),
)
"""Outcome, status and bucket of each series of a metric, which here has all labels that any metric has."""


def from_the_stores(expression: str) -> set[str]:
    return {name for name in _NAME.findall(expression) if not name.startswith(_OF_PROCESSES) and name not in _FUNCTIONS}


def test_figures_of_the_installation_do_not_grow_with_its_processes(promtool: str, tmp_path: Path) -> None:
    asked = [one.replace("$__rate_interval", "10m") for one in expressions() if from_the_stores(one)]
    results: list[dict[str, str]] = []
    for instances in (("a",), ("a", "b", "c")):
        series = [
            f'{metric}{{{_LABELS},outcome="{outcome}",status="{status}",le="{bucket}",instance="{instance}"}}'
            for metric in sorted({name for one in asked for name in from_the_stores(one)})
            for outcome, status, bucket in _SERIES
            for instance in instances
        ]
        case = {
            "interval": "1m",
            "input_series": [{"series": one, "values": _rising(0.1)} for one in series],
            "promql_expr_test": [{"expr": one, "eval_time": "600m", "exp_samples": []} for one in asked],
        }
        (tmp_path / "cases.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [case]}))
        done = subprocess.run([promtool, "test", "rules", str(tmp_path / "cases.yaml")], capture_output=True, text=True)
        # nothing was expected, so it prints what each expression returned
        results.append(dict(re.findall(r'expr: "(.*)", time.*\n.*\n +got: (.*)', done.stdout + done.stderr)))
    one, several = results
    assert len(one) > len(asked) / 2
    assert several == one


def test_prometheus_accepts_the_rules(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules())} rules found" in done.stdout


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("alert", THRESHOLDS)
def test_an_alert_fires_just_above_its_threshold(promtool: str, tmp_path: Path, alert: str, above: bool) -> None:
    series = {name: pair[above] for name, pair in THRESHOLDS[alert].items()}
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": "600m",
                "exp_samples": [{"labels": "{}", "value": int(above)}],
            }
        ],
    }
    written = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(written))
    done = subprocess.run([promtool, "test", "rules", str(tmp_path / "cases.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_threshold_here() -> None:
    assert [one["alert"] for one in rules()] == list(THRESHOLDS)


def test_the_product_alerts_by_the_same_limits() -> None:
    written = {one["alert"]: one for one in rules()}
    assert set(product.RULES) < set(written)
    for name, rule in product.RULES.items():
        comparison, limit = written[name]["expr"].split()[-2:]
        held = written[name]["for"]
        assert (comparison, float(limit)) == (rule.comparison, rule.limit), name
        assert (60 * float(held.removesuffix("m")), written[name]["labels"]["severity"]) == (
            rule.hold_seconds,
            rule.severity,
        ), name


def test_every_alert_says_what_happened_and_how_urgent_it_is() -> None:
    for one in rules():
        assert one["labels"]["severity"] in {"warning", "critical"}, one["alert"]
        assert one["annotations"]["summary"].endswith("."), one["alert"]
