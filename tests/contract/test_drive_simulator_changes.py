"""The simulated Drive's change feeds through Google's own client, and its expected state compared with what the API shows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from simulators.drive import DOCUMENT, SimulatedDrive
from tests.fixtures.drive import ALL_DRIVES, DriveSite, refused


@pytest.fixture
def drive(drive_site: DriveSite) -> SimulatedDrive:
    return drive_site.drive


@pytest.fixture
def api(drive_site: DriveSite) -> Any:
    return drive_site.service()


class Follower:
    """A client that follows one feed from now on."""

    def __init__(self, api: Any, **more: Any) -> None:
        self.api = api
        self.more = {**ALL_DRIVES, **more}
        start = {name: value for name, value in self.more.items() if name in ("driveId", "supportsAllDrives")}
        self.token = api.changes().getStartPageToken(**start).execute()["startPageToken"]

    def read(self, **more: Any) -> list[dict[str, Any]]:
        """Return the changes since the last call, over all pages."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.api.changes().list(pageToken=self.token, **self.more, **more).execute()
            found += page["changes"]
            self.token = page.get("nextPageToken") or page["newStartPageToken"]
            if "nextPageToken" not in page:
                return found

    def ids(self, **more: Any) -> list[str]:
        return [change.get("fileId") or change["driveId"] for change in self.read(**more)]


def test_a_file_is_listed_once_at_its_newest_change(drive: SimulatedDrive, api: Any) -> None:
    feed = Follower(api)
    assert feed.read() == []
    one, two, three = (drive.file(f"{number}.txt", drive.my_drive, "x") for number in range(3))
    drive.edit(one, "y")
    drive.rename(two, "Two.txt")
    drive.edit(one, "z")
    changes = feed.read(pageSize=2)
    assert [change["fileId"] for change in changes] == [three, two, one]
    assert [change["time"] for change in changes] == sorted(change["time"] for change in changes)
    assert changes[1] == {
        "kind": "drive#change", "changeType": "file", "removed": False, "fileId": two,
        "time": changes[1]["time"],
        "file": {"kind": "drive#file", "id": two, "name": "Two.txt", "mimeType": "text/plain"},
    }  # fmt: skip
    assert feed.read() == []
    assert refused(api.changes().list(pageToken="made-up")) == (400, "invalid")
    assert refused(api.changes().list(pageToken="")) == (400, "required")


def test_a_tombstone_carries_the_id_alone(drive: SimulatedDrive, api: Any) -> None:
    folder = drive.folder("Reports", drive.my_drive)
    file, below = drive.file("Note.txt", drive.my_drive, "x"), drive.file("Below.txt", folder, "x")
    theirs = drive.file("Theirs.txt", None, "x", owner="bob@larkmoor.example")
    feed = Follower(api)
    drive.delete(file)
    drive.delete(folder)
    drive.lose_file(theirs)
    changes = feed.read(fields="nextPageToken,newStartPageToken,changes(fileId,removed,time,file(id))")
    assert [(change["fileId"], change["removed"]) for change in changes] == [
        (file, True),
        (folder, True),
        (theirs, True),
    ]
    assert all(set(change) == {"fileId", "removed", "time"} for change in changes)
    assert refused(api.files().get(fileId=below)) == (404, "notFound")
    drive.regain_file(theirs)
    assert [change["removed"] for change in feed.read()] == [False]


def test_what_happens_to_a_folder_shows_the_folder_alone(drive: SimulatedDrive, api: Any) -> None:
    above, folder = drive.folder("Above", drive.my_drive), drive.folder("Reports", drive.my_drive)
    file = drive.file("Note.txt", folder, "x")
    feed = Follower(api)
    for change in (
        lambda: drive.share(folder, "user:ada@larkmoor.example"),
        lambda: drive.unshare(folder, "user:ada@larkmoor.example"),
        lambda: drive.rename(folder, "Renamed"),
        lambda: drive.move(folder, above),
        lambda: drive.limit(folder),
        lambda: drive.inherit(folder),
        lambda: drive.trash(folder),
    ):
        change()
        assert feed.ids() == [folder]
    assert api.files().get(fileId=file, fields="trashed").execute() == {"trashed": True}
    drive.edit(file, "y")
    assert feed.ids() == [file]


