"""Everybody's My Drive through the whole pipeline: what is searchable after people share, transfer, fail and leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import Batch, Item, SourceName, State
from resources.core.errors import AbortSyncError
from resources.people.sync import sync_people
from resources.settings import Settings
from resources.sources.drive.source import Drive
from resources.stores.memory import PostgresMemory
from tests.fixtures.drive import DriveSite, partition_of, service_account_file
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow

ADMIN, ADA, BOB, CY = (f"{name}@larkmoor.example" for name in ("sync", "ada", "bob", "cy"))


class Office:
    """Three people with two files each in an installation that reads everybody's Drive."""

    def __init__(self, installation: Installation, site: DriveSite, home: Path) -> None:
        self.installation = installation
        self.drive = site.drive
        for email in (ADMIN, ADA, BOB, CY):
            self.drive.user(email)
        self.folder = self.drive.folder("Work", self.drive.tops[ADA])
        self.files = {
            f"{email} {number}": self.drive.file(
                f"{email} {number}.txt",
                self.folder if email == ADA else self.drive.tops[email],
                f"{email} wrote {number}",
            )
            for email in (ADA, BOB, CY)
            for number in (1, 2)
        }
        follow(
            installation,
            drive_api_url=site.url,
            google_directory_api_url=site.url,
            google_service_account_file=service_account_file(home, site.url),
            google_subject=ADMIN,
            drive_users=("*",),
        )

    def sync(self) -> Any:
        job = self.installation.sync(SourceName.GOOGLE_DRIVE)
        assert self.installation.agrees()
        return job

    def read_by(self, email: str) -> set[str]:
        rows = self.installation.rows("SELECT title FROM documents WHERE %s = ANY(permissions)", email)
        return {row["title"].removesuffix(".txt") for row in rows}

    def give_away(self, email: str, to: str) -> None:
        """Give somebody another address, and the one they had to a new account, and read the directory."""
        self.drive.rename_user(email, to)
        self.drive.user(email, "Another")
        sync_people(self.installation.settings)

    def states(self) -> dict[str, str]:
        rows = self.installation.rows("SELECT source_id, state FROM documents")
        names = {file: name for name, file in self.files.items()}
        return {names[row["source_id"]]: row["state"] for row in rows}

    def readers(self) -> dict[str, set[str]]:
        """Return who may find each passage in the index."""
        return {point["title"].removesuffix(".txt"): set(point["permissions"]) for point in self.installation.points()}

    def partition(self, email: str) -> str:
        return partition_of(self.drive, email)


class DuringFetch(Drive):
    """Does something while a file is fetched."""

    def __init__(self, settings: Settings, file: str, action: Callable[[], None]) -> None:
        super().__init__(settings, PostgresMemory(settings.postgres_dsn))
        self._file = file
        self._action = action

    def fetch(self, item: Item) -> Iterator[bytes]:
        if item.source_id == self._file:
            self._action()
        yield from super().fetch(item)


class AfterEachBatch(Drive):
    """Does something when a batch has been saved."""

    def __init__(self, settings: Settings, action: Callable[[], None]) -> None:
        super().__init__(settings, PostgresMemory(settings.postgres_dsn))
        self._action = action

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        for batch in super().changes(partition, cursor):
            yield batch
            self._action()


@pytest.fixture
def office(installation: Installation, drive_site: DriveSite, tmp_path: Path) -> Office:
    return Office(installation, drive_site, tmp_path)


def test_who_leaves_is_hidden_at_once_and_nothing_is_fetched_when_they_return(office: Office) -> None:
    office.sync()
    assert office.readers() == {name: {name.partition(" ")[0]} for name in office.files}
    office.drive.suspend(ADA)
    office.sync()
    hidden = {name for name, state in office.states().items() if state == State.LOST_ACCESS}
    assert hidden == {f"{ADA} 1", f"{ADA} 2"}
    assert not hidden & office.readers().keys()
    office.sync()
    office.drive.reinstate(ADA)
    before = office.drive.calls["files.get"]
    office.sync()
    assert set(office.states().values()) == {State.LIVE}
    assert office.installation.last["raw"]["fetched"] == 0
    assert office.drive.calls["files.get"] - before <= 2  # the root and its readers


def test_what_is_transferred_when_somebody_leaves_stays_one_document(office: Office) -> None:
    office.sync()
    before = office.installation.rows("SELECT doc_id, source_id FROM documents ORDER BY 1")
    office.drive.transfer(office.folder, BOB)
    office.drive.suspend(ADA)
    office.sync()
    assert set(office.states().values()) == {State.LIVE}
    assert office.installation.last["raw"]["fetched"] == 0
    assert office.readers()[f"{ADA} 1"] == {BOB}
    assert office.installation.rows("SELECT doc_id, source_id FROM documents ORDER BY 1") == before
    rows = office.installation.rows("SELECT DISTINCT partition FROM documents ORDER BY 1")
    assert [row["partition"] for row in rows] == sorted(map(office.partition, (BOB, CY)))


