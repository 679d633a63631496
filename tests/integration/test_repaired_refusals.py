"""A document that its source refused is indexed once the reason is gone, though its bytes are the same."""

from __future__ import annotations

import pytest

from resources.core.domain import SourceName
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow


@pytest.mark.parametrize("known", [False, True])
def test_a_repaired_sidecar_brings_its_document_back(installation: Installation, known: bool) -> None:
    file = installation.write("plan.txt", "The plan of the otters.")
    if known:
        installation.sync()
    sidecar = file.with_name("plan.txt.meta.json")
    sidecar.write_text("{no JSON")
    installation.sync()
    assert installation.points() == []
    sidecar.write_text('{"permissions": ["ada@acme.example"]}')
    installation.sync()
    assert [point["permissions"] for point in installation.points()] == [["ada@acme.example"]]


def test_a_raised_limit_brings_a_document_back(installation: Installation) -> None:
    installation.write("plan.txt", "The plan of the otters.")
    settings = installation.settings
    installation.settings = settings.model_copy(update={"max_file_bytes": 10})
    installation.sync()
    assert installation.points() == []
    installation.settings = settings
    installation.sync()
    assert len(installation.points()) == 1


def test_a_raised_limit_brings_a_file_of_drive_back(installation: Installation, drive_site: DriveSite) -> None:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    drive_site.drive.file("plan.txt", drive_site.drive.my_drive, "The plan of the otters.")
    settings = installation.settings
    installation.settings = settings.model_copy(update={"max_file_bytes": 10})
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert installation.points() == []
    installation.settings = settings
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert len(installation.points()) == 1


def test_a_file_of_drive_that_may_be_downloaded_again_comes_back(
    installation: Installation, drive_site: DriveSite
) -> None:
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    drive = drive_site.drive
    plan = drive.file("plan.txt", drive.my_drive, "The plan of the otters.")
    drive.allow_download(plan, allowed=False)
    installation.sync(SourceName.GOOGLE_DRIVE)
    (row,) = installation.rows("SELECT state, reason FROM documents")
    assert (row["state"], row["reason"]) == ("skipped", "Its owner, or Google, does not allow it to be downloaded.")
    drive.allow_download(plan, allowed=True)
    installation.sync(SourceName.GOOGLE_DRIVE)
    assert len(installation.points()) == 1
