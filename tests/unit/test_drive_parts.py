"""The pure parts of the Drive connector: kinds, cursors, notes, sorting of changes, records and errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import Item, Refusal, SourceName
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    ConcordanceError,
    DeferredDocumentError,
    RateLimitedError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.filetypes import DOCX, PPTX, XLSX
from resources.settings import Settings
from resources.sources.drive import cursor
from resources.sources.drive.client import Backoff
from resources.sources.drive.content import kind_of, name_for
from resources.sources.drive.cursor import DriveCursor, ListingPosition
from resources.sources.drive.directory import DIRECTORY
from resources.sources.drive.documents import describe
from resources.sources.drive.faults import (
    EXPORT_LINK,
    ExportTooLargeError,
    ForbiddenError,
    NotFoundError,
    PageTokenError,
    RejectedCallError,
    explain,
)
from resources.sources.drive.feeds import sort
from resources.sources.drive.notes import FolderState, PartitionState, RootNote, Shortcut
from resources.sources.drive.permissions import FileGrant
from resources.sources.drive.readers import Links, Readers
from resources.sources.drive.tree import Trail

GOOGLE = "application/vnd.google-apps."


@pytest.mark.parametrize(
    ("name", "mime_type", "fetched", "way"),
    [
        ("Plan", f"{GOOGLE}document", "text/markdown", "export"),
        ("Budget", f"{GOOGLE}spreadsheet", XLSX, "export"),
        ("Talk", f"{GOOGLE}presentation", PPTX, "export"),
        ("a.pdf", "application/pdf", "application/pdf", "media"),
        ("a", "application/pdf", "application/pdf", "media"),
        ("a.docx", "application/octet-stream", DOCX, "media"),
        ("a.md", "text/plain", "text/markdown", "media"),
        ("a.MD", "text/x-markdown", "text/markdown", "media"),
        ("a.csv", "text/plain; charset=utf-8", "text/csv", "media"),
        ("notes", "text/plain", "text/plain", "media"),
        ("notes.log", "text/plain", "text/plain", "media"),
        ("a.txt", "application/pdf", "application/pdf", "media"),
        ("a.jsonl", "application/json", "application/x-ndjson", "media"),
    ],
)
def test_what_is_fetched_of_a_file(name: str, mime_type: str, fetched: str, way: str) -> None:
    assert kind_of(name, mime_type) == (fetched, way)
    assert name_for(name, fetched).startswith(name)


@pytest.mark.parametrize(
    ("name", "mime_type", "reason"),
    [
        ("Survey", f"{GOOGLE}form", "Google forms"),
        ("Sketch", f"{GOOGLE}drawing", "Google drawings"),
        ("Site", f"{GOOGLE}site", "Docs, Sheets and Slides"),
        ("New", f"{GOOGLE}something", "something"),
        ("film.mp4", "video/mp4", ".mp4 are not supported"),
        ("film", "video/mp4", "video/mp4 are not supported"),
    ],
)
def test_what_is_not_has_its_reason(name: str, mime_type: str, reason: str) -> None:
    with pytest.raises(SkipDocumentError, match=reason):
        kind_of(name, mime_type)


@pytest.mark.parametrize(
    "kept",
    [
        DriveCursor(token="7", account="ada@acme.example"),
        DriveCursor(token="7", account="a", listing=ListingPosition()),
        DriveCursor(token="7", account="a", listing=ListingPosition(query=3, page="~!", size=200)),
    ],
)
def test_a_cursor_survives(kept: DriveCursor) -> None:
    assert cursor.decode(cursor.encode(kept)) == kept


@pytest.mark.parametrize("text", [None, "", "7", "{}", '{"token": 7}', "nonsense"])
def test_an_invalid_cursor_lists_again(text: str | None) -> None:
    assert cursor.decode(text) is None


def test_a_cursor_of_an_older_version_continues() -> None:
    """It named the last target of a shortcut that was checked, of more than one sync checked."""
    old = '{"token": "7", "account": "a", "watched": "x"}'
    assert cursor.decode(old) == DriveCursor(token="7", account="a")


class Kept(dict[str, Any]):
    """`Memory` of one partition."""

    def read(self, source: SourceName, partition: str, low: str = "", high: str | None = None) -> dict[str, Any]:
        assert (source, partition) == (SourceName.GOOGLE_DRIVE, "p")
        keys = sorted(self, key=str.encode)
        return {key: self[key] for key in keys if key >= low and (high is None or key < high)}

    def save(self, entries: dict[str, Any]) -> None:
        for key, value in json.loads(json.dumps(entries)).items():
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value


def test_notes_come_back_as_they_were() -> None:
    kept = Kept()
    notes = PartitionState(kept, "p").load()
    root = RootNote(id="r", name="Root", kind="folder", drive="d", parent="u", above=("u",))
    notes.set_root(root)
    notes.set_members(["1 ada"])
    notes.set_folder("r", FolderState(name="Root"))
    notes.set_folder("a", FolderState(name="A", parent="r", access="x", limited=True))
    notes.set_person("1", "ada@acme.example")
    notes.set_shortcut("s", Shortcut(target="t", parent="a", outside=True))
    notes.set_end(datetime(2026, 1, 2, tzinfo=UTC), "a")
    kept.save(notes.take())
    assert notes.take() == {}

    again = PartitionState(kept, "p")
    assert [one.target for one in again.watched()] == ["t"]
    assert again.root == root
    assert again.members == ["1 ada"]
    assert again.load().folders == notes.folders
    assert again.people == {"1": "ada@acme.example"}
    assert again.shortcuts == notes.shortcuts
    assert again.due(datetime(2026, 1, 1, tzinfo=UTC)) == []
    assert again.due(datetime(2026, 1, 3, tzinfo=UTC)) == ["a"]
    assert again.due(datetime(2026, 1, 3, tzinfo=UTC)) == []
    again.set_folder("a", FolderState(name="A", parent="r", access="x", limited=True))
    kept.save(again.take())
    assert PartitionState(kept, "p").due(datetime(2026, 1, 3, tzinfo=UTC)) == []


def test_starting_over_forgets_all_but_the_root() -> None:
    kept = Kept()
    notes = PartitionState(kept, "p").load()
    notes.set_root(RootNote(id="r", name="Root", kind="mine"))
    notes.set_folder("a", FolderState(name="A"))
    notes.set_person("1", "ada@acme.example")
    notes.set_shortcut("s", Shortcut(target="t", parent="a"))
    notes.set_end(datetime(2026, 1, 2, tzinfo=UTC), "a")
    kept.save(notes.take())
    again = PartitionState(kept, "p")
    again.start_over()
    again.set_person("1", "ada@acme.example")
    kept.save(again.take())
    assert set(kept) == {"!root", "p:1"}


def test_what_lies_below_a_folder() -> None:
    notes = PartitionState(Kept(), "p").load()
    for one, parent in {
        "r": None,
        "a": "r",
        "b": "a",
        "c": "b",
        "x": "elsewhere",
        "y": "x",
        "l": "m",
        "m": "l",
    }.items():
        notes.set_folder(one, FolderState(name=one, parent=parent))
    assert notes.below("a") == {"a", "b", "c"}
    assert notes.inside("c", "r")
    assert notes.inside("r", "r")
    assert not notes.inside("y", "r")
    assert not notes.inside("l", "r")
    assert not notes.inside("gone", "r")


def test_changes_are_sorted_by_what_they_mean() -> None:
    plain, folder = {"id": "f", "mimeType": "text/plain"}, {"id": "d", "mimeType": f"{GOOGLE}folder"}
    found = sort(
        [
            {"changeType": "drive", "driveId": "x"},
            {"changeType": "file", "fileId": "f", "removed": True, "time": "2026-01-01T00:00:00.000Z"},
            {"changeType": "file", "fileId": "f", "file": plain},
            {"changeType": "file", "fileId": "d", "file": folder},
            {
                "changeType": "file",
                "fileId": "t",
                "time": "2026-01-02T00:00:00Z",
                "file": {**plain, "trashed": True, "trashedTime": "2026-01-01T00:00:00.000Z"},
            },
            {"changeType": "file", "fileId": "r", "removed": True, "time": "2026-01-03T00:00:00.000Z"},
        ]
    )
    assert (set(found.files), set(found.folders), found.unseen) == ({"f"}, {"d"}, {"r"})
    assert found.gone == {"t": datetime(2026, 1, 1, tzinfo=UTC), "r": datetime(2026, 1, 3, tzinfo=UTC)}


FILE = {
    "id": "1",
    "name": "note.md",
    "mimeType": "text/plain",
    "md5Checksum": "abc",
    "headRevisionId": "r",
    "modifiedTime": "2026-01-02T00:00:00.000Z",
    "createdTime": "2026-01-01T00:00:00.000Z",
    "size": "12",
    "webViewLink": "https://drive.google.com/file/d/1/view",
    "owners": [{"emailAddress": "Ada@acme.example"}],
}
TRAIL = Trail("my_drive", ("f", "root"), ("My Drive", "Folder"))


def test_a_file_becomes_a_document(tmp_path: Path) -> None:
    grant = FileGrant(frozenset({"b@acme.example", "ada@acme.example"}), "shared")
    item = describe(FILE, TRAIL, (), grant, Settings(_env_file=None, home=tmp_path))
    assert item == Item(
        source_id="1",
        partition="my_drive",
        title="note.md",
        path="My Drive/Folder/note.md",
        mime_type="text/markdown",
        version="abc",
        permissions=("ada@acme.example", "b@acme.example"),
        owner="ada@acme.example",
        author="ada@acme.example",
        url="https://drive.google.com/file/d/1/view",
        size=12,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        modified_at=datetime(2026, 1, 2, tzinfo=UTC),
        collection_ids=("f", "root"),
        tags={"sharing": "shared"},
        locator="media",
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": "0"}, "empty"),
        ({"size": "11"}, "too large"),
        ({"mimeType": f"{GOOGLE}form"}, "forms"),
    ],
)
def test_a_refusal_says_why(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    settings = Settings(_env_file=None, home=tmp_path, max_file_bytes=10)
    refusal = describe({**FILE, **change}, TRAIL, (), FileGrant(frozenset(), "private"), settings)
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert refusal.collection_ids == ("f", "root")


def test_the_version_of_a_google_document_is_its_time(tmp_path: Path) -> None:
    file = {key: value for key, value in FILE.items() if key not in {"md5Checksum", "headRevisionId"}}
    item = describe(
        {**file, "mimeType": f"{GOOGLE}document"},
        TRAIL,
        (),
        FileGrant(frozenset(), "private"),
        Settings(_env_file=None, home=tmp_path),
    )
    assert isinstance(item, Item)
    assert (item.version, item.size, item.locator) == ("2026-01-02T00:00:00.000Z", None, "export")


def detailed(reason: str, status: str = "PERMISSION_DENIED") -> str:
    """An error in the newer style. Source: https://docs.cloud.google.com/apis/design/errors#error_info"""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
    return json.dumps(
        {"error": {"code": 0, "message": "Quota exceeded.", "status": status, "details": [info] * bool(reason)}}
    )


