"""Figures: behind a token of their own, read by a timer, and as cheap after years of syncs as on the first day."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from resources.core.domain import SourceName
from sql import statement
from tests.fixtures.serving import Running, Site

BOB = "bob@acme.com"
JOBS = (
    "INSERT INTO sync_jobs (source, status, started_at, completed_at, synced, skipped, failed, embedded)"
    " SELECT 'files', 'failed', now() - n * interval '1 minute', now() - n * interval '1 minute' + mod(n, 90) * interval '1 second',"
    " mod(n, 7), mod(n, 3), mod(n, 2), mod(n, 5) FROM generate_series(1, %s) AS s (n)"
)


def test_figures_ask_for_their_own_token(site: Site, running: Running) -> None:
    assert running.http.get("/metrics").status_code == 401
    assert running.request("GET", "/metrics", BOB, admin=True).status_code == 401
    assert "rag_searches_total" in running.metrics()


def test_no_request_for_figures_costs_a_query(site: Site, running: Running) -> None:
    site.add("Open", ["The ferry."], ["public"])
    wanted = 'postgres_documents_count{source="files",state="live"} 1.0'
    running.wait_for_metrics(wanted)
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        connection.execute("LOCK TABLE documents, sync_figures IN ACCESS EXCLUSIVE MODE")
        for _ in range(20):
            assert wanted in running.metrics()


def test_figures_of_syncs_are_the_sums_over_all_jobs(site: Site) -> None:
    site.sql(JOBS, 50)
    site.sql("INSERT INTO sync_jobs (source, status) VALUES ('slack', 'running')")
    site.sql("UPDATE sync_jobs SET synced = 4, heartbeat_at = now() WHERE source = 'slack'")
    site.sql(
        "UPDATE sync_jobs SET synced = 6, status = 'success', completed_at = started_at + interval '7 seconds' WHERE source = 'slack'"
    )
    kept = site.sql("SELECT what, source, label, value FROM sync_figures WHERE value <> 0 ORDER BY what, source, label")
    summed = site.sql(
        "SELECT f.what, j.source, f.label, sum(f.value) FROM sync_jobs AS j CROSS JOIN LATERAL figures_of(j) AS f"
        " GROUP BY f.what, j.source, f.label HAVING sum(f.value) <> 0 ORDER BY f.what, j.source, f.label"
    )
    assert kept == summed
    assert ("sync_jobs", "slack", "success", 1.0) in kept
    assert not [row for row in kept if row[2] == "running"]


def rows_read(site: Site, name: str, parameters: dict[str, Any]) -> float:
    """Rows that the statement's scans read, whether they were wanted or not."""
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement('serving', name)}"
        found = connection.execute(text.encode(), parameters).fetchone()
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])

    def read(node: dict[str, Any]) -> float:
        own = 0.0
        if "Scan" in node["Node Type"] and "Relation Name" in node:
            own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        return own + sum(read(one) for one in node.get("Plans", []))

    return read(plan[0]["Plan"])


STATEMENTS: dict[str, dict[str, Any]] = {
    "totals": {},
    "sources": {"sources": [name.value for name in SourceName]},
    "source_partitions": {},
    "source_skips": {},
    "sync_job": {"job_id": "00000000-0000-4000-8000-00000000dead"},
    "sync_errors": {"job_id": "00000000-0000-4000-8000-00000000dead", "owner": None},
    "ingest_job": {"job_id": "00000000-0000-4000-8000-00000000dead", "email": BOB},
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_long_history_of_syncs_makes_no_statement_read_more(site: Site, name: str) -> None:
    site.add("Open", ["The ferry."], ["public"])
    site.sql(JOBS, 10)
    before = rows_read(site, name, STATEMENTS[name])
    site.sql("ALTER TABLE sync_jobs DISABLE TRIGGER USER")  # the figures are another test's
    site.sql(JOBS, 210_000)
    site.sql("ANALYZE sync_jobs")
    assert rows_read(site, name, STATEMENTS[name]) <= before + 10
