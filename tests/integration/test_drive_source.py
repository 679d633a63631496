"""The Drive connector against a simulated Drive: whatever happens there, what the connector reports comes to the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from resources.settings import Settings
from tests.fixtures.drive import DriveSite
from tests.fixtures.drive_mirror import Mirror

ME = "sync@larkmoor.example"
MEMBERS = {"user:ada@larkmoor.example": "writer", "group:staff@larkmoor.example": "reader"}


def mirror(site: DriveSite, home: Path, **settings: Any) -> Mirror:
    given = {"drive_token": site.drive.token, "retry_seconds": (0.0, 0.0, 0.0), **settings}
    return Mirror(Settings(_env_file=None, home=home, drive_api_url=site.url, **given))


@pytest.fixture
def kept(drive_site: DriveSite, tmp_path: Path) -> Mirror:
    return mirror(drive_site, tmp_path)


def agrees(kept: Mirror, site: DriveSite, *roots: str) -> None:
    """What can be found is what there is, by whom it may be found, and nothing else."""
    drive = site.drive
    truth: dict[str, set[str]] = {}
    for root in roots or (drive.my_drive, *drive.drives):
        truth |= {
            one: drive.readers(one)
            for one, file in drive.everything(root).items()
            if not file.mime_type.endswith(".shortcut")
        }
    assert {one: kept.readers(one) for one in kept.items()} == truth


def test_first_listing(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    plans = drive.folder("Plans", drive.my_drive)
    deep = drive.folder("2026", plans)
    note = drive.file("note.md", deep, "# Heron", "text/markdown", owner="ada@larkmoor.example")
    doc = drive.file("Budget", plans, {"Q1": [["a", 1]], "Q2": [["b", 2]]}, "spreadsheet")
    film = drive.file("film.mp4", plans, b"\0", "video/mp4")
    sales = drive.shared_drive("Sales", MEMBERS)
    offer = drive.file("offer.txt", drive.folder("Offers", sales), "An offer")
    kept.sync()
    agrees_but(kept, drive_site, film)
    assert kept.titles == {"my_drive": "My Drive", sales: "Sales"}
    assert ".mp4" in kept.reasons()[film]
    item = kept.items()[note]
    assert item.path == "My Drive/Plans/2026/note.md"
    assert item.collection_ids == (deep, plans, drive.my_drive)
    assert item.url is not None
    assert item.created_at is not None
    assert kept.items()[doc].mime_type.endswith("spreadsheetml.sheet")
    assert kept.items()[offer].path == "Sales/Offers/offer.txt"
    assert kept.items()[offer].tags == {"sharing": "shared"}
    assert kept.fetch(note) == b"# Heron"
    assert kept.fetch(doc).startswith(b"PK")


def agrees_but(kept: Mirror, site: DriveSite, *refused: str) -> None:
    hidden = {one: kept.documents.pop(one) for one in refused}
    drive = site.drive
    truth = {
        one: drive.readers(one)
        for root in (drive.my_drive, *drive.drives)
        for one in drive.everything(root)
        if one not in refused
    }
    assert {one: kept.readers(one) for one in kept.items()} == truth
    kept.documents |= hidden


def test_nothing_changed_costs_two_calls_a_feed(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    sales = drive.shared_drive("Sales", MEMBERS)
    for number in range(30):
        drive.file(f"{number}.txt", drive.folder(f"f{number}", sales), f"text {number}")
    kept.sync()
    kept.sync()
    assert kept.sync() == Counter({"drives.list": 1, "changes.list": 2, "permissions.list": 1})
