"""A Drive file that is shared with a nested Google group, from Google to the search, with the real connector, stores and HTTP interface.

With `pytest -s`, the seconds from leaving the group, through a sync of the directory, to the search that finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.people.sync import sync_people
from resources.servers.processes import free_port
from resources.stores.postgres import session
from serving.identity import api_keys
from simulators.drive import SimulatedDrive
from tests.fixtures.browser import running_browser
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.oidc_provider import running_provider
from tests.fixtures.serving import Running
from tests.fixtures.sign_in import Desk, settings_of
from tests.fixtures.step import follow, web

ANN, EVE = "ann@acme.example", "eve@acme.example"


def shared_file(drive_site: DriveSite) -> SimulatedDrive:
    """A file that is shared with a group, of which Ann is a member through two others."""
    drive = drive_site.drive
    for email in (ANN, EVE):
        drive.user(email)
    drive.group("all@acme.example", ["eng@acme.example"])
    drive.group("eng@acme.example", ["leads@acme.example"])
    drive.group("leads@acme.example", [ANN])
    file = drive.file("plan.txt", drive.my_drive, "The ferry leaves at nine.")
    drive.share(file, "group:all@acme.example")
    return drive


def test_a_file_shared_with_a_nested_group_is_found_by_its_members(
    installation: Installation, drive_site: DriveSite, bundled_model: Any, show: Callable[[str], None]
) -> None:
    drive = shared_file(drive_site)
    follow(
        installation,
        drive_token=SimulatedDrive.token,
        drive_api_url=drive_site.url,
        google_directory_api_url=drive_site.url,
    )
    assert installation.sync(SourceName.GOOGLE_DRIVE).error is None
    with web(installation, bundled_model) as running:
        assert running.titles("ferry", ANN) == ["plan.txt"]
        assert running.titles("ferry", EVE, "all@acme.example") == []
        drive.leave("leads@acme.example", ANN)
        began = time.monotonic()
        sync_people(installation.settings)
        assert running.titles("ferry", ANN) == []
        show(f"lost {time.monotonic() - began:.2f} s after the directory's sync began")


class Scim:
    """An identity provider that provisions Ann and the nested groups by SCIM."""

    def __init__(self, running: Running) -> None:
        with session(running.site.settings.postgres_dsn) as connection:
            key = api_keys.create(connection, "provisioner@acme.example", scim=True)
        self._http = running.http
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/scim+json"}
        person = self._made("/Users", userName=ANN, active=True)
        self._leads = self._made("/Groups", displayName="leads@acme.example", members=[{"value": person}])
        between = self._made("/Groups", displayName="eng@acme.example", members=[{"value": self._leads}])
        self._made("/Groups", displayName="all@acme.example", members=[{"value": between}])

    def _made(self, path: str, **fields: Any) -> str:
        kind = "User" if path == "/Users" else "Group"
        body = {"schemas": [f"urn:ietf:params:scim:schemas:core:2.0:{kind}"], **fields}
        return self._http.post(f"/scim/v2{path}", json=body, headers=self._headers).raise_for_status().json()["id"]

    def leave(self) -> None:
        body = {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
            "Operations": [{"op": "remove", "path": "members"}],
        }
        self._http.patch(f"/scim/v2/Groups/{self._leads}", json=body, headers=self._headers).raise_for_status()


@pytest.mark.parametrize("source", ["directory", "scim", "claim"])
def test_a_member_who_just_signed_in_finds_it_and_no_longer_after_leaving(
    source: str,
    installation: Installation,
    drive_site: DriveSite,
    bundled_model: Any,
    oidc_package: Path,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    drive, port = shared_file(drive_site), free_port()
    google = {"google_directory_api_url": drive_site.url} if source == "directory" else {}
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url, **google)
    assert installation.sync(SourceName.GOOGLE_DRIVE).error is None
    with (
        running_provider(oidc_package, f"http://127.0.0.1:{port}") as provider,
        running_browser(tmp_path / "profile") as browser,
    ):
        provider.person("ann", ANN, groups=["all@acme.example"] if source == "claim" else [])
        provider.person("eve", EVE)
        installation.settings = settings_of(installation.settings, provider.issuer, port, domains=["acme.example"])
        with web(installation, bundled_model, port) as running:
            desk = Desk(running.site, running, provider, browser)
            scim = Scim(running) if source == "scim" else None
            if source == "directory":
                sync_people(installation.settings)
            desk.sign_in("eve")
            assert desk.titles("ferry") == []
            browser.forget()
            desk.sign_in("ann")
            assert desk.titles("ferry") == ["plan.txt"]
            began = time.monotonic()
            if source == "directory":
                drive.leave("leads@acme.example", ANN)
                sync_people(installation.settings)
            elif scim is not None:
                scim.leave()
            else:
                provider.person("ann", ANN, groups=[])
                desk.age("refreshed_at")
            assert desk.titles("ferry") == []
            show(
                f"{source}: found at the first search after signing in, lost {time.monotonic() - began:.2f} s after leaving"
            )
