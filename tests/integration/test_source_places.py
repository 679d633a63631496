"""Drives, folders and channels are browsed and counted before they are set: levels, chosen roots, and who may look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.fixtures.drive import DriveSite, service_account_file
from tests.fixtures.serving import Running, Site
from tests.fixtures.slack import SlackSite

ROOT = "root@acme.com"
SLACK_TOKEN = "xoxb-simulator"  # the simulator's
SCRIPT = "<script>alert(1)</script>"


def post(running: Running, what: str, **body: Any) -> dict[str, Any]:
    answer = running.request("POST", f"/api/sources/{what}", ROOT, admin=True, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(running: Running, inside: str | None, **settings: str) -> dict[str, str]:
    """Return the IDs of the places by name."""
    found = post(running, "google_drive/places", settings=settings, inside=inside)
    assert (found["problem"], found["complete"]) == (None, True)
    return {one["name"]: one["id"] for one in found["places"]}


@pytest.fixture
def drive(site: Site, drive_site: DriveSite) -> DriveSite:
    """Two shared drives, one with folders of which one is in the trash, and a folder in My Drive."""
    changes = {"drive_api_url": drive_site.url, "drive_token": SecretStr(drive_site.drive.token)}
    site.settings = site.settings.model_copy(update=changes)
    world = drive_site.drive
    team = world.shared_drive("Team", {world.account: "organizer"})
    world.shared_drive("Board", {world.account: "organizer"})
    plans = world.folder(f"Plans {SCRIPT}", team)
    world.file("Plan.txt", world.folder("Drafts", plans), "The plan.")
    world.file("Idea.txt", plans, "An idea.")
    world.file("Other.txt", team, "Other.")
    world.trash(world.folder("Old", team))
    world.file("Note.txt", world.folder("Notes", "root"), "A note.")
    return drive_site


@pytest.fixture
def slack(site: Site, slack_site: SlackSite) -> SlackSite:
    changes = {"slack_api_url": slack_site.url, "slack_bot_token": SecretStr(SLACK_TOKEN)}
    site.settings = site.settings.model_copy(update=changes)
    return slack_site


def test_drives_and_folders_are_opened_a_level_at_a_time(drive: DriveSite, site: Site) -> None:
    with site.running() as running:
        assert names(running, None) == {
            "My Drive": "my_drive",
            "All shared drives": "shared_drives",
            "Shared with me": "shared_with_me",
        }
        assert list(names(running, "my_drive")) == ["Notes"]
        drives = names(running, "shared_drives")
        assert list(drives) == ["Board", "Team"]
        folders = names(running, drives["Team"])
        assert list(folders) == [f"Plans {SCRIPT}"]
        assert list(names(running, folders[f"Plans {SCRIPT}"])) == ["Drafts"]
        assert names(running, drives["Board"]) == {}
        wrong = post(running, "google_drive/places", inside="x' in parents or 'root")
        assert "by its ID" in wrong["problem"]


def test_the_my_drive_of_the_administrator_who_lists_the_users_stays_closed(drive: DriveSite, site: Site) -> None:
    site.settings = site.settings.model_copy(update={"drive_users": ("*",)})
    with site.running() as running:
        assert list(names(running, None)) == ["All shared drives", "Shared with me"]
        for inside in ("my_drive", "root"):
            found = post(running, "google_drive/places", inside=inside)
            assert (found["places"], found["problem"]) == ([], "There is no My Drive to choose folders from.")


def test_given_credentials_count_before_those_that_are_configured(drive: DriveSite, site: Site, tmp_path: Path) -> None:
    key = {"google_service_account_key": service_account_file(tmp_path, "https://elsewhere.example").read_text()}
    with site.running() as running:
        assert list(names(running, None, **key)) == [
            "All shared drives",
            "Shared with me",
        ]  # a service account has no My Drive to choose
        assert "key file" in post(running, "google_drive/places", settings={"google_subject": "a@b.eu"})["problem"]
        client = {"google_client_id": "id", "google_client_secret": "x"}
        assert "connected" in post(running, "google_drive/places", settings=client)["problem"]


def test_an_estimate_counts_the_files_of_the_chosen_roots_once(drive: DriveSite, site: Site) -> None:
    with site.running() as running:
        team = names(running, "shared_drives")["Team"]
        plans = names(running, team)[f"Plans {SCRIPT}"]

        def counted(roots: str) -> tuple[int, list[str]]:
            found = post(running, "google_drive/check", settings={"drive_roots": roots})
            assert found["ok"], found
            return found["first_sync"]["documents"], found["places"]

        assert counted(plans) == (2, [f"Plans {SCRIPT}"])
        assert counted(f"{team},{plans}") == (3, ["Team", f"Plans {SCRIPT}"])
        assert counted("my_drive") == (1, ["My Drive"])
        assert counted("shared_drives") == (3, ["All shared drives"])
        assert counted("")[0] == 4
        found = post(running, "google_drive/check", settings={"drive_roots": "gone"})
        assert (found["first_sync"]["documents"], found["places"]) == (0, [])
        assert "does not see gone" in found["notes"][0]


def test_channels_say_which_the_app_must_be_invited_to(slack: SlackSite, site: Site) -> None:
    for name, member in (("zoo", True), ("general", True), ("elsewhere", False)):
        slack.workspace.channel(name, bot=member)
    with site.running() as running:
        found = post(running, "slack/places", settings={"slack_bot_token": SLACK_TOKEN})
        assert [(one["name"], one["readable"]) for one in found["places"]] == [
            ("general", True),
            ("zoo", True),
            ("elsewhere", False),
        ]
        assert post(running, "slack/places") == found
        assert "invalid_auth" in post(running, "slack/places", settings={"slack_bot_token": "xoxb-other"})["problem"]


def test_browsing_is_for_operators_and_keeps_nothing(
    slack: SlackSite, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    with site.running() as running:
        refused = running.request("POST", "/api/sources/slack/places", "ann@acme.com", json={})
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/role-required")
        assert slack.workspace.calls == {}
        for token in (SLACK_TOKEN, "xoxb-canary-canary"):
            assert token not in json.dumps(post(running, "slack/places", settings={"slack_bot_token": token}))
        running.settle()
    rows = site.sql("SELECT email, detail FROM audit_log WHERE action = 'source_browse' ORDER BY event_id")
    assert rows == [
        (ROOT, {"source": "slack", "inside": None, "worked": True}),
        (ROOT, {"source": "slack", "inside": None, "worked": False}),
    ]
    printed = capfd.readouterr()
    assert "xoxb-" not in printed.out + printed.err
