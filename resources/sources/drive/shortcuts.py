"""Files and folders outside every root that shortcuts link to: indexed at their shortcut's place and watched for changes.

No feed reports everything that happens to them. So files are looked up at every sync, a hundred per request, and folders are listed. What
no shortcut links to any more is deleted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from resources.core.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import BATCH, JSON
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import DescribedFiles, DriveDocuments
from resources.sources.drive.feeds import Changes
from resources.sources.drive.listing import RootListing
from resources.sources.drive.notes import PartitionState, Shortcut
from resources.sources.drive.roots import Roots
from resources.sources.drive.tree import FolderTree, folder_of


class Targets:
    """Keeps targets up to date during one sync."""

    def __init__(self, roots: Roots, documents: DriveDocuments, notes: Callable[[str], PartitionState]) -> None:
        self._roots = roots
        self._documents = documents
        self._notes = notes

    def settle(
        self,
        notes: PartitionState,
        changes: Changes,
        found: DescribedFiles,
        left: Callable[[str, Shortcut], bool],
        deleted: dict[str, datetime | None],
    ) -> None:
        """Handle changed files outside every root, and targets whose shortcut has `left` the partition.

        Those that a shortcut still points to are added to `found`, the others to `deleted`.
        """
        ended = [one for one, shortcut in notes.shortcuts.items() if one in changes.gone or left(one, shortcut)]
        shortcuts = [notes.shortcuts[one] for one in ended]
        for one in ended:
            notes.set_shortcut(one, None)
        self._show(notes, found.outside, found, deleted)
        self.release(shortcuts, notes, found, deleted, changes.gone)
        changes.asked.update(one.target for one in shortcuts if not one.folder)

    def release(
        self,
        ended: Iterable[Shortcut],
        notes: PartitionState,
        found: DescribedFiles,
        deleted: dict[str, datetime | None],
        gone: Mapping[str, datetime | None] = MappingProxyType({}),
    ) -> None:
        """Show the targets of shortcuts that have `ended` at the place of another one; those without one are deleted."""
        targets = {shortcut.target for shortcut in ended if not shortcut.folder}
        if not targets:
            return
        others = [shortcut for one in self._roots.partitions() for shortcut in self._shortcuts(one)]
        for target_id, file in self._documents.ask(sorted(targets)).items():
            further = [shortcut for shortcut in others if shortcut.target == target_id]
            if file is None:
                deleted[target_id] = gone.get(target_id)
            elif not self._documents.is_inside(file, notes) and not self._documents.target(further, file, found, notes):
                deleted[target_id] = None

    def recheck(self, notes: PartitionState, found: DescribedFiles, deleted: dict[str, datetime | None]) -> None:
        """Show targets that were indexed without their shortcuts and no longer are."""
        inside = {one.target for one in notes.shortcuts.values() if not one.folder and not one.outside}
        files = self._documents.ask(sorted(inside)).values() if inside else ()
        self._show(notes, [file for file in files if file is not None], found, deleted)

    def watch(self, partition: str, at: DriveCursor) -> Iterator[Batch]:
        """Yield the current state of targets outside every root: a folder above may have changed, which no feed reports."""
        targets = sorted({shortcut.target for shortcut in self._notes(partition).watched()})
        if not targets or not self._documents.follows_shortcuts:
            return
        notes = self._notes(partition).load()
        for start in range(0, len(targets), BATCH):
            answers = self._documents.ask(targets[start : start + BATCH])
            found = DescribedFiles()
            deleted: dict[str, datetime | None] = {one: None for one, file in answers.items() if file is None}
            self._show(notes, [file for file in answers.values() if file is not None], found, deleted)
            found.once()
            yield Batch(
                partition=partition,
                seen=found.seen,
                refused=found.refused,
                deleted=list(deleted),
                memory=notes.take(),
                cursor=cursors.encode(at),
            )

    def _show(
        self, notes: PartitionState, files: Iterable[JSON], found: DescribedFiles, deleted: dict[str, datetime | None]
    ) -> None:
        """Describe files outside every root at the place of a shortcut that points to them; without one they are deleted."""
        by_target: dict[str, list[str]] = {}
        for shortcut_id, shortcut in sorted(notes.shortcuts.items()):
            by_target.setdefault(shortcut.target, []).append(shortcut_id)
        for file in files:
            ids = by_target.get(file["id"], [])
            outside = not self._documents.is_inside(file, notes)
            for one in ids:
                notes.set_shortcut(one, msgspec.structs.replace(notes.shortcuts[one], outside=outside))
            if not outside:
                continue
            if self._documents.target([notes.shortcuts[one] for one in ids], file, found, notes):
                deleted |= dict.fromkeys(
                    ids
                )  # a shortcut whose target could not be read was itself recorded as a document
            elif not self._documents.target(self._watched_elsewhere(file["id"], notes), file, found, notes):
                deleted[file["id"]] = None

    def _watched_elsewhere(self, target_id: str, but: PartitionState) -> list[Shortcut]:
        """Return the shortcuts of other partitions, which watch their targets, to a file outside every root; none if none is followed."""
        if not self._documents.follows_shortcuts:
            return []
        others = [notes for one in self._roots.partitions() if (notes := self._notes(one)) is not but]
        return [shortcut for notes in others for shortcut in notes.watched() if shortcut.target == target_id]

    def _shortcuts(self, partition: str) -> Iterable[Shortcut]:
        return self._notes(partition).load().shortcuts.values()


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
