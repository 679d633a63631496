"""The simulated Drive through Google's own client: files, searches, versions and contents."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from googleapiclient.http import MediaIoBaseDownload
from python_calamine import CalamineWorkbook

from assets.stages.parse import parse
from simulators.drive import DOCUMENT, FOLDER, PRESENTATION, SHORTCUT, SPREADSHEET, SimulatedDrive
from simulators.drive.exports import MAX_EXPORT_BYTES, PPTX, XLSX
from simulators.drive.resources import timestamp
from tests.fixtures.drive import ALL_DRIVES, DriveSite, names, refused


@pytest.fixture
def drive(drive_site: DriveSite) -> SimulatedDrive:
    return drive_site.drive


@pytest.fixture
def api(drive_site: DriveSite) -> Any:
    return drive_site.service()


def test_answers_hold_four_fields_unless_asked(drive: SimulatedDrive, api: Any) -> None:
    file = drive.file("Note.txt", drive.my_drive, "hello")
    four = {"kind": "drive#file", "id": file, "name": "Note.txt", "mimeType": "text/plain"}
    assert api.files().get(fileId=file).execute() == four
    assert api.files().list().execute() == {"kind": "drive#fileList", "incompleteSearch": False, "files": [four]}
    drive_id = drive.shared_drive("Plans", {})
    assert api.drives().list().execute()["drives"] == [{"kind": "drive#drive", "id": drive_id, "name": "Plans"}]
    for permission in api.permissions().list(fileId=file).execute()["permissions"]:
        assert set(permission) == {"kind", "id", "type", "role"}
    assert refused(api.about().get()) == (400, "required")
    assert api.about().get(fields="user(emailAddress,me)").execute() == {
        "user": {"emailAddress": drive.account, "me": True}
    }


def test_partial_answers(drive: SimulatedDrive, api: Any) -> None:
    file = drive.file("Note.txt", drive.my_drive, "hello")
    get = lambda fields: api.files().get(fileId=file, fields=fields).execute()  # noqa: E731
    assert get("id") == {"id": file}
    assert get("owners(emailAddress), size") == {"owners": [{"emailAddress": drive.account}], "size": "5"}
    assert get("owners(emailAddress,me),id") == {"owners": [{"emailAddress": drive.account, "me": True}], "id": file}
    everything = get("*")
    assert {"permissions", "capabilities", "md5Checksum", "webViewLink"} <= set(everything)
    assert get("capabilities") == {"capabilities": everything["capabilities"]}
    listed = api.files().list(fields="files(id,permissions(role))").execute()
    assert listed == {"files": [{"id": file, "permissions": [{"role": "owner"}]}]}
    assert api.files().list(fields="*").execute()["files"] == [everything]
    for wrong in ("files(id,nme)", "files(id", "files)", "files()", "ids"):
        assert refused(api.files().list(fields=wrong)) == (400, "invalidParameter")


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (None, ["Bin.txt", "It's.md", "Plan 2024.pdf", "Reports", "Roadmap"]),
        ("trashed = false", ["It's.md", "Plan 2024.pdf", "Reports", "Roadmap"]),
        ("trashed=true", ["Bin.txt"]),
        ("'root' in parents and trashed = false", ["It's.md", "Reports"]),
        ("'{folder}' in parents", ["Bin.txt", "Plan 2024.pdf", "Roadmap"]),
        (
            "('{folder}' in parents or 'root' in parents) and trashed = false",
            ["It's.md", "Plan 2024.pdf", "Reports", "Roadmap"],
        ),
        (f"mimeType = '{FOLDER}'", ["Reports"]),
        (f"mimeType != '{FOLDER}' and trashed = false", ["It's.md", "Plan 2024.pdf", "Roadmap"]),
    ],
)
def test_searches(drive: SimulatedDrive, api: Any, q: str | None, expected: list[str]) -> None:
    old, new = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
    folder = drive.folder("Reports", drive.my_drive, modified=old)
    drive.file("It's.md", drive.my_drive, "x", "text/markdown", modified=old)
    drive.file("Roadmap", folder, "x", DOCUMENT, modified=old)
    drive.file("Plan 2024.pdf", folder, b"x", "application/pdf", modified=new)
    drive.trash(drive.file("Bin.txt", folder, "x", modified=old))
    assert names(api, q and q.replace("{folder}", folder)) == expected


@pytest.mark.parametrize(
    "q",
    [
        "name",
        "trashed =",
        "trashed = x",
        "'a' in children",
        "(trashed = false",
        "name = 'x'",
        "a b c d",
        "mimeType = 'x",
    ],
)
def test_a_search_that_makes_no_sense_is_refused(api: Any, q: str) -> None:
    assert refused(api.files().list(q=q)) == (400, "invalid")


def test_a_search_below_an_unknown_folder_is_refused(api: Any) -> None:
    assert refused(api.files().list(q="'nowhere' in parents")) == (404, "notFound")


def test_listings_come_in_pages(drive: SimulatedDrive, api: Any) -> None:
    files = [drive.file(f"{number:02}.txt", drive.my_drive, "x") for number in range(25)]
    first = api.files().list(pageSize=10).execute()
    assert [file["name"] for file in first["files"]] == [f"{number:02}.txt" for number in range(10)]
    drive.trash(files[10])
    drive.delete(files[11])
    drive.file("99.txt", drive.my_drive, "x")
    second = api.files().list(pageSize=10, pageToken=first["nextPageToken"]).execute()
    assert [file["name"] for file in second["files"]][:2] == ["10.txt", "12.txt"]
    assert len(names(api, pageSize=7)) == 25
    assert len(names(api, pageSize=5_000)) == 25
    assert refused(api.files().list(pageSize=10, q="trashed = true", pageToken=first["nextPageToken"])) == (
        400,
        "invalid",
    )
    assert refused(api.files().list(pageToken="made-up")) == (400, "invalid")
    assert refused(api.files().list(pageSize=-1))[0] == 400
    drive.expire_tokens()
    assert refused(api.files().list(pageSize=10, pageToken=first["nextPageToken"])) == (400, "invalid")


def test_shared_drives_have_to_be_asked_for(drive: SimulatedDrive, api: Any) -> None:
    plans, other = drive.shared_drive("Plans", {}), drive.shared_drive("Other", {})
    mine, shared = drive.file("Mine.txt", drive.my_drive, "x"), drive.file("Ours.txt", plans, "x")
    drive.file("Theirs.txt", other, "x")
    assert names(api) == ["Mine.txt"]
    assert names(api, corpora="drive", driveId=plans, **ALL_DRIVES) == ["Ours.txt"]
    assert names(api, corpora="allDrives", **ALL_DRIVES) == ["Mine.txt", "Ours.txt", "Theirs.txt"]
    assert names(api, f"'{plans}' in parents", **ALL_DRIVES) == ["Ours.txt"]
    assert refused(api.files().list(corpora="drive", **ALL_DRIVES))[0] == 400
    assert refused(api.files().list(driveId=plans, **ALL_DRIVES))[0] == 400
    assert refused(api.files().list(corpora="drive", driveId=plans, supportsAllDrives=True))[0] == 400
    assert refused(api.files().list(corpora="drive", driveId=plans, includeItemsFromAllDrives=True))[0] == 400
    assert refused(api.files().get(fileId=shared)) == (404, "notFound")
    found = api.files().get(fileId=shared, supportsAllDrives=True, fields="*").execute()
    assert found["driveId"] == plans
    assert not {"permissions", "owners"} & set(found)
    assert len(found["permissionIds"]) == 1
    assert "driveId" not in api.files().get(fileId=mine, fields="*").execute()
    drive.incomplete.add("allDrives")
    page = api.files().list(corpora="allDrives", **ALL_DRIVES).execute()
    assert page["incompleteSearch"]
    assert len(page["files"]) == 2


def test_drives_are_listed_ten_at_a_time(drive: SimulatedDrive, api: Any) -> None:
    made = [drive.shared_drive(f"Team {number}", {}) for number in range(12)]
    first = api.drives().list().execute()
    assert len(first["drives"]) == 10
    rest = api.drives().list(pageToken=first["nextPageToken"]).execute()
    assert [one["id"] for one in first["drives"] + rest["drives"]] == made
    drive.lose_drive(made[0])
    assert len(api.drives().list(pageSize=100).execute()["drives"]) == 11


def test_versions_tell_what_changed(drive: SimulatedDrive, api: Any) -> None:
    binary = drive.file("Note.txt", drive.my_drive, "one")
    native = drive.file("Doc", drive.my_drive, "# One", DOCUMENT)
    get = lambda file: api.files().get(fileId=file, fields="*").execute()  # noqa: E731
    before = get(binary)
    assert (before["md5Checksum"], before["size"]) == ("f97c5d29941bfb1b2fdab0874906ab82", "3")
    drive.share(binary, "user:ada@larkmoor.example")
    shared = get(binary)
    assert shared["modifiedTime"] == before["modifiedTime"]
    drive.rename(binary, "Renamed.txt")
    renamed = get(binary)
    assert renamed["modifiedTime"] > shared["modifiedTime"]
    assert renamed["headRevisionId"] == before["headRevisionId"]
    drive.edit(binary, "two")
    edited = get(binary)
    assert edited["headRevisionId"] != before["headRevisionId"]
    assert edited["md5Checksum"] != before["md5Checksum"]
    assert not {"md5Checksum", "headRevisionId"} & set(get(native))


def test_times_are_utc_whatever_the_clock_says() -> None:
    tokyo = timezone(timedelta(hours=9))
    drive = SimulatedDrive(clock=lambda: datetime(2026, 5, 1, 1, tzinfo=tokyo))
    file = drive.file("Note.txt", drive.my_drive, "x", created=datetime(2026, 4, 1, 2, tzinfo=tokyo))
    assert drive.items[file].created == datetime(2026, 3, 31, 17, tzinfo=UTC)
    drive.rename(file, "Other.txt")
    assert timestamp(drive.items[file].modified).startswith("2026-04-30T16:00:00.")


def test_shortcuts_say_what_they_point_to(drive: SimulatedDrive, api: Any) -> None:
    target = drive.file("Doc", drive.my_drive, "# One", DOCUMENT)
    shortcut = drive.shortcut(target, drive.my_drive, "Link")
    found = api.files().get(fileId=shortcut, fields="mimeType,shortcutDetails,size").execute()
    assert found == {"mimeType": SHORTCUT, "shortcutDetails": {"targetId": target, "targetMimeType": DOCUMENT}}
    assert refused(api.files().get_media(fileId=shortcut)) == (403, "fileNotDownloadable")


def test_what_is_shared_with_me_is_what_others_shared_with_the_account_itself(drive: SimulatedDrive, api: Any) -> None:
    drive.file("mine.txt", drive.my_drive, "x")
    folder = drive.folder("Hers", None, owner="zoe@other.example")
    drive.file("inside.txt", folder, "x", owner="zoe@other.example")
    drive.file("offer.txt", drive.shared_drive("Sales", {}), "x")
    assert names(api, "sharedWithMe = true and trashed = false") == ["Hers"]
    assert "mine.txt" in names(api, "sharedWithMe = false")


def test_exports(drive: SimulatedDrive, api: Any) -> None:
    doc = drive.file("Doc", drive.my_drive, "# One\n\nTwo **three**", "document")
    slides = drive.file("Slides", drive.my_drive, "Title\nPoint\nNotes: breathe\n---\nEnd", PRESENTATION)
    sheet = drive.file(
        "Sheet", drive.my_drive, {"A": [["n", "ok"], [1.5, True]], "B & C": [["<x>", None, 'ü"']]}, SPREADSHEET
    )
    export = lambda file, kind: api.files().export(fileId=file, mimeType=kind).execute()  # noqa: E731
    assert export(doc, "text/markdown") == b"# One\n\nTwo **three**"
    parsed = parse(export(slides, PPTX), PPTX, title="Slides")
    assert (parsed.page_count, "breathe" in parsed.text, "End" in parsed.text) == (2, True, True)
    book = CalamineWorkbook.from_filelike(io.BytesIO(export(sheet, XLSX)))
    assert {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names} == {
        "A": [["n", "ok"], [1.5, True]],
        "B & C": [["<x>", "", 'ü"']],
    }
    assert export(sheet, XLSX) == export(sheet, XLSX)
    plain = drive.file("Note.txt", drive.my_drive, "x")
    assert refused(api.files().export(fileId=plain, mimeType="text/plain")) == (403, "fileNotExportable")
    assert refused(api.files().export(fileId=doc, mimeType="image/png")) == (400, "badRequest")


def test_exports_above_ten_megabytes_are_refused(drive: SimulatedDrive, api: Any) -> None:
    doc = drive.file("Long", drive.my_drive, b"x" * MAX_EXPORT_BYTES, DOCUMENT)
    assert len(api.files().export(fileId=doc, mimeType="text/markdown").execute()) == MAX_EXPORT_BYTES
    drive.edit(doc, b"x" * (MAX_EXPORT_BYTES + 1))
    assert refused(api.files().export(fileId=doc, mimeType="text/markdown")) == (403, "exportSizeLimitExceeded")
    links = api.files().get(fileId=doc, fields="exportLinks").execute()["exportLinks"]
    assert set(links) == {"text/markdown", "text/plain"}
    assert httpx.get(links["text/markdown"]).status_code == 401
    answer = httpx.get(links["text/markdown"], headers={"authorization": f"Bearer {drive.token}"})
    assert len(answer.content) == MAX_EXPORT_BYTES + 1


def test_downloads_whole_and_in_pieces(drive: SimulatedDrive, api: Any) -> None:
    content = bytes(range(256)) * 3_000
    file, empty = drive.file("Blob.bin", drive.my_drive, content, "image/png"), drive.file("Empty", drive.my_drive, "")
    assert api.files().get_media(fileId=file).execute() == content
    target = io.BytesIO()
    pieces, done = MediaIoBaseDownload(target, api.files().get_media(fileId=file), chunksize=100_000), False
    while not done:
        _, done = pieces.next_chunk()
    assert target.getvalue() == content
    assert api.files().get_media(fileId=empty).execute() == b""
    doc = drive.file("Doc", drive.my_drive, "x", DOCUMENT)
    assert refused(api.files().get_media(fileId=doc)) == (403, "fileNotDownloadable")
    assert refused(api.files().get_media(fileId="nothing")) == (404, "notFound")


def test_the_seed_decides_the_ids() -> None:
    one, same, other = SimulatedDrive(seed=1), SimulatedDrive(seed=1), SimulatedDrive(seed=2)
    made = [drive.file("Note.txt", drive.my_drive, "x") for drive in (one, same, other)]
    assert made[0] == made[1] != made[2]
