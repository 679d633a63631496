"""Notification channels of the simulated Drive, made with Google's own client, and what comes over them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.fixtures import loopback
from tests.fixtures.drive import ALL_DRIVES, DriveSite, refused


class Address:
    """A web server that takes messages; `answers` are the statuses of the next ones, then 204."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.answers: list[int] = []
        self.url = ""

    def said(self, name: str) -> list[str | None]:
        return [message.get(f"x-goog-{name}") for message in self.messages]


@pytest.fixture
def where() -> Iterator[Address]:
    made = Address()

    class Handler(loopback.Handler):
        def do_POST(self) -> None:
            made.messages.append({name.lower(): value for name, value in self.headers.items()})
            self.answer(made.answers.pop(0) if made.answers else 204)

    with loopback.serving(Handler) as url:
        made.url = f"{url}/word"
        yield made


def watch(site: DriveSite, drive: str | None = None, **body: Any) -> Any:
    api = site.service().changes()
    start = api.getStartPageToken(driveId=drive, supportsAllDrives=True).execute()["startPageToken"]
    return api.watch(pageToken=start, driveId=drive, body={"id": "one", "type": "web_hook"} | body, **ALL_DRIVES)


def test_each_change_of_the_feed_is_notified(drive_site: DriveSite, where: Address) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {})
    made = watch(drive_site, address=where.url, token="secret").execute()
    watch(drive_site, team, id="two", address=where.url).execute()
    drive.channels.settle()
    assert where.said("resource-state") == ["sync", "sync"]
    assert (where.said("channel-id"), where.said("channel-token")) == (["one", "two"], ["secret", None])
    assert where.said("resource-id")[0] == made["resourceId"]
    where.messages.clear()
    drive.file("note.txt", drive.my_drive, "one")
    drive.channels.settle()
    assert (where.said("channel-id"), where.said("resource-state")) == (["one"], ["change"])
    assert where.said("message-number") == ["2"]
    where.messages.clear()
    drive.file("note.txt", team, "one")
    drive.channels.settle()
    assert "two" in where.said("channel-id")


def test_a_channel_ends_when_it_is_stopped_or_expires(clock_site: tuple[DriveSite, Any], where: Address) -> None:
    site, advance = clock_site
    drive = site.drive
    for name in ("one", "two"):
        made = watch(site, id=name, address=where.url).execute()
    assert int(made["expiration"]) / 1000 == pytest.approx(drive.now().timestamp() + 3600, abs=1)
    channels = site.service().channels()
    assert refused(channels.stop(body={"id": "one", "resourceId": "another"}))[0] == 404
    assert channels.stop(body={"id": "one", "resourceId": made["resourceId"]}).execute() in ("", {})
    drive.channels.settle()
    where.messages.clear()
    drive.file("note.txt", drive.my_drive, "one")
    drive.channels.settle()
    assert where.said("channel-id") == ["two"]
    advance(timedelta(hours=2))
    drive.file("more.txt", drive.my_drive, "two")
    drive.channels.settle()
    assert where.said("channel-id") == ["two"]


def test_a_channel_lives_a_week_at_most(drive_site: DriveSite, where: Address) -> None:
    asked = str(int((time.time() + 30 * 24 * 3600) * 1000))
    made = watch(drive_site, address=where.url, expiration=asked).execute()
    assert int(made["expiration"]) / 1000 < time.time() + 7 * 24 * 3600 + 60


def test_a_message_is_sent_again_when_the_server_fails(drive_site: DriveSite, where: Address) -> None:
    where.answers = [503, 500, 204]
    watch(drive_site, address=where.url).execute()
    drive_site.drive.channels.settle()
    assert where.said("message-number") == ["1", "1", "1"]
    where.answers = [404]
    drive_site.drive.file("note.txt", drive_site.drive.my_drive, "one")
    drive_site.drive.channels.settle()
    assert where.said("message-number")[3:] == ["2"]


def test_channels_are_judged_as_google_does(drive_site: DriveSite, where: Address) -> None:
    watch(drive_site, address=where.url).execute()
    assert refused(watch(drive_site, address=where.url)) == (400, "channelIdNotUnique")
    assert refused(watch(drive_site, id="two", address="http://search.example/x")) == (400, "push.webhookUrlNotHttps")
    assert refused(watch(drive_site, id="two", address=where.url, type="post")) == (400, "push.channelTypeUnsupported")
    assert refused(watch(drive_site, id="x" * 65, address=where.url))[0] == 400
    assert refused(watch(drive_site, id="two", token="x" * 257, address=where.url))[0] == 400
    assert refused(watch(drive_site, id="two", address=where.url, expiration="1"))[0] == 400
    drive_site.drive.channels.refused = "Unauthorized WebHook callback channel"
    answer = httpx.post(  # Google's client takes any 401 for an expired token
        f"{drive_site.url}/drive/v3/changes/watch",
        params={"pageToken": drive_site.service().changes().getStartPageToken().execute()["startPageToken"]},
        json={"id": "two", "type": "web_hook", "address": where.url},
        headers={"Authorization": f"Bearer {drive_site.drive.token}"},
    )
    assert (answer.status_code, answer.json()["error"]["errors"][0]["reason"]) == (401, "push.webhookUrlUnauthorized")
