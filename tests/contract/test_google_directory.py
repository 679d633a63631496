"""The client of Google's directory, against the simulator, whose answers are checked against Google's description of the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.core.errors import AuthorizationError, RetryLaterError
from resources.settings import Settings
from resources.sources.drive.directory import SCOPES, GoogleDirectory, GoogleMember
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite, service_account_file


def settings_of(site: DriveSite, **more: object) -> Settings:
    given = {"drive_api_url": site.url, "google_directory_api_url": site.url, "retry_seconds": (0.0, 0.0)} | more
    return Settings.model_validate({"drive_token": SimulatedDrive.token} | given)


def client(site: DriveSite, **more: object) -> GoogleDirectory:
    return GoogleDirectory(settings_of(site, **more), sleep=lambda _: None)


def test_users_come_over_all_pages_with_their_state(drive_site: DriveSite) -> None:
    for number in range(1_203):
        drive_site.drive.user(f"p{number:04d}@acme.com", org_unit="/Sales" if number % 2 else "/")
    drive_site.drive.suspend("p0007@acme.com")
    drive_site.drive.user("Old@acme.com", "Old Hand", archived=True)
    found = {user.email: user for user in client(drive_site).users()}
    assert len(found) == 1_204
    assert [email for email, user in found.items() if not user.active] == ["old@acme.com", "p0007@acme.com"]
    assert (found["p0001@acme.com"].org_unit, found["old@acme.com"].name) == ("/Sales", "Old Hand")
    assert drive_site.drive.calls["users.list"] == 3


def test_groups_and_members_come_over_all_pages(drive_site: DriveSite) -> None:
    people = [f"p{number}@acme.com" for number in range(401)]
    drive_site.drive.group("eng@acme.com", ["everyone", "leads@acme.com", *people])
    drive_site.drive.group("leads@acme.com", ["eng@acme.com"])
    directory = client(drive_site)
    assert list(directory.groups()) == ["eng@acme.com", "leads@acme.com"]
    members = directory.members("eng@acme.com")
    assert members[:3] == [
        GoogleMember("CUSTOMER", ""),
        GoogleMember("GROUP", "leads@acme.com"),
        GoogleMember("USER", "p0@acme.com"),
    ]
    assert len(members) == 403
    assert directory.members("leads@acme.com") == [GoogleMember("GROUP", "eng@acme.com")]
    assert directory.members("gone@acme.com") == []
    assert directory.tally.calls["members.list"] == 5


def test_passing_faults_are_repeated_and_lasting_ones_are_raised(drive_site: DriveSite) -> None:
    drive_site.drive.user("ann@acme.com")
    directory = client(drive_site)
    for fault in ("rate_limit", "concurrency_limit", "server_error", "drop"):
        drive_site.faults.add(fault, match="users.list")
        assert [user.email for user in directory.users()] == ["ann@acme.com"]
    drive_site.faults.add("server_error", times=0, match="users.list")
    with pytest.raises(RetryLaterError, match="Google's directory is temporarily failing"):
        list(directory.users())


def test_an_account_that_may_not_list_users_is_named_with_the_setting(drive_site: DriveSite) -> None:
    drive_site.faults.add("lost_access", match="users.list")
    with pytest.raises(AuthorizationError, match="CONCORDANCE_GOOGLE_SUBJECT"):
        list(client(drive_site).users())
    with pytest.raises(AuthorizationError, match="CONCORDANCE_DRIVE_TOKEN"):
        list(client(drive_site, drive_token="wrong").users())


def test_a_service_account_needs_the_directorys_scopes_delegated(drive_site: DriveSite, tmp_path: Path) -> None:
    drive_site.drive.user("ann@acme.com")
    own = {
        "drive_token": None,
        "google_service_account_file": service_account_file(tmp_path, drive_site.url),
        "google_subject": "admin@acme.com",
    }
    drive_site.drive.sessions.delegated = {"https://www.googleapis.com/auth/drive.readonly"}
    with pytest.raises(AuthorizationError, match=r"unauthorized_client.*admin\.directory\.user\.readonly"):
        list(client(drive_site, **own).users())
    drive_site.drive.sessions.delegated.update(SCOPES)
    assert [user.email for user in client(drive_site, **own).users()] == ["ann@acme.com"]
