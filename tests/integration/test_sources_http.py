"""`GET /api/sources`, and starting syncs of sources that are not configured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from resources.core.domain import Role
from resources.sources import names
from tests.fixtures.serving import Running, Site

BOB, ROOT = "bob@acme.com", "root@acme.com"
SECRET_CHANNEL, SECRET_FILE = "layoffs-planning", "Layoff list.exe"


def told(running: Running, who: str = ROOT, *, admin: bool = True) -> dict[str, Any]:
    """Sources by name."""
    response = running.request("GET", "/api/sources", who, admin=admin)
    assert response.status_code == 200, response.text
    return {one["source"]: one for one in response.json()["sources"]}


def document(site: Site, number: int, state: str, *, partition: str = "C2", reason: str | None = None) -> None:
    site.sql(
        "INSERT INTO documents (doc_id, source, source_id, partition, source_title, state, reason)"
        " VALUES (gen_random_uuid(), 'slack', %s, %s, 'x', %s, %s)",
        f"{partition}/{number}", partition, state, reason,
    )  # fmt: skip


@pytest.fixture
def ledger(site: Site) -> Site:
    """A channel that balances and a private one that does not, a lost one, and one that never was counted."""
    channels = (
        ("C1", "general", 1, None),
        ("C2", SECRET_CHANNEL, 9, None),
        ("C3", "lost", 2, datetime.now(UTC)),
        ("C4", "new", None, None),
    )
    for partition, title, count, lost_at in channels:
        site.sql(
            "INSERT INTO partitions (source, partition, title, source_count, counted_at, lost_at, acl_checked_at, last_sync_at)"
            " VALUES ('slack', %s, %s, %s, now(), %s, now(), now())",
            partition, title, count, lost_at,
        )  # fmt: skip
    document(site, 1, "live", partition="C1")
    for number, state in enumerate(("live", "live", "live", "failed", "deleted")):
        reason = f"Slack no longer has the file {SECRET_FILE}." if state == "failed" else None
        document(site, number, state, reason=reason)
    for number in range(10, 13):
        document(site, number, "skipped", reason="too large" if number > 10 else f"{SECRET_FILE} cannot be read")
    document(site, 1, "lost_access", partition="C3")
    site.sql("INSERT INTO held_deletions (source, partition, source_id) VALUES ('slack', 'C2', 'C2/0')")
    site.sql("INSERT INTO held_deletions (source, partition, source_id) VALUES ('slack', 'C2', 'C2/4')")
    site.sql(
        "INSERT INTO source_states (source, paused_at, paused_reason) VALUES ('slack', now(), 'The token was revoked.')"
    )
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, completed_at, synced, error_message, requested_by) VALUES"
        " ('slack', 'success', now() - interval '2 hours', now() - interval '1 hour', 4, NULL, 'schedule'),"
        " ('slack', 'failed', now() - interval '30 minutes', now(), 1, %s, 'ann@acme.com')",
        f"No {SECRET_CHANNEL}.",
    )
    return site


def test_administrators_see_the_ledger_of_every_partition(ledger: Site, running: Running) -> None:
    slack = told(running)["slack"]
    assert [one["partition"] for one in slack["partitions"]] == ["C1", "C2", "C3", "C4"]
    first, second, lost, new = slack["partitions"]
    assert (first["title"], first["source_count"], first["live"], first["complete"]) == ("general", 1, 1, True)
    counts = {
        name: second[name] for name in ("source_count", "live", "skipped", "failed", "held_deletions", "complete")
    }
    assert counts == {
        "source_count": 9, "live": 3, "skipped": 3, "failed": 1, "held_deletions": 1, "complete": False,
    }  # fmt: skip
    assert second["skipped_reasons"] == [
        {"kind": "too_large", "reason": "too large", "count": 2},
        {"kind": "unavailable", "reason": f"{SECRET_FILE} cannot be read", "count": 1},
    ]
    assert second["failed_reasons"] == [
        {"kind": "changed", "reason": f"Slack no longer has the file {SECRET_FILE}.", "count": 1}
    ]
    assert (lost["lost_access"], lost["complete"], new["complete"]) == (1, None, None)
    assert lost["lost_at"] is not None
    assert {"counted_at", "last_sync_at", "acl_checked_at"} <= set(second)


def test_auditors_see_kinds_of_reasons_and_no_texts(ledger: Site) -> None:
    document(ledger, 13, "skipped", reason="another is too large")
    ledger.settings = ledger.settings.model_copy(
        update={
            "roles": {Role.AUDITOR: (BOB,), Role.OPERATOR: ("olive@acme.com",)},
            "slack_bot_token": SecretStr("xoxb-1"),
        }
    )
    with ledger.running() as running:
        seen = running.request("GET", "/api/sources", BOB)
        page = running.http.get("/sources", headers=ledger.session(BOB))
        operator = running.http.get("/sources", headers=ledger.session("olive@acme.com"))
    (slack,) = (one for one in seen.json()["sources"] if one["source"] == "slack")
    assert slack["partitions"][1]["skipped_reasons"] == [
        {"kind": "too_large", "reason": None, "count": 3},
        {"kind": "unavailable", "reason": None, "count": 1},
    ]
    assert slack["partitions"][1]["failed_reasons"] == [{"kind": "changed", "reason": None, "count": 1}]
    assert SECRET_FILE not in seen.text
    assert SECRET_FILE not in page.text
    assert "3 × too large" in page.text
    assert "1 × changed" in page.text
    assert f"1 × {SECRET_FILE} cannot be read" in operator.text
    assert f"1 × Slack no longer has the file {SECRET_FILE}." in operator.text


def test_completeness_subtracts_held_deletions(ledger: Site, running: Running) -> None:
    ledger.sql("UPDATE partitions SET source_count = 6 WHERE partition = 'C2'")
    assert told(running)["slack"]["partitions"][1]["complete"] is True


def test_a_source_has_a_state_a_last_job_and_totals(ledger: Site, running: Running) -> None:
    sources = told(running)
    assert list(sources) == [name.value for name in names()]
    assert [sources[name]["configured"] for name in sources] == [False, False, True, True, True]
    slack = sources["slack"]
    assert slack["label"] == "Slack"
    assert slack["totals"] == {"live": 4, "skipped": 3, "failed": 1, "lost_access": 1, "held_deletions": 1}
    assert slack["paused"]["reason"] == "The token was revoked."
    assert slack["last_job"]["status"] == "failed"
    assert slack["last_job"]["error_message"] == f"No {SECRET_CHANNEL}."
    assert slack["last_sync_at"] < slack["last_job"]["completed_at"]
    assert (sources["files"]["paused"], sources["files"]["last_job"], sources["files"]["last_sync_at"]) == (None,) * 3


def test_other_users_see_totals_of_readable_documents_and_no_names(ledger: Site, running: Running) -> None:
    response = running.request("GET", "/api/sources", BOB)
    for name in (SECRET_CHANNEL, SECRET_FILE, "general", "C1", "C2", "ann@acme.com", "too large", "revoked"):
        assert name not in response.text
    ledger.sql("UPDATE documents SET permissions = '{bob@acme.com}' WHERE source_id IN ('C2/0', 'C2/1', 'C2/3')")
    slack = told(running, BOB, admin=False)["slack"]
    assert "partitions" not in slack
    assert slack["totals"] == {"live": 2, "skipped": 0, "failed": 1, "lost_access": 0, "held_deletions": 1}
    assert told(running, "eve@other.com", admin=False)["slack"]["totals"]["live"] == 0
    assert {slack["last_job"][name] for name in ("documents_synced", "documents_failed", "chunks_embedded")} == {None}
    assert slack["paused"]["since"] is not None
    assert (slack["paused"]["reason"], slack["last_job"]["error_message"]) == (None, None)


def test_further_reasons_are_summed_up(site: Site, running: Running) -> None:
    for number in range(25):
        document(site, number, "skipped", reason=f"reason {number:02}")
    reasons = told(running)["slack"]["partitions"][0]["skipped_reasons"]
    assert len(reasons) == 21
    assert reasons[-1] == {"kind": "other", "reason": "other reasons", "count": 5}
    assert sum(one["count"] for one in reasons) == 25


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("google-drive", ["CONCORDANCE_GOOGLE_CLIENT_ID", "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE"]),
        ("slack", ["CONCORDANCE_SLACK_BOT_TOKEN"]),
    ],
)
def test_a_source_that_is_not_configured_names_its_settings(
    site: Site, running: Running, source: str, names: list[str]
) -> None:
    response = running.request("POST", f"/api/sync/{source}", ROOT, admin=True, json={})
    assert (response.status_code, response.json()["type"]) == (409, "/problems/source-not-configured")
    assert [name for name in names if name not in response.json()["detail"]] == []
    assert site.launcher.calls == []
    assert running.request("POST", f"/api/sync/{source}", BOB, json={}).json()["type"] == "/problems/role-required"


def test_a_configured_source_can_be_started_once_at_a_time(site: Site) -> None:
    token = type(site.settings.postgres_url)("xoxb-simulator")
    site.settings = site.settings.model_copy(update={"slack_bot_token": token})
    with site.running() as running:
        assert told(running)["slack"]["configured"] is True
        assert running.request("POST", "/api/sync/slack", ROOT, admin=True, json={}).status_code == 202
        site.launcher.busy = "11111111-1111-4111-8111-111111111111"
        busy = running.request("POST", "/api/sync/slack", ROOT, admin=True, json={})
        assert (busy.json()["type"], busy.json()["job_id"]) == ("/problems/sync-busy", site.launcher.busy)
        assert "xoxb" not in running.request("GET", "/api/sources", ROOT, admin=True).text


@pytest.mark.usefixtures("quick_figures")
def test_metrics_include_pauses_and_held_deletions(ledger: Site) -> None:
    ledger.settings = ledger.settings.model_copy(update={"slack_bot_token": SecretStr("xoxb-1")})
    with ledger.running() as running:
        running.wait_for_metrics('source_paused{source="slack"} 1.0', 'held_deletions{source="slack"} 2.0')
