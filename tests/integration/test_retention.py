"""Retention: records older than their settings are deleted in batches; newer or still needed ones are kept."""

# ruff: noqa: S608 (statements of literals, times that the tests choose and names of our own tables)

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from assets.upkeep.retention import TABLES, prune
from orchestration.erasure import erase_due
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.settings import load
from tests.fixtures.installation import Installation
from tests.fixtures.upkeep import do

AGES = (800, 3)
"""Ages in days: one older than every default, one younger."""


@pytest.fixture
def aged(installation: Installation) -> Installation:
    """Insert rows of both ages into every table."""
    for days in AGES:
        at = f"now() - interval '{days} days'"
        for statement in (
            "INSERT INTO answers (answer_id, query_id, created_at, email, principals, question, answer, found, mode, sources, sentences,"
            f" latency_ms, model_ms) VALUES (gen_random_uuid(), gen_random_uuid(), {at}, 'a@x.example', '{{}}', 'q', 'a', TRUE, 'none',"
            " '[]', '[]', 1, 1)",
            "INSERT INTO questions (question, doc_ids, email, state, origin, added_by, added_at)"
            f" SELECT state || {days}, ARRAY[gen_random_uuid()], 'a@x.example', state, 'feedback', 'test', {at}"
            " FROM (VALUES ('proposed'), ('accepted')) AS v (state)",
            "INSERT INTO conversations (conversation_id, email, query, answer, sources, asked_at, created_at)"
            f" VALUES (gen_random_uuid(), 'a@x.example', 'q', 'a', '[]', now(), {at})",
            "INSERT INTO feedback (feedback_id, created_at, email, query_id, verdict)"
            f" VALUES (gen_random_uuid(), {at}, 'a@x.example', gen_random_uuid(), 'good')",
            f"INSERT INTO sync_jobs (source, status, started_at, completed_at) VALUES ('files', 'success', {at}, {at})",
            f"INSERT INTO sync_errors (job_id, source_id, stage, reason, at) SELECT job_id, 'x', 'raw', 'r', {at} FROM sync_jobs"
            f" WHERE completed_at < {at} + interval '1 second' ON CONFLICT DO NOTHING",
            f"INSERT INTO ingest_jobs VALUES (gen_random_uuid(), gen_random_uuid(), 'a@x.example', 1, {at})",
            "INSERT INTO slack_questions (channel, ts, event_id, team, account, thread, direct, received_at)"
            f" SELECT 'C1', t::text, t::text, 'T1', 'U1', t::text, FALSE, t FROM (SELECT {at} AS t) AS a",
            f"INSERT INTO audit_log (at, email, action) VALUES ({at}, 'a@x.example', 'search')",
            f"INSERT INTO grant_audit (at, source, doc_id, principal, change) VALUES ({at}, 'files', gen_random_uuid(), 'public', 'added')",
        ):
            do(installation, statement)
    return installation


def counts(installation: Installation) -> dict[str, int]:
    tables = [table for names in TABLES.values() for table in names]
    return {table: installation.rows(f"SELECT count(*) AS rows FROM {table}")[0]["rows"] for table in tables}


def test_what_is_too_old_goes(aged: Installation) -> None:
    before = counts(aged)
    assert min(before.values()) == 2
    deleted = prune(aged.settings)
    assert set(deleted) == set(before)
    assert {table: rows for table, rows in counts(aged).items() if rows != 1} == {"questions": 3}
    assert aged.rows("SELECT 1 FROM questions WHERE question = 'accepted800'"), "accepted questions are the operator's"
    assert sum(prune(aged.settings).values()) == 0


def test_batches_are_bounded_and_go_on_until_nothing_is_left(aged: Installation) -> None:
    do(
        aged,
        "INSERT INTO audit_log (at, email, action) SELECT now() - interval '800 days', 'a@x.example', 'search' FROM generate_series(1, 25)",
    )
    assert prune(aged.settings, batch=10)["audit_log"] == 26


def test_the_latest_job_and_the_latest_success_of_a_source_stay(aged: Installation) -> None:
    do(aged, "DELETE FROM sync_jobs")
    for minutes, status in ((30, "success"), (20, "failed"), (10, "failed")):
        do(
            aged,
            "INSERT INTO sync_jobs (source, status, started_at, completed_at)"
            " SELECT 'slack', %s, t.at, t.at FROM (SELECT now() - interval '800 days' - make_interval(mins => %s) AS at) AS t",
            status,
            minutes,
        )
    prune(aged.settings)
    rows = aged.rows("SELECT status FROM sync_jobs ORDER BY started_at")
    assert [row["status"] for row in rows] == ["success", "failed"]


def test_forever_keeps_everything(aged: Installation) -> None:
    forever = {f"retention_{kind}": "forever" for kind in TABLES}
    before = counts(aged)
    assert prune(aged.settings.model_copy(update=forever)) == {}
    assert counts(aged) == before


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_RETENTION__AUDIT", "two years")
    with pytest.raises(ConfigurationError, match="CONCORDANCE_RETENTION__AUDIT"):
        load()


def test_what_fails_in_the_daily_job_stops_nothing_else(aged: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_args: object, **_kwargs: object) -> None:
        raise ValueError("canary")

    monkeypatch.setattr("assets.upkeep.retention.prune_expired", breaks)
    monkeypatch.setattr("assets.upkeep.erase.erase", breaks)
    with capture_logs() as logs, pytest.raises(ConcordanceError, match="Unexpected ValueError"):
        erase_due(aged.settings)
    assert set(counts(aged).values()) == {1, 3}
    [sent] = [entry["text"] for entry in logs if entry["event"] == "alert"]
    assert "Erasure did not finish" in sent
    assert "canary" not in sent
    assert [entry["event"] for entry in logs if entry.get("exc_info")] == ["unexpected_error"] * 2


def test_pruned_syncs_stay_counted_in_the_figures(aged: Installation) -> None:
    def figures() -> list[dict[str, object]]:
        return aged.rows("SELECT what, source, label, value FROM sync_figures ORDER BY 1, 2, 3")

    before = figures()
    assert {"what": "sync_jobs", "source": "files", "label": "success", "value": 2.0} in before
    assert prune(aged.settings)["sync_jobs"] == 1
    assert figures() == before