def test_a_shared_drive_has_a_feed_of_its_own(drive: SimulatedDrive, api: Any) -> None:
    plans, other = drive.shared_drive("Plans", {}), drive.shared_drive("Other", {})
    mine, its, others = Follower(api), Follower(api, driveId=plans), Follower(api, driveId=other)
    files = [drive.file(f"{number}.txt", plans, "x") for number in range(40)]
    at_home = drive.file("Mine.txt", drive.my_drive, "x")
    assert its.ids() == files
    assert others.ids() == []
    seen = mine.ids()
    assert seen[-1] == at_home
    assert 0 < len(seen) - 1 < len(files)
    assert set(seen) < {*files, at_home}
    closed = Follower(api)
    closed.more = {}
    drive.edit(files[0], "y")
    drive.edit(at_home, "y")
    assert closed.ids() == [at_home]
    assert refused(api.changes().getStartPageToken(driveId=plans))[0] == 400


def test_moves_between_drives_show_in_both_feeds(drive: SimulatedDrive, api: Any) -> None:
    plans, other = drive.shared_drive("Plans", {"user:ada@larkmoor.example": "reader"}), drive.shared_drive("Other", {})
    file = drive.file("Note.txt", drive.my_drive, "x")
    mine, its, others = Follower(api), Follower(api, driveId=plans), Follower(api, driveId=other)
    alone = Follower(api)
    alone.more = {}
    drive.move(file, plans)
    assert [(change["fileId"], change["removed"]) for change in its.read()] == [(file, False)]
    assert [change["removed"] for change in mine.read(fields="*")] == [False]
    assert [change["removed"] for change in alone.read()] == [True]
    assert drive.readers(file) == {drive.account, "ada@larkmoor.example"}
    drive.move(file, other)
    assert [(change["fileId"], change["removed"]) for change in its.read()] == [(file, True)]
    assert [(change["fileId"], change["removed"]) for change in others.read()] == [(file, False)]
    drive.move(file, drive.my_drive)
    assert [(change["removed"], change["fileId"]) for change in others.read()] == [(True, file)]
    assert mine.ids() == [file]
    assert drive.items[file].owner == drive.account
    assert drive.readers(file) == {drive.account}


def test_membership_shows_nowhere(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {"user:ada@larkmoor.example": "reader"})
    file = drive.file("Note.txt", plans, "x")
    mine, its = Follower(api), Follower(api, driveId=plans)
    drive.add_member(plans, "group:staff@larkmoor.example")
    drive.remove_member(plans, "user:ada@larkmoor.example")
    assert mine.read() == its.read() == []
    assert drive.readers(file) == {drive.account, "group:staff@larkmoor.example"}


def test_shared_drives_that_are_renamed_lost_and_found(drive: SimulatedDrive, api: Any) -> None:
    plans = drive.shared_drive("Plans", {})
    file = drive.file("Note.txt", plans, "x")
    mine, its = Follower(api), Follower(api, driveId=plans)
    drive.rename_drive(plans, "Strategy")
    (change,) = mine.read()
    assert (change["changeType"], change["driveId"], change["drive"]["name"]) == ("drive", plans, "Strategy")
    assert its.ids() == [plans]
    drive.lose_drive(plans)
    (change,) = mine.read()
    assert (change["removed"], change["driveId"], "drive" in change) == (True, plans, False)
    assert refused(api.changes().list(pageToken=its.token, driveId=plans, **ALL_DRIVES)) == (404, "notFound")
    assert refused(api.files().get(fileId=file, supportsAllDrives=True)) == (404, "notFound")
    assert refused(api.files().list(corpora="drive", driveId=plans, **ALL_DRIVES)) == (404, "notFound")
    assert (drive.readers(file), drive.everything(plans)) == (set(), {})
    drive.edit(file, "y")
    drive.regain_drive(plans)
    assert [change["removed"] for change in mine.read() if change["changeType"] == "drive"] == [False]
    assert its.ids() == [file]
    assert list(drive.everything(plans)) == [file]


