"""The change feeds: the account's own (no drive) and one per shared drive. Each page is read once per sync and cached."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.content import FOLDER
from resources.sources.drive.documents import FILE_FIELDS
from resources.sources.drive.permissions import moment

_FIELDS = f"nextPageToken,newStartPageToken,changes(changeType,removed,time,fileId,driveId,file({FILE_FIELDS}))"
_PAGE = 1000
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/changes/list"""


class FeedPage(NamedTuple):
    """A page of a feed. `number` orders pages by when they were read; `first` is True the first time it is read in this sync."""

    changes: list[JSON]
    following: str
    last: bool
    number: int
    first: bool = True


class Feeds:
    """Feeds by the id of their shared drive; None is the account's own."""

    def __init__(self, client: DriveClient, *, others: bool = True) -> None:
        """Unless `others`, the account's own feed leaves out shared drives, which another account reads."""
        self._client = client
        self._others = others
        self._starts: dict[str | None, str] = {}
        self._pages: dict[tuple[str | None, str], FeedPage] = {}

    @property
    def read(self) -> int:
        """Number of the pages read so far, which is that of the next one."""
        return len(self._pages)

    def start(self, drive: str | None) -> str:
        """Return a token for changes from now on; a token taken earlier in this sync is reused."""
        if drive not in self._starts:
            answer = self._client.call(
                "changes.getStartPageToken", driveId=drive, supportsAllDrives=True, fields="startPageToken"
            )
            self._starts[drive] = str(answer["startPageToken"])
        return self._starts[drive]

    def page(self, drive: str | None, token: str) -> FeedPage:
        """Return the changes from a token on. Raises `PageTokenError` if the token is no longer valid."""
        kept = self._pages.get((drive, token))
        if kept is not None:
            return kept._replace(first=False)
        answer = self._client.call(
            "changes.list",
            pageToken=token,
            driveId=drive,
            pageSize=_PAGE,
            spaces="drive",
            fields=_FIELDS,
            includeRemoved=True,
            includeItemsFromAllDrives=self._others or drive is not None,
            supportsAllDrives=True,
        )
        following = answer.get("nextPageToken")
        page = FeedPage(
            changes=answer.get("changes", []),
            following=str(following or answer["newStartPageToken"]),
            last=following is None,
            number=len(self._pages),
        )
        self._pages[drive, token] = page
        return page


@dataclass
class Changes:
    """Items by id. `gone`: when they were deleted, if known; those in `unseen` left the feed's view, not to the trash. Those in
    `unnamed` have changed, and the feed does not say how."""

    files: dict[str, JSON] = field(default_factory=dict[str, JSON])
    folders: dict[str, JSON] = field(default_factory=dict[str, JSON])
    gone: dict[str, datetime | None] = field(default_factory=dict[str, "datetime | None"])
    unseen: set[str] = field(default_factory=set[str])
    unnamed: set[str] = field(default_factory=set[str])
    asked: set[str] = field(default_factory=set[str])
    """Items in a state that was asked for after the page had been read."""

    @property
    def changed(self) -> set[str]:
        """Ids of all items."""
        return {*self.files, *self.folders, *self.gone}

    def note(self, file_id: str, file: JSON | None, when: datetime | None = None) -> None:
        """Record an item's current state; a later entry about the same item replaces it."""
        for kept in (self.files, self.folders, self.gone):
            kept.pop(file_id, None)
        self.unseen.discard(file_id)
        self.unnamed.discard(file_id)
        if file is None:
            self.gone[file_id] = when
            self.unseen.add(file_id)
        elif file.get("trashed"):
            self.gone[file_id] = moment(file.get("trashedTime")) or when
        elif file["mimeType"] == FOLDER:
            self.folders[file_id] = file
        else:
            self.files[file_id] = file

    def note_now(self, file_id: str, file: JSON | None) -> None:
        """Record an item's state as it was just asked for."""
        self.note(file_id, file)
        self.asked.add(file_id)


def sort(changes: Iterable[JSON]) -> Changes:
    """Return the items of a page in the state of their last entry; entries about drives themselves are left out."""
    found = Changes()
    for change in changes:
        file_id = change.get("fileId")
        if change.get("changeType", "file") != "file" or not file_id:
            continue
        if change.get("removed") or change.get("file"):
            found.note(file_id, None if change.get("removed") else change.get("file"), moment(change.get("time")))
        else:
            found.unnamed.add(file_id)
    return found
