"""Credentials are tried before they are set: what is found, what is refused, and that nothing of them is kept or sent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.drive import DriveSite, service_account_file
from tests.fixtures.serving import Running, Site
from tests.fixtures.slack import SlackSite

ROOT = "root@acme.com"
SLACK_TOKEN = "xoxb-simulator"  # the simulator's


def check(running: Running, source: str, **settings: str) -> dict[str, Any]:
    answer = running.request("POST", f"/api/sources/{source}/check", ROOT, admin=True, json={"settings": settings})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def slack(site: Site, slack_site: SlackSite) -> SlackSite:
    site.settings = site.settings.model_copy(update={"slack_api_url": slack_site.url})
    return slack_site


@pytest.fixture
def drive(site: Site, drive_site: DriveSite) -> DriveSite:
    site.settings = site.settings.model_copy(update={"drive_api_url": drive_site.url})
    return drive_site


def key_file(folder: Path, url: str = "https://elsewhere.example") -> str:
    return service_account_file(folder, url).read_text()


def test_a_token_of_slack_tells_its_workspace_scopes_and_channels(slack: SlackSite, site: Site) -> None:
    slack.workspace.channel("general")
    slack.workspace.channel("elsewhere", bot=False)
    with site.running() as running:
        found = check(running, "slack", slack_bot_token=SLACK_TOKEN)
        assert (found["ok"], found["places"]) == (True, ["#general"])
        assert slack.workspace.name in found["account"]
        assert "1 other channel. Write this in one to index it: /invite @" in found["notes"][0]
        optional = {"team:read", "chat:write", "app_mentions:read", "im:history"}
        assert {one["name"] for one in found["scopes"] if not one["granted"]} == optional
        slack.workspace.set_scopes({"channels:read", "groups:read"})
        found = check(running, "slack", slack_bot_token=SLACK_TOKEN)
        assert not found["ok"]
        assert "channels:history" in found["problem"]


def test_a_token_that_is_refused_or_malformed_says_what_to_do(slack: SlackSite, site: Site) -> None:
    with site.running() as running:
        assert "invalid_auth" in check(running, "slack", slack_bot_token="xoxb-other")["problem"]
        calls = sum(slack.workspace.calls.values())
        for wrong in ("none", "xoxb-a\r\nHost: evil", ""):
            assert "begins with xoxb-" in check(running, "slack", slack_bot_token=wrong)["problem"]
        assert sum(slack.workspace.calls.values()) == calls
        slack.faults.add("rate_limit", match="auth.test", seconds=300)
        assert "asks to wait" in check(running, "slack", slack_bot_token=SLACK_TOKEN)["problem"]


def test_a_service_account_tells_its_drives_and_an_estimate(drive: DriveSite, site: Site, tmp_path: Path) -> None:
    site.sql("INSERT INTO sync_jobs (source, status, started_at, completed_at, synced, embedded) VALUES"
             " ('files', 'success', now() - interval '10 s', now(), 100, 500)")  # fmt: skip
    site.sql("INSERT INTO embedding_usage VALUES ('2025-01', 'm', 500, 50000, 1)")
    team = drive.drive.shared_drive("Team", {drive.drive.account: "organizer"})
    drive.drive.file("Plan.txt", team, "The plan.")
    with site.running() as running:
        running.wait_for_metrics('embedding_tokens_total{model="m"} 50000.0')
        found = check(running, "google_drive", google_service_account_key=key_file(tmp_path))
        assert found["ok"], found
        assert found["account"] == "sync@larkmoor.iam.gserviceaccount.com"
        assert found["places"] == ["Team"]
        first = found["first_sync"]
        assert first["documents"] >= 1
        assert first["tokens"] == first["passages"] * 100
        assert "100 documents" in first["basis"]


def test_a_key_file_is_not_used_where_it_says(drive: DriveSite, slack: SlackSite, site: Site, tmp_path: Path) -> None:
    with site.running() as running:
        found = check(running, "google_drive", google_service_account_key=key_file(tmp_path, slack.url))
        assert found["ok"], found
        assert slack.workspace.calls == {}
        for wrong in ("none", "{}", "[]", json.dumps({"client_email": "a", "private_key": "b", "private_key_id": "c"})):
            assert "ownload" in check(running, "google_drive", google_service_account_key=wrong)["problem"]


def test_an_oauth_client_is_accepted_or_refused(drive: DriveSite, site: Site) -> None:
    drive.drive.sessions.client_secret = "right"  # the simulator's
    with site.running() as running:
        good = check(running, "google_drive", google_client_id="id", google_client_secret="right")
        bad = check(running, "google_drive", google_client_id="id", google_client_secret="wrong")
    assert good["ok"]
    assert "does not accept" in bad["problem"]


def test_nothing_of_the_credentials_is_kept(slack: SlackSite, site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    with site.running() as running:
        for token in (SLACK_TOKEN, "xoxb-canary-canary"):
            assert token not in json.dumps(check(running, "slack", slack_bot_token=token))
        running.settle()
    rows = site.sql("SELECT email, detail FROM audit_log WHERE action = 'source_check' ORDER BY event_id")
    assert rows == [(ROOT, {"source": "slack", "worked": True}), (ROOT, {"source": "slack", "worked": False})]
    printed = capfd.readouterr()
    assert "xoxb-" not in printed.out + printed.err


@pytest.mark.parametrize("route", ["check", "places"])
def test_a_misspelled_setting_is_refused(slack: SlackSite, running: Running, route: str) -> None:
    body = {"settings": {"slack_bot_tokn": SLACK_TOKEN, "slack_bot_token": SLACK_TOKEN}}
    answer = running.request("POST", f"/api/sources/slack/{route}", ROOT, admin=True, json=body)
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "settings.slack_bot_tokn: is not a setting that can be tried. These can: slack_bot_token."
    )
    assert sum(slack.workspace.calls.values()) == 0


def test_only_sources_that_can_be_tried_are(running: Running) -> None:
    for source in ("files", "nowhere"):
        answer = running.request(
            "POST", f"/api/sources/{source}/check", ROOT, admin=True, json={"settings": {"a": "b"}}
        )
        assert answer.json()["type"] == "/problems/unknown-source"
