"""The simulated Drive through Google's own client: permissions and the trash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulators.drive import FOLDER, SimulatedDrive
from simulators.drive.directory import users_list
from tests.fixtures.drive import ALL_DRIVES, DriveSite, names, refused


@pytest.fixture
def drive(drive_site: DriveSite) -> SimulatedDrive:
    return drive_site.drive


@pytest.fixture
def api(drive_site: DriveSite) -> Any:
    return drive_site.service()


def test_permissions_run_down_the_tree(drive: SimulatedDrive, api: Any) -> None:
    folder = drive.folder("Reports", drive.my_drive)
    file = drive.file("Note.txt", folder, "x")
    drive.share(folder, "group:staff@larkmoor.example", "writer")
    drive.share(file, "user:ada@larkmoor.example", "commenter")
    drive.share(file, "domain:larkmoor.example", discoverable=True)
    drive.share(file, "anyone")
    found = api.files().get(fileId=file, fields="permissions,permissionIds").execute()
    by_type = {permission["type"]: permission for permission in found["permissions"] if permission["role"] != "owner"}
    assert by_type["group"]["emailAddress"] == "staff@larkmoor.example"
    assert by_type["group"]["permissionDetails"] == [{"permissionType": "file", "role": "writer", "inherited": True}]
    assert not by_type["user"]["permissionDetails"][0]["inherited"]
    assert (by_type["domain"]["domain"], by_type["domain"]["allowFileDiscovery"]) == ("larkmoor.example", True)
    assert (by_type["anyone"]["id"], by_type["anyone"]["allowFileDiscovery"]) == ("anyoneWithLink", False)
    assert found["permissionIds"] == [permission["id"] for permission in found["permissions"]]
    assert drive.readers(file) == {
        drive.account, "group:staff@larkmoor.example", "ada@larkmoor.example", "domain:larkmoor.example",
    }  # fmt: skip
    drive.move(file, drive.my_drive)
    assert "group:staff@larkmoor.example" not in drive.readers(file)
    drive.unshare(file, "user:ada@larkmoor.example")
    assert drive.readers(file) == {drive.account, "domain:larkmoor.example"}


def test_permissions_in_shared_drives_come_in_pages(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {f"user:p{number}@larkmoor.example": "reader" for number in range(120)})
    file = drive.file("Note.txt", plans, "x")
    drive.share(file, "user:p0@larkmoor.example", "writer")
    ask = {"fileId": file, "supportsAllDrives": True, "fields": "nextPageToken,permissions"}
    first = api.permissions().list(**ask).execute()
    rest = api.permissions().list(**ask, pageToken=first["nextPageToken"]).execute()
    assert (len(first["permissions"]), len(rest["permissions"])) == (100, 21)
    found = {one["emailAddress"]: one for one in first["permissions"] + rest["permissions"]}
    inherited = {"permissionType": "member", "role": "reader", "inherited": True, "inheritedFrom": plans}
    own = {"permissionType": "file", "role": "writer", "inherited": False}
    assert found["p1@larkmoor.example"]["permissionDetails"] == [inherited]
    assert found["p0@larkmoor.example"]["role"] == "writer"
    assert found["p0@larkmoor.example"]["permissionDetails"] == [own, inherited]
    assert drive.readers(file) == set(found)
    drive_itself = api.permissions().list(fileId=plans, supportsAllDrives=True, pageSize=50).execute()
    assert len(drive_itself["permissions"]) == 50
    assert refused(api.permissions().list(fileId=file)) == (404, "notFound")


def test_what_is_shared_by_itself_in_a_shared_drive_says_so(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {})
    offers = drive.folder("Offers", plans)
    file, mine = drive.file("Offer.txt", offers, "x"), drive.file("Mine.txt", "root", "x")
    drive.share(offers, "user:ada@larkmoor.example")

    def augmented(item: str) -> Any:
        found = api.files().get(fileId=item, fields="hasAugmentedPermissions", supportsAllDrives=True).execute()
        return found.get("hasAugmentedPermissions")

    assert [augmented(one) for one in (offers, file, mine)] == [True, False, None]


def test_ids_stay_when_an_address_changes_and_its_next_holder_has_others(drive: SimulatedDrive, api: Any) -> None:
    ada, new = "ada@larkmoor.example", "ada.long@larkmoor.example"
    drive.user(ada)
    mine, hers = drive.file("Mine.txt", "root", "x"), drive.file("Hers.txt", drive.tops[ada], "x")
    drive.share(mine, f"user:{ada}")

    def seen() -> dict[str, str]:
        listed = api.permissions().list(fileId=mine, fields="permissions(id,emailAddress)").execute()["permissions"]
        return {one["emailAddress"]: one["id"] for one in listed}

    before = seen()[ada]
    drive.rename_user(ada, new)
    assert seen() == {drive.account: seen()[drive.account], new: before}
    assert drive.items[hers].owner == new
    drive.user(ada)
    drive.share(mine, f"user:{ada}")
    assert seen()[new] == before != seen()[ada]
    users = users_list(drive, {"customer": "my_customer"})["users"]
    assert len({user["id"] for user in users}) == len(users) == 2


def test_who_may_not_share_learns_no_permissions(drive: SimulatedDrive, api: Any) -> None:
    file = drive.file("Theirs.txt", None, "x", owner="bob@larkmoor.example")
    found = api.files().get(fileId=file, fields="*").execute()
    assert not {"permissions", "parents"} & set(found)
    assert len(found["permissionIds"]) == 2
    assert found["owners"][0]["emailAddress"] == "bob@larkmoor.example"
    assert refused(api.permissions().list(fileId=file)) == (403, "insufficientFilePermissions")
    assert names(api) == ["Theirs.txt"]
    assert drive.readers(file) == {drive.account, "bob@larkmoor.example"}
    drive.lose_file(file)
    assert refused(api.files().get(fileId=file)) == (404, "notFound")
    assert drive.readers(file) == set()
    drive.share(file, f"user:{drive.account}", "writer")
    assert "permissions" in api.files().get(fileId=file, fields="*").execute()


def test_a_limited_access_folder_is_closed_to_whom_it_is_not_shared_with(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive(
        "Plans", {"user:ada@larkmoor.example": "organizer", "user:bob@larkmoor.example": "writer"}
    )
    folder = drive.folder("Board", plans)
    file = drive.file("Note.txt", folder, "x")
    drive.share(folder, "user:carol@larkmoor.example")
    drive.limit(folder)
    assert drive.readers(file) == {drive.account, "ada@larkmoor.example", "carol@larkmoor.example"}
    got = api.files().get(fileId=folder, supportsAllDrives=True, fields="inheritedPermissionsDisabled").execute()
    assert got == {"inheritedPermissionsDisabled": True}
    listed = (
        api.permissions().list(fileId=folder, supportsAllDrives=True, fields="permissions").execute()["permissions"]
    )
    views = {one["emailAddress"]: one.get("view") for one in listed}
    assert views["bob@larkmoor.example"] == "metadata"
    assert [email for email, view in views.items() if view is None] == [
        drive.account, "ada@larkmoor.example", "carol@larkmoor.example",
    ]  # fmt: skip
    # a reader among the members sees the folder, but nothing in it
    drive.add_member(plans, f"user:{drive.account}", "reader")
    assert names(api, corpora="drive", driveId=plans, **ALL_DRIVES) == ["Board"]
    board = api.files().get(fileId=folder, supportsAllDrives=True, fields="capabilities(canListChildren)").execute()
    assert board == {"capabilities": {"canListChildren": False}}
    assert refused(api.files().get(fileId=file, supportsAllDrives=True)) == (404, "notFound")
    assert refused(api.permissions().list(fileId=folder, supportsAllDrives=True)) == (
        403,
        "insufficientFilePermissions",
    )
    assert drive.readers(file) == set()
    assert drive.everything(plans) == {}
    drive.inherit(folder)
    assert "bob@larkmoor.example" in drive.readers(file)


def test_a_grant_ends_at_its_time(clock_site: tuple[DriveSite, Callable[[timedelta], None]]) -> None:
    site, advance = clock_site
    drive, api = site.drive, site.service()
    file = drive.file("Note.txt", drive.my_drive, "x")
    drive.share(file, "user:ada@larkmoor.example", expires=datetime(2026, 1, 2, tzinfo=UTC))
    fields = "permissions(emailAddress,expirationTime)"
    ends = api.permissions().list(fileId=file, fields=fields).execute()["permissions"][1]["expirationTime"]
    assert ends == "2026-01-02T00:00:00.000Z"
    token = api.changes().getStartPageToken().execute()["startPageToken"]
    advance(timedelta(days=2))
    assert len(api.permissions().list(fileId=file).execute()["permissions"]) == 1
    assert drive.readers(file) == {drive.account}
    assert [change["fileId"] for change in api.changes().list(pageToken=token).execute()["changes"]] == [file]


def test_what_lies_in_a_trashed_folder_is_in_the_trash(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {})
    for place in (drive.my_drive, plans):
        folder = drive.folder("Reports", place)
        file = drive.file("Note.txt", folder, "x")
        drive.trash(folder)
        get = lambda item: api.files().get(fileId=item, supportsAllDrives=True, fields="*").execute()  # noqa: E731
        assert get(folder)["trashed"]
        assert get(file)["trashed"]
        assert ("trashedTime" in get(folder)) == (place == plans)
        assert drive.readers(file) == set()
        assert drive.everything(place) == {}
        drive.restore(folder)
        assert not get(file)["trashed"]
        assert list(drive.everything(place)) == [file]


def test_tops_of_drives_are_folders_that_no_listing_shows(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {})
    assert api.files().get(fileId="root").execute() == {
        "kind": "drive#file", "id": drive.my_drive, "name": "My Drive", "mimeType": FOLDER,
    }  # fmt: skip
    assert api.files().get(fileId=plans, supportsAllDrives=True).execute()["name"] == "Drive"
    assert names(api, corpora="allDrives", **ALL_DRIVES) == []
    with pytest.raises(ValueError, match="top of a drive"):
        drive.trash(plans)
    folder = drive.folder("A", drive.my_drive)
    with pytest.raises(ValueError, match="into itself"):
        drive.move(folder, drive.folder("B", folder))


def test_an_owner_stays_the_owner(drive: SimulatedDrive) -> None:
    file = drive.file("Note.txt", drive.my_drive, "x")
    drive.share(file, f"user:{drive.account}", "reader")
    assert drive.items[file].grants[f"user:{drive.account}"].role == "owner"
    with pytest.raises(ValueError, match="not a folder"):
        drive.limit(file)