def test_an_address_that_has_changed_finds_nothing_at_once_and_the_new_one_everything_with_the_next_sync(
    office: Office,
) -> None:
    drive, new = office.drive, "cy.long@larkmoor.example"
    team = drive.shared_drive("Team", {})
    plans = drive.folder("Plans", team)
    drive.file("plan.txt", plans, "the plan")
    for shared in (office.files[f"{ADA} 1"], plans):
        drive.share(shared, f"user:{CY}")
    office.sync()
    names = {f"{ADA} 1", f"{CY} 1", f"{CY} 2", "plan"}

    assert office.read_by(CY) == names
    office.give_away(CY, new)
    assert office.read_by(CY) == set()
    assert office.readers()[f"{BOB} 1"] == {BOB}
    office.sync()
    assert (office.read_by(CY), office.read_by(new)) == (set(), names)
    assert office.readers()["plan"] == {ADMIN, new}
    assert office.installation.last["raw"]["fetched"] == 0
    calls = drive.calls["files.list"]
    sync_people(office.installation.settings)
    office.sync()
    assert drive.calls["files.list"] == calls


def test_an_address_that_changes_hands_while_drive_is_read_finds_nothing_of_the_former_holder(office: Office) -> None:
    plans = office.drive.folder("Plans", office.drive.shared_drive("Team", {}))
    for shared in (office.files[f"{ADA} 1"], plans):
        office.drive.share(shared, f"user:{CY}")
    first, _ = (office.drive.file(f"plan {number}.txt", plans, f"plan {number}") for number in range(2))
    new, names = "cy.long@larkmoor.example", {f"{ADA} 1", f"{CY} 1", f"{CY} 2", "plan 0", "plan 1"}
    source = DuringFetch(office.installation.settings, first, lambda: office.give_away(CY, new))
    office.installation.sync(SourceName.GOOGLE_DRIVE, port=source)
    assert office.read_by(CY) == set()
    office.sync()
    assert (office.read_by(CY), office.read_by(new)) == (set(), names)
    calls = office.drive.calls["files.list"]
    office.sync()
    assert office.drive.calls["files.list"] == calls


def test_a_listing_that_an_address_left_in_between_is_not_continued(office: Office) -> None:
    plans = office.drive.folder("Plans", office.drive.shared_drive("Team", {}))
    office.drive.share(plans, f"user:{CY}")
    plan = office.drive.file("plan.txt", plans, "the plan")

    def stop() -> None:
        raise AbortSyncError("stopped")

    office.installation.sync(SourceName.GOOGLE_DRIVE, port=DuringFetch(office.installation.settings, plan, stop))
    assert "plan" not in office.readers()
    office.give_away(CY, "cy.long@larkmoor.example")
    read: set[str] = set()
    source = AfterEachBatch(office.installation.settings, lambda: read.update(office.read_by(CY)))
    office.installation.sync(SourceName.GOOGLE_DRIVE, port=source)
    assert read == set()
    assert "plan" in office.read_by("cy.long@larkmoor.example")


def test_a_suspended_user_who_gets_another_address_keeps_their_files(office: Office) -> None:
    new = "cy.long@larkmoor.example"
    office.drive.share(office.files[f"{ADA} 1"], f"user:{CY}")
    office.sync()
    office.drive.suspend(CY)
    sync_people(office.installation.settings)
    office.drive.rename_user(CY, new)
    sync_people(office.installation.settings)
    assert office.read_by(CY) == set()
    office.drive.reinstate(new)
    office.sync()
    assert f"{ADA} 1" in office.read_by(new)


def test_a_user_who_is_refused_is_reported_and_the_others_are_synced(office: Office) -> None:
    office.sync()
    office.drive.workspace.users[ADA].no_drive = True
    office.drive.workspace.users[BOB].no_delegation = True
    office.drive.rename(office.files[f"{CY} 1"], "renamed.txt")
    job = office.installation.sync(SourceName.GOOGLE_DRIVE)
    assert "renamed" in office.readers()
    assert office.states()[f"{ADA} 1"] == State.LOST_ACCESS
    assert office.states()[f"{BOB} 1"] == State.LIVE  # hidden once its permissions are too old
    assert job.error is not None
    assert BOB in job.error
    assert ADA not in job.error
    told = office.installation.rows("SELECT reason FROM sync_errors WHERE source_id = %s", office.partition(ADA))
    assert "disabled Drive apps" in told[0]["reason"]