def test_expired_tokens_of_feeds(drive: SimulatedDrive, api: Any) -> None:
    feed = Follower(api)
    drive.expire_tokens()
    assert refused(api.changes().list(pageToken=feed.token)) == (400, "invalid")
    assert Follower(api).read() == []


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_is_what_the_api_shows(drive: SimulatedDrive, api: Any, seed: int) -> None:
    """After a random history, permissions and parents in the API lead to `readers` and `everything`."""
    dice = random.Random(seed)
    plans = drive.shared_drive(
        "Plans", {"user:ada@larkmoor.example": "writer", "group:g@larkmoor.example": "organizer"}
    )
    folders, files = [drive.my_drive, plans], []
    people = [
        "user:ada@larkmoor.example",
        "user:bob@other.example",
        "group:g@larkmoor.example",
        "domain:larkmoor.example",
        "anyone",
    ]
    for number in range(150):
        item, folder = dice.choice([*files, *folders[2:], *folders[2:]] or [""]), dice.choice(folders)
        what = dice.choice(
            ["file", "folder", "move", "share", "share", "unshare", "trash", "restore", "limit", "inherit", "member"]
        )
        if what == "file" or (what != "folder" and not item):
            files.append(drive.file(f"{number}.txt", folder, "x", dice.choice([DOCUMENT, "text/plain"])))
        elif what == "folder":
            folders.append(drive.folder(f"{number}", folder))
        elif what == "move" and not drive.is_below(folder, item):
            drive.move(item, folder)
        elif what == "share":
            drive.share(item, dice.choice(people), dice.choice(["reader", "writer"]), discoverable=dice.random() < 0.5)
        elif what == "unshare":
            given = [who for who, grant in drive.items[item].grants.items() if grant.role != "owner"]
            if given:
                drive.unshare(item, dice.choice(given))
        elif what in ("trash", "restore") and item:
            (drive.trash if what == "trash" else drive.restore)(item)
        elif what in ("limit", "inherit") and item in folders:
            (drive.limit if what == "limit" else drive.inherit)(item)
        elif what == "member":
            drive.add_member(plans, dice.choice(people[:4]))
    shown = _shown(api)
    for root in (drive.my_drive, plans):
        expected = {item: drive.readers(item) for item in drive.everything(root)}
        below = {item for item in shown if item in files and root in _ancestors(shown, item)}
        assert {item: _readers(api, item) for item in below} == expected


def _shown(api: Any) -> dict[str, dict[str, Any]]:
    fields = "nextPageToken,files(id,parents)"
    found, token = {}, None
    while True:
        ask = {"corpora": "allDrives", "q": "trashed = false", "fields": fields, "pageToken": token, **ALL_DRIVES}
        page = api.files().list(**ask).execute()
        found |= {file["id"]: file for file in page["files"]}
        token = page.get("nextPageToken")
        if token is None:
            return found


def _ancestors(shown: dict[str, dict[str, Any]], item: str) -> list[str]:
    above = []
    while item in shown:
        item = shown[item]["parents"][0]
        above.append(item)
    return above


def _readers(api: Any, item: str) -> set[str]:
    listed = api.permissions().list(fileId=item, supportsAllDrives=True, fields="permissions").execute()["permissions"]
    found: set[str] = set()
    for one in listed:
        if one["type"] == "user":
            found.add(one["emailAddress"])
        elif one["type"] == "group":
            found.add(f"group:{one['emailAddress']}")
        elif one["allowFileDiscovery"]:
            found.add(f"domain:{one['domain']}" if one["type"] == "domain" else "public")
    return found
