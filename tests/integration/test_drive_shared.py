"""The root `shared_with_me`: what other people shared with the account, and nothing that another root holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resources.settings import Settings
from tests.fixtures.drive import DriveSite, service_account_file
from tests.fixtures.drive_mirror import Mirror

ME, ZOE, BOB = "sync@larkmoor.example", "zoe@other.example", "bob@larkmoor.example"
SHARED = "shared_with_me"


class Shared:
    """A file and a folder of another person's, shared with the account, besides what is not."""

    def __init__(self, site: DriveSite, home: Path, roots: tuple[str, ...] = ("my_drive", SHARED)) -> None:
        drive = self.drive = site.drive
        self.mine = drive.file("mine.txt", drive.my_drive, "mine")
        self.note = drive.file("note.txt", None, "a note of hers", owner=ZOE)
        self.plans = drive.folder("Plans", None, owner=ZOE)
        self.deep = drive.folder("2026", self.plans, owner=ZOE)
        self.plan = drive.file("plan.md", self.deep, "# Heron", "text/markdown", owner=ZOE)
        self.kept = Mirror(
            Settings(
                _env_file=None, home=home, drive_api_url=site.url, drive_roots=roots, retry_seconds=(0.0, 0.0, 0.0),
                google_service_account_file=service_account_file(home, site.url), google_subject=ME,
            )
        )  # fmt: skip

    def found(self) -> dict[str, str]:
        """Return the partition of every document."""
        return {one: item.partition for one, item in self.kept.items().items()}


@pytest.fixture
def shared(drive_site: DriveSite, tmp_path: Path) -> Shared:
    return Shared(drive_site, tmp_path)


def test_files_and_folders_that_others_share_are_found(shared: Shared) -> None:
    shared.kept.sync()
    assert shared.found() == {shared.mine: "my_drive", shared.note: SHARED, shared.plan: SHARED}
    assert shared.kept.titles[SHARED] == "Shared with me"
    plan = shared.kept.items()[shared.plan]
    assert (plan.path, plan.owner) == ("Shared with me/Plans/2026/plan.md", ZOE)
    assert plan.collection_ids == (shared.deep, shared.plans, SHARED)
    assert shared.kept.readers(shared.plan) == {ME, ZOE}
    assert shared.kept.readers(shared.mine) == {ME}
    assert shared.kept.fetch(shared.plan) == b"# Heron"


def test_changes_and_ends_of_sharing_follow_at_the_next_sync(shared: Shared) -> None:
    drive = shared.drive
    shared.kept.sync()
    versions = dict(shared.kept.versions)
    shared.kept.sync()
    assert dict(shared.kept.versions) == versions
    drive.edit(shared.note, "another note of hers")
    drive.edit(shared.plan, "# Otter")
    added = drive.file("more.txt", shared.plans, "more", owner=ZOE)
    shared.kept.sync()
    assert shared.found() == {shared.mine: "my_drive", **dict.fromkeys((shared.note, shared.plan, added), SHARED)}
    assert shared.kept.fetch(shared.plan) == b"# Otter"
    drive.lose_file(shared.note)
    drive.delete(shared.plan)
    shared.kept.sync()
    assert shared.found() == {shared.mine: "my_drive", added: SHARED}
    drive.lose_file(shared.plans)
    shared.kept.sync()
    assert shared.found() == {shared.mine: "my_drive"}


def test_what_another_root_holds_stays_there(drive_site: DriveSite, tmp_path: Path) -> None:
    shared = Shared(drive_site, tmp_path, roots=("my_drive", SHARED))
    shared.kept.settings = shared.kept.settings.model_copy(update={"drive_roots": (shared.plans, SHARED)})
    for _ in range(3):
        shared.kept.sync()
        assert shared.found() == {shared.plan: shared.plans, shared.note: SHARED}


def test_without_the_root_nothing_of_it_is_read(drive_site: DriveSite, tmp_path: Path) -> None:
    shared = Shared(drive_site, tmp_path, roots=("my_drive",))
    calls: Any = shared.kept.sync()
    assert shared.found() == {shared.mine: "my_drive"}
    assert calls["files.list"] == 2


def test_a_fault_in_the_middle_of_a_listing_deletes_nothing(shared: Shared) -> None:
    shared.kept.sync()
    before = shared.found()
    shared.drive.delete(shared.note)
    shared.kept.sync(stop=lambda partition, batch: partition == SHARED and batch.listing == "complete")
    assert set(shared.found()) == set(before)
    shared.kept.sync()
    assert set(shared.found()) == set(before) - {shared.note}
