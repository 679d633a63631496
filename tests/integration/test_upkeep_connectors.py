"""Reconciliation and permission audit over the connectors of Drive and Slack, against their simulators.

Listing everything without a sync must leave no trace, and a sync that lists everything must end where it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assets.upkeep.audit import audit
from assets.upkeep.reconcile import reconcile
from resources.core.domain import SourceName
from resources.stores import qdrant
from resources.stores.blobs import Blobs
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.slack import SlackSite
from tests.fixtures.step import follow
from tests.fixtures.upkeep import do

ADA, BOB, EVE = "ada@acme.example", "bob@acme.example", "eve@acme.example"


def fill_drive(installation: Installation, site: DriveSite) -> Callable[[], None]:
    """Create a folder and a shared drive; return a function that changes permissions at the source."""
    drive = site.drive
    company = drive.folder("Company", drive.my_drive)
    shared = drive.shared_drive("Engineering", {f"user:{ADA}": "organizer", "group:eng@acme.example": "reader"})
    files = [
        drive.file(f"{name}.txt", parent, f"The {name} otter of the river sleeps until noon.\n")
        for name, parent in (("one", company), ("two", company), ("three", shared), ("four", shared))
    ]
    drive.file("Photo.heic", company, b"\x00", "image/heic")
    drive.share(files[0], f"user:{BOB}")
    drive.share(files[1], f"user:{ADA}")
    follow(
        installation, drive_token=SimulatedDrive.token, drive_api_url=site.url, drive_roots=(company, "shared_drives")
    )
    return lambda: drive.unshare(files[0], f"user:{BOB}")


def fill_slack(installation: Installation, site: SlackSite) -> Callable[[], None]:
    """Create channels with threads, conversations and a file; return a function that changes permissions at the source."""
    slack = site.workspace
    ada, bob = slack.user("Ada Byron", ADA), slack.user("Bob Noyce", BOB)
    general, secret = slack.channel("general", (ada, bob)), slack.channel("secret", (ada, bob), private=True)
    for channel in (general, secret):
        first = slack.post(channel, ada, f"Where does the otter of {channel} sleep?")
        slack.post(channel, bob, f"On the bank, until noon, says {channel}.", thread=first)
        slack.post(channel, bob, f"Lunch on the {channel} bank?", ts=f"{float(first) - 90_000:.6f}")
    file = slack.upload(ada, "otter.txt", b"The otter of the northern river sleeps until noon.\n", "text/plain")
    slack.post(secret, ada, "The notes on it.", files=(file,))
    follow(installation, slack_bot_token=slack.token, slack_api_url=site.url)
    return lambda: slack.leave(secret, bob)


@pytest.fixture(params=[SourceName.GOOGLE_DRIVE, SourceName.SLACK])
def source(request: pytest.FixtureRequest) -> SourceName:
    return request.param


@pytest.fixture
def revoke(
    installation: Installation, source: SourceName, drive_site: DriveSite, slack_site: SlackSite
) -> Callable[[], None]:
    """A synced installation and a function that revokes a permission at the source."""
    drive = source is SourceName.GOOGLE_DRIVE
    revoke = fill_drive(installation, drive_site) if drive else fill_slack(installation, slack_site)
    run = installation.sync(source)
    assert run.error is None
    assert installation.agrees()
    return revoke


def everything(installation: Installation) -> list[Any]:
    """Return all rows that a listing could change."""
    tables = ("documents", "partitions", "source_memory", "listed_documents", "fetched_contents", "sync_jobs")
    return [installation.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]  # noqa: S608


def test_looking_finds_nothing_and_leaves_nothing(
    installation: Installation, source: SourceName, revoke: Callable[[], None]
) -> None:
    before = everything(installation)
    report = reconcile(installation.settings, source, apply=False)
    assert (report.faults(), report.unlisted, report.clean()) == (0, {}, True), report
    assert report.checked == len(before[0])
    found = audit(installation.settings, source)
    assert (found.excess.postgres, found.excess.qdrant, found.missing.postgres, found.missing.qdrant) == (0, 0, 0, 0)
    live = [row for row in before[0] if row["state"] == "live"]
    assert (found.checked, found.repaired, found.unlisted) == (len(live), 0, {})
    assert everything(installation) == before


def test_repair(installation: Installation, source: SourceName, revoke: Callable[[], None]) -> None:
    live = installation.rows("SELECT doc_id::text, content_hash FROM documents WHERE state = 'live' ORDER BY source_id")
    forgotten, lost, bare = (row["doc_id"] for row in live[:3])
    do(installation, "DELETE FROM documents WHERE doc_id = %s", forgotten)
    Blobs(installation.settings.lake_address).delete(live[1]["content_hash"])
    qdrant.delete_documents(qdrant.client(installation.settings), qdrant.ALIAS, [bare])
    look = reconcile(installation.settings, source, apply=False)
    assert (look.orphans.lake, look.orphans.postgres, look.orphans.qdrant > 0) == (1, 0, True)
    assert (look.missing.lake, look.missing.postgres, look.missing.qdrant > 0) == (1, 1, True)
    report = reconcile(installation.settings, source, apply=True)
    assert (report.faults(), report.repaired, report.clean()) == (look.faults(), look.faults(), True), report
    assert reconcile(installation.settings, source, apply=False).faults() == 0
    assert lost
    assert installation.sync(source).counts.embedded == 0
    assert installation.agrees()
    rows = installation.rows("SELECT doc_id::text, content_hash FROM documents WHERE state = 'live' ORDER BY source_id")
    assert rows == live


def test_the_audit_follows_the_source(
    installation: Installation, source: SourceName, revoke: Callable[[], None]
) -> None:
    do(installation, "UPDATE documents SET permissions = permissions || %s WHERE state = 'live'", [EVE])
    live = len(installation.rows("SELECT 1 FROM documents WHERE state = 'live'"))
    revoke()
    report = audit(installation.settings, source)
    assert report.excess.postgres > live, "somebody lost a right at the source, and Eve never had one"
    assert audit(installation.settings, source).excess.postgres == 0
    for held in (installation.rows("SELECT permissions FROM documents"), installation.points()):
        assert not any(EVE in row["permissions"] for row in held)
    run = installation.sync(source)
    assert (run.error, run.counts.embedded) == (None, 0)
    assert installation.agrees()
    assert audit(installation.settings, source).repaired == 0
