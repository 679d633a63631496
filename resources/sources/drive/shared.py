"""The root `shared_with_me`: files and folders that other people shared with the account, outside of every other root.

Drive has no folder that holds them, so they lie in a root of our own, and no feed of theirs: each sync lists them as a whole, a call per
1,000 files and per 40 folders. What is not listed any more is no longer shared.
Source: https://developers.google.com/workspace/drive/api/guides/ref-search-terms (sharedWithMe)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from resources.core.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import JSON
from resources.sources.drive.cursor import DriveCursor, ListingPosition
from resources.sources.drive.documents import DescribedFiles, DriveDocuments
from resources.sources.drive.kinds import FOLDER
from resources.sources.drive.listing import RootListing
from resources.sources.drive.notes import FolderState, PartitionState, RootNote
from resources.sources.drive.roots import SHARED_WITH_ME, Roots
from resources.sources.drive.tree import FolderTree, parent_of


@dataclass
class SharedWithMe:
    """Lists the root once in a sync."""

    _roots: Roots
    _tree: FolderTree
    _listing: RootListing
    _documents: DriveDocuments
    _notes: Callable[[str], PartitionState]
    _view: str

    def run(self) -> Iterator[Batch]:
        """Yield everything in pages; the last batch is empty and closes the listing."""
        notes = self._notes(SHARED_WITH_ME).load()
        notes.start_over()
        root = self._listing.climb(SHARED_WITH_ME, self._roots.root(SHARED_WITH_ME), notes)
        notes.set_folder(root.id, FolderState(name=root.name))
        folders: list[JSON] = []
        for page in self._listing.shared():
            found = self._placed(page, root, notes)
            further = [file for file in found if file["mimeType"] == FOLDER]
            self._listing.remember(further, root, notes)
            folders += further
            yield self._batch([file for file in found if file["mimeType"] != FOLDER], root, notes)
        for files in self._listing.below(folders, SHARED_WITH_ME, notes):
            yield self._batch(files, root, notes)
        yield self._batch([], root, notes, last=True)

    def _placed(self, files: list[JSON], root: RootNote, notes: PartitionState) -> list[JSON]:
        """Return those of the files and folders that are in no other root, the outermost with our root as their folder."""
        files = [file for file in files if not self._documents.is_elsewhere(file)]
        self._tree.find(files, notes)
        found: list[JSON] = []
        for file in files:
            own = self._tree.trail(file["id"]) if file["mimeType"] == FOLDER else None
            trail = self._tree.trail(parent_of(file)) or own
            if trail is not None and trail.partition != SHARED_WITH_ME:
                continue
            inside = self._tree.trail(parent_of(file)) is not None
            found.append(file if inside else {**file, "parents": [root.id]})
        return found

    def _batch(self, files: list[JSON], root: RootNote, notes: PartitionState, *, last: bool = False) -> Batch:
        described = self._documents.describe(files, notes).once() if files else DescribedFiles()
        at = DriveCursor(token="", account=self._view, listing=None if last else ListingPosition())
        return Batch(
            partition=SHARED_WITH_ME,
            seen=[item for item in described.seen if item.partition == SHARED_WITH_ME],
            refused=[refusal for refusal in described.refused if refusal.partition == SHARED_WITH_ME],
            memory=notes.take(),
            cursor=cursors.encode(at),
            listing="complete" if last else "page",
            title=root.name,
        )