def error(reason: str, message: str = "It went wrong.", **more: Any) -> str:
    return json.dumps({"error": {"code": 0, "message": message, "errors": [{"reason": reason, **more}]}})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error("authError"), AuthorizationError),
        (403, error("rateLimitExceeded"), RateLimitedError),
        (403, error("userRateLimitExceeded"), RateLimitedError),
        (429, "not json", RateLimitedError),
        (403, error("exportSizeLimitExceeded"), ExportTooLargeError),
        (403, error("cannotDownloadFile"), SkipDocumentError),
        (403, error("insufficientPermissions", "Request had insufficient authentication scopes."), AuthorizationError),
        (403, error("insufficientPermissions", "Insufficient permissions for this file."), ForbiddenError),
        (403, error("accessNotConfigured"), AuthorizationError),
        (403, error("dailyLimitExceeded"), AbortSyncError),
        (403, error("quotaExceeded"), AbortSyncError),
        (403, error("downloadQuotaExceeded"), DeferredDocumentError),
        (403, error("quotaExceeded", location="quota.download"), DeferredDocumentError),
        (403, error("insufficientFilePermissions"), ForbiddenError),
        (403, "", RetryLaterError),
        (403, "<html>Blocked</html>", RetryLaterError),
        (403, detailed("RATE_LIMIT_EXCEEDED"), RateLimitedError),
        (403, detailed("", "RESOURCE_EXHAUSTED"), RateLimitedError),
        (429, detailed("RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"), RateLimitedError),
        (403, detailed("SERVICE_DISABLED"), AuthorizationError),
        (403, detailed("ACCESS_TOKEN_SCOPE_INSUFFICIENT"), AuthorizationError),
        (403, detailed("EXPORT_SIZE_LIMIT_EXCEEDED"), ExportTooLargeError),
        (403, detailed(""), ForbiddenError),
        (404, error("notFound", location="fileId"), NotFoundError),
        (400, error("invalid", "Invalid Value", location="pageToken"), PageTokenError),
        (410, error("deleted"), PageTokenError),
        (400, error("invalid", location="q"), RejectedCallError),
        (408, "", RetryLaterError),
        (500, error("backendError"), RetryLaterError),
        (503, "<html>", RetryLaterError),
    ],
)
def test_each_error_says_what_to_do(status: int, body: str, kind: type[ConcordanceError]) -> None:
    found = explain("files.list", status, {"retry-after": "7"}, body, "Connect again.")
    assert type(found) is kind
    if isinstance(found, RateLimitedError):
        assert found.retry_after == 7
    if status == 401:
        assert "Connect again." in str(found)


