"""`/metrics` requires a token of its own, and its figures are read by a timer.

`test_bounded_reads` covers their statements after years of syncs.
"""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.serving import Running, Site

BOB = "bob@acme.com"
JOBS = (
    "INSERT INTO sync_jobs (source, status, started_at, completed_at, synced, skipped, failed, embedded)"
    " SELECT 'files', 'failed', now() - n * interval '1 minute', now() - n * interval '1 minute' + mod(n, 90) * interval '1 second',"
    " mod(n, 7), mod(n, 3), mod(n, 2), mod(n, 5) FROM generate_series(1, %s) AS s (n)"
)


def test_metrics_require_their_own_token(site: Site, running: Running) -> None:
    assert running.http.get("/metrics").status_code == 401
    assert running.request("GET", "/metrics", BOB, admin=True).status_code == 401
    assert "rag_searches_total" in running.metrics()


@pytest.mark.usefixtures("quick_figures")
def test_requests_for_metrics_cost_no_query(site: Site, running: Running) -> None:
    site.add("Open", ["The ferry."], ["public"])
    wanted = 'postgres_documents_count{source="files",state="live"} 1.0'
    running.wait_for_metrics(wanted)
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        connection.execute("LOCK TABLE documents, sync_figures IN ACCESS EXCLUSIVE MODE")
        for _ in range(20):
            assert wanted in running.metrics()


@pytest.mark.usefixtures("quick_figures")
def test_a_source_that_is_no_longer_set_up_has_no_figures_that_alerts_compare(site: Site, running: Running) -> None:
    for source in ("upload", "slack"):
        site.sql(
            "INSERT INTO source_states (source, paused_at) VALUES (%s, now()) ON CONFLICT (source) DO UPDATE SET paused_at = now()",
            source,
        )
        site.sql(
            "INSERT INTO sync_jobs (source, status, started_at, completed_at) VALUES (%s, 'success', now(), now())",
            source,
        )
    shown = running.wait_for_metrics(
        'sync_jobs_total{source="slack",status="success"}', 'source_paused{source="upload"} 1.0'
    )
    for figure in (
        "source_paused",
        "sync_failures_in_a_row",
        "sync_last_success_timestamp_seconds",
        "sync_awaited_since_timestamp_seconds",
    ):
        assert f'{figure}{{source="upload"}}' in shown
        assert f'{figure}{{source="slack"}}' not in shown


def test_metrics_of_syncs_are_sums_over_all_jobs(site: Site) -> None:
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
