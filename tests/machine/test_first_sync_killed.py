"""A first sync of a large drive, killed at random moments: it resumes where it stopped and downloads nothing twice."""

from __future__ import annotations

import time
from random import Random

import pytest

from assets.raw import collect
from resources.core.domain import SourceName
from resources.sources import open_source
from resources.syncs.syncing import open_sync
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import Worker, follow

FOLDERS = 50
KILLS = 3
SECONDS = 120


@pytest.mark.parametrize("files", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_what_it_had_is_not_downloaded_again(installation: Installation, drive_site: DriveSite, files: int) -> None:
    drive = drive_site.drive
    drive.validate = None  # the simulator's own tests validate; here it would take time
    folders = [drive.folder(f"Folder {number}", drive.my_drive) for number in range(FOLDERS)]
    for number in range(files):
        drive.file(f"{number}.txt", folders[number % FOLDERS], f"The number of this file is {number}.\n")
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, drive_roots=("my_drive",))
    random = Random(7)
    in_flight = open_source(installation.settings, SourceName.GOOGLE_DRIVE).fetchers
    worker = Worker(installation.settings)
    try:
        for _ in range(KILLS):
            before, goal = downloads(drive), random.randint(files // 25, files // 4)
            worker.begin(SourceName.GOOGLE_DRIVE)
            deadline = time.monotonic() + SECONDS
            while downloads(drive) < before + goal and time.monotonic() < deadline:
                time.sleep(0.002)
            worker.kill()
            assert before + goal <= downloads(drive) < files, "the sync was not killed in the middle"
    finally:
        worker.close()
    with open_sync(installation.settings, SourceName.GOOGLE_DRIVE, requested_by="test") as job:
        collect(job, open_source(installation.settings, SourceName.GOOGLE_DRIVE))
    # plus downloads in progress at each kill, and each sync asks for the root itself
    assert downloads(drive) <= files + KILLS * in_flight + KILLS + 1
    (row,) = installation.rows("SELECT count(*) AS live FROM documents WHERE state = 'live'")
    assert row["live"] == files
    (part,) = installation.rows("SELECT source_count FROM partitions WHERE partition = 'my_drive'")
    assert part["source_count"] == files


def downloads(drive: SimulatedDrive) -> int:
    """Return the number of files that the simulator was asked for: contents, and the root once for each sync."""
    return drive.calls["files.get"]