@pytest.mark.parametrize("status", [400, 410])
@pytest.mark.parametrize("body", [error("badRequest", "Invalid Value"), error("invalid", location="q"), "not json"])
def test_whatever_a_feed_refuses_is_its_token(status: int, body: str) -> None:
    assert type(explain("changes.list", status, {}, body, "")) is PageTokenError


@pytest.mark.parametrize("status", [400, 410, 418])
def test_an_odd_refusal_names_the_call(status: int) -> None:
    found = explain("files.get", status, {}, error("badRequest"), "")
    assert type(found) is RejectedCallError
    assert str(status) in str(found)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
@pytest.mark.parametrize("body", ["<html>Sign in</html>", error("badRequest")])
def test_a_refused_link_concerns_its_document_alone(status: int, body: str) -> None:
    assert type(explain(EXPORT_LINK, status, {}, body, "")) is ForbiddenError


def test_the_directory_limits_calls_at_a_time_by_another_name() -> None:
    found = explain("users.list", 403, {}, error("quotaExceeded"), "", DIRECTORY.label, DIRECTORY.scopes)
    assert type(found) is RateLimitedError
    found = explain("users.list", 403, {}, error("dailyLimitExceeded"), "", DIRECTORY.label, DIRECTORY.scopes)
    assert type(found) is AbortSyncError


