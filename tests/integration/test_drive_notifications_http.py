"""Drive's notifications: channels that syncs make, renew and stop, and a sync asked for with each message, over real HTTP."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.sources.drive.checks import checks as examine
from resources.sources.drive.source import Drive
from resources.stores.memory import PostgresMemory
from serving.sources.sync_requests import GATHER_SECONDS
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.serving import FakeLauncher, Running
from tests.fixtures.step import follow, web
from tests.fixtures.waiting import until

ADA = "ada@acme.example"


class Desk:
    """A Drive with a shared drive and a folder in it that is a root of its own, followed by an installation that Drive can reach."""

    def __init__(self, installation: Installation, site: DriveSite, running: Running) -> None:
        self.installation = installation
        self.drive = site.drive
        self.running = running
        self.team = site.drive.shared_drive("Team", {f"user:{ADA}": "reader"})
        self.note = site.drive.file("note.txt", self.team, "The password is qzoneq.", "text/plain")
        self.later = timedelta()

    def sync(self, **settings: Any) -> Any:
        self.installation.settings = self.installation.settings.model_copy(update=settings)
        given = self.installation.settings
        source = Drive(
            given, PostgresMemory(given.postgres_dsn), sleep=lambda _: None, now=lambda: datetime.now(UTC) + self.later
        )
        run = self.installation.sync(SourceName.GOOGLE_DRIVE, port=source)
        self.drive.channels.settle()
        return run

    def channels(self) -> dict[str, dict[str, Any]]:
        """The channels that the registry knows, by feed."""
        rows = self.installation.rows("SELECT * FROM notification_channels")
        assert len({row["feed"] for row in rows}) == len(rows)
        return {row["feed"]: row for row in rows}

    def waiting(self) -> list[str]:
        rows = self.installation.rows(
            "SELECT partition FROM source_events WHERE asked_at IS NULL AND source = 'google_drive' ORDER BY partition"
        )
        return [row["partition"] for row in rows]

    def finds(self, word: str) -> bool:
        return any(word in one["chunk_text"] for one in self.running.search(word, ADA, mode="keyword")["results"])

    def say(self, channel: str, token: str | None, state: str = "change", number: str = "7") -> int:
        headers = {
            "X-Goog-Channel-ID": channel,
            "X-Goog-Message-Number": number,
            "X-Goog-Resource-State": state,
            "X-Goog-Resource-ID": "resource",
        } | ({} if token is None else {"X-Goog-Channel-Token": token})
        answer = self.running.http.post("/api/drive/notifications", headers=headers)
        assert answer.status_code in (204, 404), answer.text
        if answer.status_code == 404:
            assert answer.json()["detail"] == "There is no such channel."
        return answer.status_code

    def token(self, feed: str) -> str:
        channel = self.drive.channels.live[str(self.channels()[feed]["channel_id"])]
        assert channel.token is not None
        return channel.token


@pytest.fixture
def desk(installation: Installation, drive_site: DriveSite, bundled_model: Any) -> Iterator[Desk]:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    with web(installation, bundled_model) as running:
        installation.settings = installation.settings.model_copy(update={"public_url": running.url})
        yield Desk(installation, drive_site, running)


def test_a_change_is_told_and_a_sync_of_its_drive_asked_for(desk: Desk) -> None:
    assert desk.sync().error is None
    until(lambda: desk.finds("qzoneq"), "the first document found")
    assert {state for _, state, status in desk.drive.channels.sent if status == 204} == {"sync"}
    assert desk.running.site.launcher.calls == []
    desk.drive.edit(desk.note, "The password is qztwoq.")
    desk.drive.channels.settle()
    calls = desk.running.site.launcher.calls
    until(lambda: any(desk.team in call["partitions"] for call in calls), "a sync of the shared drive")
    assert all(call["source"] is SourceName.GOOGLE_DRIVE for call in calls)
    until(lambda: desk.waiting() == [], "no notifications left")
    desk.sync()
    assert (desk.finds("qzoneq"), desk.finds("qztwoq")) == (False, True)


def test_each_feed_has_one_channel_which_names_the_roots_that_are_read_from_it(desk: Desk) -> None:
    folder = desk.drive.folder("Handbook", desk.team)
    desk.sync(drive_roots=("my_drive", "shared_drives", folder))
    first = desk.channels()
    assert {feed: row["partitions"] for feed, row in first.items()} == {
        "": ["my_drive"],
        desk.team: sorted([desk.team, folder]),
    }
    desk.sync(drive_roots=("my_drive", "shared_drives"))
    assert {feed: (row["channel_id"], row["partitions"]) for feed, row in desk.channels().items()} == {
        "": (first[""]["channel_id"], ["my_drive"]),
        desk.team: (first[desk.team]["channel_id"], [desk.team]),
    }
    desk.sync(drive_roots=("my_drive",))
    assert desk.channels().keys() == {""}
    assert len(desk.drive.channels.live) == 1
    desk.sync(public_url=None)
    assert desk.channels() == {}
    assert desk.drive.channels.live == {}
    assert desk.drive.calls["changes.watch"] == 2


def test_a_channel_is_renewed_before_it_expires_and_the_old_one_stopped(desk: Desk) -> None:
    desk.sync()
    first = desk.channels()
    desk.later = timedelta(days=3)
    desk.sync()
    assert desk.channels().keys() == first.keys()
    assert {row["channel_id"] for row in desk.channels().values()} == {row["channel_id"] for row in first.values()}
    desk.later = timedelta(days=4)
    desk.sync()
    second = desk.channels()
    assert {row["channel_id"] for row in second.values()}.isdisjoint({row["channel_id"] for row in first.values()})
    assert desk.drive.channels.live.keys() == {str(row["channel_id"]) for row in second.values()}
    assert desk.drive.calls["channels.stop"] == 2


def test_a_channel_for_another_address_is_replaced(desk: Desk) -> None:
    desk.sync(drive_roots=("my_drive",))
    desk.sync(public_url="https://search.example")
    (channel,) = desk.drive.channels.live.values()
    assert channel.address == "https://search.example/api/drive/notifications"


def test_google_is_told_of_no_address_that_is_not_https(desk: Desk) -> None:
    from resources.sources.drive.addresses import GOOGLE
    from resources.sources.drive.channels import address

    settings = desk.installation.settings
    for url, told in (("http://search.example", False), ("https://search.example/", True), (None, False)):
        found = address(settings.model_copy(update={"public_url": url, "drive_api_url": GOOGLE}))
        assert found == ("https://search.example/api/drive/notifications" if told else None)


def test_a_refusal_is_told_by_doctor_and_costs_no_sync(desk: Desk) -> None:
    desk.drive.channels.refused = "Unauthorized WebHook callback channel"
    assert desk.sync(drive_roots=("my_drive",)).error is None
    (check,) = examine(desk.installation.settings)
    assert not check.ok
    assert "Unauthorized WebHook callback channel" in check.detail
    desk.drive.channels.refused = ""
    desk.sync()
    (check,) = examine(desk.installation.settings)
    assert check.ok
    assert "the account's feed" in check.detail


def test_what_does_not_come_over_a_channel_of_ours_is_refused(desk: Desk) -> None:
    desk.sync(drive_roots=("my_drive",))
    channel, token = str(desk.channels()[""]["channel_id"]), desk.token("")
    assert token not in str(desk.channels())
    for wrong in (None, "", "x", token[:-1], token + "x", token.swapcase()):
        assert desk.say(channel, wrong) == 404
    for other in (str(uuid.uuid4()), channel[:-1], "", "x" * 5000, channel.upper() + "'"):
        assert desk.say(other, token) == 404
    for number in ("", "-1", "9" * 21, "one"):
        assert desk.say(channel, token, number=number) == 404
    assert desk.waiting() == []
    assert desk.running.site.launcher.calls == []
    assert desk.say(channel, token, "sync") == 204
    assert desk.waiting() == []
    assert desk.say(channel, token) == 204
    until(lambda: len(desk.running.site.launcher.calls) == 1, "the sync")


def test_a_message_that_comes_while_a_sync_is_being_started_is_asked_for_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync may have read the feed already."""
    desk.sync(drive_roots=("my_drive",))
    channel, token = str(desk.channels()[""]["channel_id"]), desk.token("")
    calls, launch = desk.running.site.launcher.calls, FakeLauncher.__call__

    def launched(*given: Any, **named: Any) -> Any:
        if not calls:
            desk.say(channel, token, number="8")
        return launch(*given, **named)

    monkeypatch.setattr(FakeLauncher, "__call__", launched)
    desk.say(channel, token, number="7")
    until(lambda: len(calls) == 2, "a sync for the later message")
    until(lambda: desk.waiting() == [], "no notifications left")


