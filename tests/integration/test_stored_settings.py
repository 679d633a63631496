"""Settings of sources that administrators store: who may, what is kept of them, and that the environment takes precedence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from orchestration.demo.simulated import with_simulators
from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.settings import Settings
from resources.sources import configured, open_source
from resources.sources.stored import complete
from resources.stores.postgres import session
from tests.fixtures.drive import DriveSite, service_account_file
from tests.fixtures.serving import Running, Site
from tests.fixtures.slack import SlackSite

ROOT, BOB = "root@acme.com", "bob@acme.com"
TOKEN = "xoxb-simulator"  # the simulator's


def store(
    running: Running, source: str, *, who: str = ROOT, admin: bool = True, **settings: str | None
) -> httpx.Response:
    body = {"settings": settings}
    return running.request("PATCH", f"/api/sources/{source}/settings", who, admin=admin, json=body)


def is_configured(running: Running, source: str) -> bool:
    rows: list[dict[str, Any]] = running.request("GET", "/api/sources", ROOT, admin=True).json()["sources"]
    return next(one["configured"] for one in rows if one["source"] == source)


def partitions(settings: Settings, source: SourceName) -> list[str]:
    return sorted(open_source(settings, source).partitions())


def test_slack_is_read_with_a_token_that_an_administrator_stored(site: Site, slack_site: SlackSite) -> None:
    channel = slack_site.workspace.channel("general")
    site.settings = site.settings.model_copy(update={"slack_api_url": slack_site.url})
    site.sql(
        "INSERT INTO source_states (source, paused_at, paused_reason) VALUES ('slack', now(), 'The token was revoked.')"
    )
    with site.running() as running:
        assert not is_configured(running, "slack")
        answer = store(running, "slack", slack_bot_token=TOKEN)
        assert (answer.status_code, answer.json()) == (200, {"stored": ["slack_bot_token"]})
        assert is_configured(running, "slack")
        assert partitions(site.settings, SourceName.SLACK) == [channel]
        checked = running.request("POST", "/api/sources/slack/check", ROOT, admin=True, json={"settings": {}}).json()
        assert checked["places"] == ["#general"]
        assert store(running, "slack", slack_bot_token=None).json() == {"stored": []}
        assert not is_configured(running, "slack")
    assert site.sql("SELECT paused_at FROM source_states WHERE source = 'slack'") == [(None,)]


def test_what_is_stored_cannot_be_read_from_tables_answers_or_events(site: Site) -> None:
    secret = "xoxb-4711-secret"
    with site.running() as running:
        answer = store(running, "slack", slack_bot_token=secret)
        page = running.request("GET", "/sources/slack/set-up", ROOT, admin=True)
    assert secret not in answer.text + page.text
    assert secret not in str(site.sql("SELECT source_settings FROM source_settings"))
    (row,) = site.sql("SELECT email, detail FROM audit_log WHERE action = 'source_settings'")
    assert row[0] == ROOT
    assert "slack_bot_token" in str(row[1])
    assert secret not in str(row[1])


@pytest.mark.parametrize(("who", "admin", "status"), [(BOB, False, 403), (ROOT, True, 200)])
def test_only_administrators_store_settings(site: Site, who: str, admin: bool, status: int) -> None:
    with site.running() as running:
        assert store(running, "slack", who=who, admin=admin, slack_bot_token=TOKEN).status_code == status
    assert site.sql("SELECT count(*) FROM source_settings") == [(int(status == 200),)]


def test_the_environment_takes_precedence(site: Site) -> None:
    with site.running() as running:
        assert store(running, "slack", slack_bot_token=TOKEN).status_code == 200
        assert store(running, "google_drive", google_client_id="stored", drive_roots="a,b").status_code == 200
    token, roots = SecretStr("xoxb-environment"), ("c",)
    site.settings = site.settings.model_copy(update={"slack_bot_token": token, "drive_roots": roots})
    found = complete(site.settings)
    assert found.slack_bot_token == token
    assert (found.google_client_id, found.drive_roots) == ("stored", roots)
    with site.running() as running:
        answer = store(running, "slack", slack_bot_token=TOKEN)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/set-by-environment")


@pytest.mark.parametrize(
    ("source", "settings", "status", "said"),
    [
        ("slack", {"slack_bot_token": "xoxb-…"}, 400, "CONCORDANCE_SLACK_BOT_TOKEN: has a character"),
        ("slack", {"slack_api_url": "https://evil.example"}, 400, "slack_api_url"),
        ("slack", {"google_client_id": "x"}, 400, "google_client_id"),
        ("files", {"file_roots": "[]"}, 404, "cannot be tried"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    site: Site, source: str, settings: dict[str, str], status: int, said: str
) -> None:
    with site.running() as running:
        answer = store(running, source, **settings)
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text
    assert site.sql("SELECT count(*) FROM source_settings") == [(0,)]


def test_drive_is_read_with_a_stored_key_and_only_from_the_address_of_the_settings(
    site: Site, drive_site: DriveSite, tmp_path: Path
) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {"sync@larkmoor.iam.gserviceaccount.com": "reader", drive.account: "organizer"})
    site.settings = site.settings.model_copy(update={"drive_api_url": drive_site.url})
    key = service_account_file(tmp_path, "https://elsewhere.example").read_text()
    with site.running() as running:
        assert store(running, "google_drive", google_service_account_key=key, drive_roots=team).status_code == 200
    found = complete(site.settings)
    assert (found.drive_roots, found.reads_as_service_account) == ((team,), True)
    assert partitions(site.settings, SourceName.GOOGLE_DRIVE) == [team]


def test_a_stored_secret_survives_key_rotation_and_a_lost_key_is_named(site: Site) -> None:
    old, new, other = (Fernet.generate_key().decode() for _ in range(3))

    def with_keys(*keys: str) -> Settings:
        return site.settings.model_copy(update={"encryption_keys": SecretStr(",".join(keys))})

    site.settings = with_keys(old)
    with site.running() as running:
        assert store(running, "slack", slack_bot_token=TOKEN).status_code == 200
    for given in (with_keys(new, old), with_keys(new)):
        token = complete(given).slack_bot_token
        assert token is not None
        assert token.get_secret_value() == TOKEN
    site.settings = with_keys(other)
    with session(site.settings.postgres_dsn) as connection:
        lost = complete(site.settings, connection)
    assert configured(lost, SourceName.SLACK)
    with pytest.raises(ConfigurationError, match="The stored slack_bot_token was encrypted with a key"):
        open_source(site.settings, SourceName.SLACK)
    with site.running() as running:
        assert is_configured(running, "slack")


def test_a_simulator_takes_the_place_of_no_source_that_is_connected(site: Site) -> None:
    _, services = with_simulators(site.settings)
    for service in services:
        service.prepare()
    with site.running() as running:
        assert store(running, "slack", slack_bot_token=TOKEN).status_code == 200
    drive, slack = services
    drive.prepare()
    with pytest.raises(ConfigurationError, match=r"Slack is connected in .* a home of its own"):
        slack.prepare()
