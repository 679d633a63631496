"""A listing of Drive that starts over, because the account or what it may see has changed, forgets what the one before has shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from resources.core.domain import Batch, Item, SourceName
from resources.core.errors import AbortSyncError
from resources.core.ports import Source
from resources.sources import open_source
from resources.sources.drive import listing
from resources.sources.drive.faults import NotFoundError
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow

SHARED = "shared_with_me"


class Interrupted:
    """A source whose syncs end before the last batch of a partition's listing."""

    def __init__(self, port: Source) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        for batch in self._port.changes(partition, cursor):
            if batch.listing == "complete":
                raise AbortSyncError("The sync was interrupted.")
            yield batch


def interrupt(installation: Installation) -> None:
    port: Any = Interrupted(open_source(installation.settings, SourceName.GOOGLE_DRIVE))
    with pytest.raises(AbortSyncError, match="interrupted"):
        installation.sync(SourceName.GOOGLE_DRIVE, port=port)


def states(installation: Installation) -> dict[str, str]:
    return {row["title"]: row["state"] for row in installation.rows("SELECT title, state FROM documents")}


def test_a_file_deleted_before_a_listing_starts_over_is_deleted(
    installation: Installation, drive_site: DriveSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FIRST_PAGE", 1)
    drive = drive_site.drive
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    files = {
        name: drive.file(f"{name}.txt", drive.my_drive, f"About {name}.") for name in ("heron", "otter", "kingfisher")
    }
    interrupt(installation)
    (gone, *_) = states(installation)
    drive.delete(files[gone.removesuffix(".txt")])
    installation.settings = installation.settings.model_copy(update={"drive_comments": True})
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert states(installation) == {f"{name}.txt": "deleted" if f"{name}.txt" == gone else "live" for name in files}
    assert {point["title"] for point in installation.points()} == {f"{name}.txt" for name in files} - {gone}
    assert installation.agrees()


def test_a_file_that_a_listing_does_not_show_yet_is_not_gone(installation: Installation, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    old = drive.file("old.txt", drive.my_drive, "About herons.")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.lag(3600)
    drive.file("new.txt", drive.my_drive, "About otters.")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.delete(old)
    drive.faults.add("bad_page_token", match="changes.list")
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert states(installation)["new.txt"] == "live"
    drive.lag(0)
    for _ in range(2):
        drive.faults.add("bad_page_token", match="changes.list")
        installation.sync(SourceName.GOOGLE_DRIVE)
        assert states(installation) == {"new.txt": "live", "old.txt": "deleted"}
    assert installation.agrees()


class Unanswered:
    """A source that is not told whether a document is still there."""

    def __init__(self, port: Source) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def missing(self, *_: Any) -> list[Item]:
        raise NotFoundError


def test_a_file_that_a_listing_lacks_and_drive_says_nothing_of_waits_for_the_next_sync(
    installation: Installation, drive_site: DriveSite
) -> None:
    drive = drive_site.drive
    shared = drive.shared_drive("Birds", {drive.account: "organizer"})
    follow(
        installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, drive_roots=("my_drive", shared)
    )
    for parent in (drive.my_drive, shared):
        drive.file(f"{parent}.txt", parent, "About herons.")
    gone = drive.file("gone.txt", drive.my_drive, "About otters.")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.delete(gone)
    drive.file("new.txt", shared, "About kingfishers.")
    installation.settings = installation.settings.model_copy(update={"drive_comments": True})
    port: Any = Unanswered(open_source(installation.settings, SourceName.GOOGLE_DRIVE))
    report = installation.sync(SourceName.GOOGLE_DRIVE, port=port)
    assert "deleted from Drive" in (report.error or "")
    assert (states(installation)["gone.txt"], states(installation)["new.txt"]) == ("live", "live")
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert states(installation)["gone.txt"] == "deleted"
    assert installation.agrees()


def test_a_file_that_a_listing_does_not_show_yet_and_that_is_refused_by_now_is_not_gone(
    installation: Installation, drive_site: DriveSite
) -> None:
    drive = drive_site.drive
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.lag(3600)
    new = drive.file("new.txt", drive.my_drive, "About otters.")
    installation.sync(SourceName.GOOGLE_DRIVE)
    drive.allow_download(new, allowed=False)
    drive.faults.add("bad_page_token", match="changes.list")
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert states(installation) == {"new.txt": "skipped"}
    assert installation.agrees()


def test_what_is_no_longer_shared_after_an_interrupted_listing_is_gone_with_the_next(
    installation: Installation, drive_site: DriveSite
) -> None:
    drive = drive_site.drive
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, drive_roots=(SHARED,))
    note = drive.file("note.txt", None, "A note of hers.", owner="zoe@other.example")
    drive.file("plan.txt", None, "A plan of hers.", owner="zoe@other.example")
    installation.sync(SourceName.GOOGLE_DRIVE)
    interrupt(installation)
    drive.lose_file(note)
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert states(installation) == {"note.txt": "deleted", "plan.txt": "live"}