def test_a_thousand_messages_are_one_sync_each_time(desk: Desk) -> None:
    """A message that comes while a sync is started renews the event that waits, and another sync is started for it."""
    desk.sync(drive_roots=("my_drive",))
    channel, token = str(desk.channels()[""]["channel_id"]), desk.token("")
    began = time.monotonic()
    for number in range(30):
        assert desk.say(channel, token, number=str(number)) == 204
    until(lambda: desk.waiting() == [], "no notifications left")
    calls = desk.running.site.launcher.calls
    assert 0 < len(calls) <= (time.monotonic() - began) / GATHER_SECONDS
    rows = desk.installation.rows("SELECT 1 FROM source_events WHERE source = 'google_drive'")
    assert 0 < len(rows) <= len(calls)


def test_a_sync_that_is_killed_while_it_makes_a_channel_leaves_none_that_counts(desk: Desk) -> None:
    """Killed between the row and Google's answer: nobody knows how to stop the channel, so the next sync makes another."""
    desk.sync(drive_roots=("my_drive",))
    desk.installation.rows(
        "UPDATE notification_channels SET expires_at = NULL, resource_id = NULL, created_at = now() - interval '2 hours'"
        " RETURNING 1"
    )
    abandoned = desk.channels()[""]["channel_id"]
    desk.sync()
    assert desk.channels()[""]["channel_id"] != abandoned
    assert desk.say(str(abandoned), "x") == 404
