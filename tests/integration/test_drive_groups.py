"""A Drive file that is shared with a nested Google group, from Google to the search, with the real connector, stores and HTTP interface.

With `pytest -s`, the seconds from leaving the group, through a sync of the directory, to the search that finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from resources.core.domain import SourceName
from resources.people.sync import sync_people
from resources.sources.drive.simulator import Drive
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow, web

ANN, EVE = "ann@acme.example", "eve@acme.example"


def test_a_file_shared_with_a_nested_group_is_found_by_its_members(
    installation: Installation, drive_site: DriveSite, bundled_model: Any, show: Callable[[str], None]
) -> None:
    drive = drive_site.drive
    for email in (ANN, EVE):
        drive.user(email)
    drive.group("all@acme.example", ["eng@acme.example"])
    drive.group("eng@acme.example", ["leads@acme.example"])
    drive.group("leads@acme.example", [ANN])
    file = drive.file("plan.txt", drive.my_drive, "The ferry leaves at nine.")
    drive.share(file, "group:all@acme.example")
    follow(installation, drive_token=Drive.token, drive_api_url=drive_site.url, google_directory_api_url=drive_site.url)
    assert installation.sync(SourceName.GOOGLE_DRIVE).error is None
    with web(installation, bundled_model) as running:
        assert running.titles("ferry", ANN) == []
        sync_people(installation.settings)
        assert running.titles("ferry", ANN) == ["plan.txt"]
        assert running.titles("ferry", EVE, "all@acme.example") == []
        drive.leave("leads@acme.example", ANN)
        began = time.monotonic()
        sync_people(installation.settings)
        assert running.titles("ferry", ANN) == []
        show(f"lost {time.monotonic() - began:.2f} s after the directory's sync began")
