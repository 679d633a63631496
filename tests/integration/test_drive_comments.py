"""Open comments on Docs are read where the setting asks for them, and followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assets.stages.parse import parse
from resources.settings import Settings
from tests.fixtures.drive import DriveSite
from tests.fixtures.drive_mirror import Mirror

ADA, BOB = "ada@larkmoor.example", "bob@larkmoor.example"


def mirror(site: DriveSite, home: Path, **more: Any) -> Mirror:
    given = {"drive_token": site.drive.token, "retry_seconds": (0.0, 0.0, 0.0), **more}
    return Mirror(Settings(_env_file=None, home=home, drive_api_url=site.url, **given))


@pytest.fixture
def kept(drive_site: DriveSite, tmp_path: Path) -> Mirror:
    return mirror(drive_site, tmp_path, drive_comments=True)


def test_comments_follow_the_text_with_their_authors_and_replies(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    doc = drive.file("Plan", drive.my_drive, "# Plan\n\nThe ferry leaves at nine.\n", "document")
    sheet = drive.file("Budget", drive.my_drive, {"A": [["a", 1]]}, "spreadsheet")
    kept.sync()
    bare = kept.fetch(doc)
    assert bare == b"# Plan\n\nThe ferry leaves at nine.\n"
    number = drive.comment(doc, ADA, "# Is that\nright?", "leaves at nine")
    drive.reply(doc, number, BOB, "It leaves at ten.")
    drive.comment(sheet, ADA, "Why?")
    kept.sync()
    assert (kept.versions[doc], kept.versions[sheet]) == (2, 1)
    text = parse(kept.fetch(doc), "text/markdown", title="Plan").text
    assert text.endswith("Comments\n\n- Ada on “leaves at nine”: # Is that right?\n  - Bob: It leaves at ten.")
    drive.reply(doc, number, ADA, "Done.", resolve=True)
    kept.sync()
    assert kept.fetch(doc) == bare


def test_many_comments_come_in_pages(kept: Mirror, drive_site: DriveSite) -> None:
    drive = drive_site.drive
    doc = drive.file("Plan", drive.my_drive, "# Plan\n", "document")
    for number in range(130):
        drive.comment(doc, ADA, f"remark {number}")
    kept.sync()
    assert kept.fetch(doc).count(b"- Ada: remark") == 130
    assert drive.calls["comments.list"] == 2


def test_the_setting_takes_effect_at_the_next_sync(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    doc = drive.file("Plan", drive.my_drive, "# Plan\n", "document")
    drive.comment(doc, ADA, "remark")
    off = mirror(drive_site, tmp_path)
    off.sync()
    assert (b"remark" in off.fetch(doc), drive.calls["comments.list"]) == (False, 0)
    off.settings = off.settings.model_copy(update={"drive_comments": True})
    off.sync()
    assert off.versions[doc] == 2
    assert b"remark" in off.fetch(doc)
