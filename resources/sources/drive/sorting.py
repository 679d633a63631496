"""Sort a page of a change feed into live files, live folders and what is gone. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from resources.sources.drive.client import JSON
from resources.sources.drive.kinds import FOLDER
from resources.sources.drive.records import moment


@dataclass
class Changes:
    """Items by id. `gone`: when they were deleted, if known; those in `unseen` left the feed's view, not to the trash."""

    files: dict[str, JSON] = field(default_factory=dict[str, JSON])
    folders: dict[str, JSON] = field(default_factory=dict[str, JSON])
    gone: dict[str, datetime | None] = field(default_factory=dict[str, "datetime | None"])
    unseen: set[str] = field(default_factory=set[str])

    def note(self, file_id: str, file: JSON | None, when: datetime | None = None) -> None:
        """Record an item's current state; a later entry about the same item replaces it."""
        for kept in (self.files, self.folders, self.gone):
            kept.pop(file_id, None)
        self.unseen.discard(file_id)
        if file is None:
            self.gone[file_id] = when
            self.unseen.add(file_id)
        elif file.get("trashed"):
            self.gone[file_id] = moment(file.get("trashedTime")) or when
        elif file["mimeType"] == FOLDER:
            self.folders[file_id] = file
        else:
            self.files[file_id] = file


def sort(changes: Iterable[JSON]) -> Changes:
    """Return the items of a page in the state of their last entry; entries about drives themselves are left out."""
    found = Changes()
    for change in changes:
        file_id = change.get("fileId")
        if change.get("changeType", "file") == "file" and file_id:
            found.note(file_id, None if change.get("removed") else change.get("file"), moment(change.get("time")))
    return found