def test_a_link_may_be_limited() -> None:
    assert type(explain(EXPORT_LINK, 429, {}, "", "")) is RateLimitedError
    assert type(explain(EXPORT_LINK, 403, {}, error("userRateLimitExceeded"), "")) is RateLimitedError
    assert type(explain(EXPORT_LINK, 503, {}, "", "")) is RetryLaterError


def test_waiting_grows_until_drive_answers() -> None:
    slept: list[float] = []
    now = [0.0]
    backoff = Backoff(slept.append, lambda: now[0])
    backoff.wait()
    assert [backoff.start(None) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 64, 64]
    backoff.wait()
    now[0] = 100
    backoff.wait()
    backoff.reset()
    assert backoff.start(None) == 1
    assert backoff.start(30) == 30
    backoff.wait()
    assert slept == [64, 30]


class HalfRead:
    """A client whose account loses access to a drive between two pages of its permissions."""

    def visible(self, _: str, many: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        page = {"permissions": [{"id": "1", "type": "anyone"}], "nextPageToken": "2"}
        return [None if "pageToken" in one else page for one in many]


def test_permissions_of_which_a_further_page_may_not_be_seen_are_not_seen() -> None:
    client: Any = HalfRead()
    readers = Readers(client, lambda: datetime(2026, 1, 1, tzinfo=UTC), Links("nobody", lambda: "ada@larkmoor.example"))
    assert readers.members("drive") == []
