"""Folders outside every root that shortcuts link to: their content is indexed below the shortcut's place.

No feed reports everything that happens in them, so they are listed at every sync. What was in a folder without a remaining shortcut is
deleted.
"""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from resources.core.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import DescribedFiles, DriveDocuments
from resources.sources.drive.listing import RootListing
from resources.sources.drive.notes import PartitionState, Shortcut
from resources.sources.drive.roots import Roots
from resources.sources.drive.targets import Targets
from resources.sources.drive.tree import FolderTree, folder_of


class LinkedFolders:
    """Keeps linked folders up to date during one sync."""

    def __init__(
        self,
        roots: Roots,
        tree: FolderTree,
        listing: RootListing,
        documents: DriveDocuments,
        targets: Targets,
        notes: Callable[[str], PartitionState],
    ) -> None:
        self._roots = roots
        self._tree = tree
        self._listing = listing
        self._documents = documents
        self._targets = targets
        self._notes = notes

    def pages(self, partition: str, also: Collection[str] = ()) -> Iterator[tuple[str, DescribedFiles]]:
        """Yield what is below each folder that is linked from a partition, page by page, with the folder's id.

        Shortcuts to further folders are followed as they are found, each folder once. A folder in `also` is listed wherever it is now.
        """
        if not self._documents.follows_shortcuts:
            return
        notes, root = self._notes(partition).load(), self._roots.root(partition)
        done: set[str] = set()
        while waiting := ({link.target for link in notes.links()} - done or {*also} - done):
            done |= waiting
            files = self._documents.look_up(waiting, notes)
            self._tree.find([{"parents": [one]} for one, file in files.items() if file is not None], notes)
            for target, file in sorted(files.items()):
                trail = self._tree.trail(target)
                if file is None or trail is None or folder_of(file).closed or self._documents.is_elsewhere(file):
                    continue
                if target in also or self._is_linked(target, partition):
                    self._listing.remember([file], root, notes)
                    for page in self._listing.below([file], partition, notes, linked=True):
                        yield target, self._documents.describe(page, notes)

    def run(self, partition: str, at: DriveCursor) -> Iterator[Batch]:
        """Yield the current content of the partition's linked folders, and of those that were linked before.

        A folder that was not linked before is yielded page by page first, so that a killed sync continues.
        """
        notes, root = self._notes(partition), self._roots.root(partition)
        before = notes.linked
        if not (before or notes.links()) or not self._documents.follows_shortcuts:
            return
        nested = self._forget_nested(notes.load(), root.drive)
        cursor = cursors.encode(at)
        found = DescribedFiles()
        listed: set[str] = set()
        for target, page in self.pages(partition, before):
            listed.add(target)
            if target not in before:
                page.once()
                yield Batch(
                    partition=partition, seen=page.seen, refused=page.refused, deleted=page.settled, cursor=cursor
                )
            found.add(page)
        deleted: dict[str, datetime | None] = dict.fromkeys(found.settled)
        here = {one for one in listed if self._is_linked(one, partition)}
        ended = [shortcut for one, shortcut in nested.items() if one not in notes.shortcuts]
        self._targets.release(ended, notes, found, deleted)
        if not here.issuperset(before):
            self._targets.recheck(notes, found, deleted)
        notes.set_linked(sorted(here))
        found.once()
        yield Batch(
            partition=partition,
            seen=found.seen,
            refused=found.refused,
            deleted=list(deleted),
            emptied=sorted({*before, *here}),
            memory=notes.take(),
            cursor=cursor,
        )

    def _forget_nested(self, notes: PartitionState, drive: str | None) -> dict[str, Shortcut]:
        """Forget, and return, the shortcuts in linked folders: listing these finds the ones that are still there."""
        parents = {shortcut.parent for shortcut in notes.shortcuts.values()}
        self._tree.find([{"parents": [one], "driveId": drive} for one in sorted(parents)], notes)
        nested = {one: shortcut for one, shortcut in notes.shortcuts.items() if not self._tree.inside(shortcut.parent)}
        for one in nested:
            notes.set_shortcut(one, None)
        self._tree.relink()
        return nested

    def _is_linked(self, folder_id: str, partition: str) -> bool:
        """Return True if the folder is outside every root, and its content is indexed in the partition."""
        trail = self._tree.trail(folder_id)
        return trail is not None and trail.partition == partition and not self._tree.inside(folder_id)
