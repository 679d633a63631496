"""Shortcuts to folders of a simulated Drive: what is in a folder outside every root appears below the shortcut's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resources.core.errors import ConcordanceError
from resources.settings import Settings
from tests.fixtures.drive import DriveSite
from tests.fixtures.drive_mirror import Mirror

ZOE, ADA = "zoe@other.example", "ada@larkmoor.example"


def mirror(site: DriveSite, home: Path, **settings: Any) -> Mirror:
    given = {"drive_token": site.drive.token, "retry_seconds": (0.0, 0.0), "drive_follow_shortcuts": True, **settings}
    return Mirror(Settings(_env_file=None, home=home, drive_api_url=site.url, **given))


class Shared:
    """A folder in My Drive, and a tree of folders that somebody else shared with the account."""

    def __init__(self, site: DriveSite) -> None:
        drive = self.drive = site.drive
        self.plans = drive.folder("Plans", drive.my_drive)
        self.own = drive.file("own.txt", self.plans, "own")
        self.hers = drive.folder("Hers", None, owner=ZOE)
        drive.share(self.hers, f"user:{drive.account}", "writer")
        self.deep = drive.folder("Deep", self.hers)
        self.note = drive.file("note.txt", self.hers, "a note")
        self.deeper = drive.file("deeper.txt", self.deep, "deeper")


@pytest.fixture
def shared(drive_site: DriveSite) -> Shared:
    return Shared(drive_site)


def paths(kept: Mirror) -> dict[str, str]:
    return {one: item.path for one, item in kept.items().items()}


@pytest.mark.parametrize("first", [True, False], ids=["listed", "followed"])
def test_a_linked_folder_appears_at_the_place_of_the_shortcut(
    first: bool, drive_site: DriveSite, shared: Shared, tmp_path: Path
) -> None:
    drive = shared.drive
    kept = mirror(drive_site, tmp_path)
    if not first:
        kept.sync()
    shortcut = drive.shortcut(shared.hers, shared.plans, "to hers")
    kept.sync()
    assert paths(kept) == {
        shared.own: "My Drive/Plans/own.txt",
        shared.note: "My Drive/Plans/Hers/note.txt",
        shared.deeper: "My Drive/Plans/Hers/Deep/deeper.txt",
    }
    item = kept.items()[shared.deeper]
    assert item.collection_ids == (shared.deep, shared.hers, shared.plans, drive.my_drive)
    assert kept.readers(shared.note) == drive.readers(shared.note) == {ZOE, drive.account}
    assert shortcut not in kept.documents
    drive.trash(shortcut)
    kept.sync()
    assert paths(kept) == {shared.own: "My Drive/Plans/own.txt"}
    assert kept.sync() == kept.sync()


@pytest.mark.parametrize("limited", [False, True], ids=["in a folder", "in a folder that inherits no permissions"])
def test_known_readers_are_kept_where_the_account_may_not_list_them(
    drive_site: DriveSite, shared: Shared, tmp_path: Path, *, limited: bool
) -> None:
    drive = shared.drive
    if limited:
        drive.limit(shared.plans)
    theirs = drive.folder("Theirs", None, owner=ZOE)
    note = drive.file("theirs.txt", theirs, "theirs")
    drive.share(theirs, "user:stranger@other.example")
    drive.share(shared.own, f"user:{ADA}")
    drive.share(theirs, f"user:{ADA}")
    drive.shortcut(theirs, shared.plans, "to theirs")
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    assert kept.readers(note) == {ZOE, drive.account, ADA}
    drive.unshare(theirs, f"user:{ADA}")
    kept.sync()
    assert kept.readers(note) == {ZOE, drive.account}


def test_a_linked_shared_drive_has_its_name(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    team = drive.shared_drive("Team", {})
    plan = drive.file("plan.txt", team, "a plan")
    drive.shortcut(team, shared.plans, "to the team")
    root = drive.shared_drive("Root", {})
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive", root))
    kept.sync()
    assert paths(kept)[plan] == "My Drive/Plans/Team/plan.txt"


def test_what_happens_in_a_linked_folder_is_followed(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    team = drive.shared_drive("Team", {})
    elsewhere = drive.folder("Elsewhere", team)
    far = drive.file("far.txt", elsewhere, "far")
    drive.shortcut(elsewhere, shared.plans, "to a shared drive that is no root")
    kept = mirror(drive_site, tmp_path, drive_roots=("my_drive",))
    kept.sync()
    assert far in kept.items()
    new = drive.file("new.txt", drive.folder("New", elsewhere), "new")
    drive.edit(far, "farther")
    kept.sync()
    assert kept.items()[new].path == "My Drive/Plans/Elsewhere/New/new.txt"
    assert kept.fetch(far) == b"farther"
    drive.share(new, "user:ada@larkmoor.example")
    kept.sync()
    assert kept.readers(new) == drive.readers(new)
    drive.trash(new)
    drive.lose_drive(team)
    kept.sync()
    assert kept.items().keys() == {shared.own}
    drive.regain_drive(team)
    kept.sync()
    assert kept.items().keys() == {shared.own, far}


def test_a_folder_of_a_shared_drive_without_membership(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    """The drive itself cannot be searched; a refusal of that must not pass for the loss of the root with the shortcut."""
    drive = shared.drive
    team = drive.shared_drive("Team", {"user:ada@larkmoor.example": "organizer"})
    offers = drive.folder("Offers", team)
    offer = drive.file("offer.txt", drive.folder("Old", offers), "an offer")
    drive.share(offers, f"user:{drive.account}", "writer")
    drive.remove_member(team, f"user:{drive.account}")
    drive.shortcut(offers, shared.plans, "offers")
    kept = mirror(drive_site, tmp_path)
    for _ in range(2):
        kept.sync()
        assert paths(kept) == {
            shared.own: "My Drive/Plans/own.txt",
            offer: "My Drive/Plans/Offers/Old/offer.txt",
        }
    drive.unshare(offers, f"user:{drive.account}")
    kept.sync()
    assert kept.items().keys() == {shared.own}


def test_shortcuts_in_circles_end(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    other = drive.folder("Other", None, owner=ZOE)
    theirs = drive.file("theirs.txt", other, "theirs")
    drive.shortcut(shared.plans, shared.plans, "to itself")
    drive.shortcut(drive.my_drive, shared.plans, "to an ancestor")
    first = drive.shortcut(shared.hers, shared.plans, "to hers")
    drive.shortcut(shared.hers, shared.deep, "to the folder above")
    drive.shortcut(other, shared.deep, "to the other")
    drive.shortcut(shared.hers, other, "and back")
    kept = mirror(drive_site, tmp_path)
    for _ in range(2):
        kept.sync()
        assert paths(kept) == {
            shared.own: "My Drive/Plans/own.txt",
            shared.note: "My Drive/Plans/Hers/note.txt",
            shared.deeper: "My Drive/Plans/Hers/Deep/deeper.txt",
            theirs: "My Drive/Plans/Hers/Deep/Other/theirs.txt",
        }
    drive.trash(first)
    kept.sync()
    assert kept.items().keys() == {shared.own}, "folders that link to each other only are in no root"


def test_a_folder_with_two_shortcuts_is_there_once(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    one = drive.shortcut(shared.hers, shared.plans, "one")
    two = drive.shortcut(shared.hers, drive.shared_drive("Team", {}), "two")
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    assert kept.items().keys() == {shared.own, shared.note, shared.deeper}
    assert kept.versions[shared.note] == 1
    for shortcut in (one, two):
        drive.trash(shortcut)
        kept.sync()
        assert (shared.note in kept.items()) is (shortcut == one)


def test_a_folder_inside_a_root_stays_at_its_own_place(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    team = drive.shared_drive("Team", {})
    offers = drive.folder("Offers", team)
    offer = drive.file("offer.txt", offers, "an offer")
    shortcut = drive.shortcut(offers, shared.plans, "offers")
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    assert kept.items()[offer].path == "Team/Offers/offer.txt"
    assert shortcut not in kept.documents


def test_without_the_setting_it_is_skipped_once_with_its_name(
    drive_site: DriveSite, shared: Shared, tmp_path: Path
) -> None:
    shortcut = shared.drive.shortcut(shared.hers, shared.plans, "to hers")
    kept = mirror(drive_site, tmp_path, drive_follow_shortcuts=False)
    kept.sync()
    assert kept.items().keys() == {shared.own}
    assert kept.reasons().keys() == {shortcut}
    assert "CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS=true" in kept.reasons()[shortcut]
    kept.settings = mirror(drive_site, tmp_path).settings
    kept.sync()
    assert kept.items().keys() == {shared.own, shared.note, shared.deeper}
    assert kept.reasons() == {}


def test_a_killed_or_refused_sync_continues(drive_site: DriveSite, shared: Shared, tmp_path: Path) -> None:
    drive = shared.drive
    kept = mirror(drive_site, tmp_path)
    kept.sync()
    drive.shortcut(shared.hers, shared.plans, "to hers")
    drive.faults.random(3, 1.0)
    with pytest.raises(ConcordanceError):
        kept.sync()
    drive.faults.clear()
    for kill in range(1, 5):
        left = [kill]

        def stop(*_: Any, left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] == 0

        kept.sync(stop=stop)
    kept.sync()
    assert kept.items().keys() == {shared.own, shared.note, shared.deeper}
    assert kept.versions[shared.note] == 1
