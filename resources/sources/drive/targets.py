"""Targets of shortcuts that are outside every root: indexed at their shortcut's place and watched for changes.

No feed reports everything that happens to them, so they are looked up at every sync, a hundred per request. A target without
a remaining shortcut is deleted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from resources.core.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import BATCH, JSON
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import DescribedFiles, DriveDocuments
from resources.sources.drive.notes import PartitionState, Shortcut
from resources.sources.drive.roots import Roots
from resources.sources.drive.sorting import Changes

WATCHED = BATCH
"""Targets looked up in one sync of a partition: one request."""


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
        self._show(notes, found.outside, found, deleted)
        ended = [one for one, shortcut in notes.shortcuts.items() if one in changes.gone or left(one, shortcut)]
        shortcuts = [notes.shortcuts[one] for one in ended]
        for one in ended:
            notes.set_shortcut(one, None)
        self.release(shortcuts, notes, found, deleted, changes.gone)

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
        """Yield the current state of targets outside every root: a folder above may have changed, which no feed reports.

        At most `WATCHED` per sync, in rotation.
        """
        notes = self._notes(partition)
        targets = sorted(notes.pointed_at())
        if not targets or not self._documents.follows_shortcuts:
            return
        turn = [one for one in targets if one > at.watched][:WATCHED] or targets[:WATCHED]
        notes.load()
        answers = self._documents.ask(turn)
        found = DescribedFiles()
        deleted: dict[str, datetime | None] = {one: None for one, file in answers.items() if file is None}
        self._show(notes, [file for file in answers.values() if file is not None], found, deleted)
        found.once()
        watched = turn[-1] if len(targets) > WATCHED else ""
        yield Batch(
            partition=partition,
            seen=found.seen,
            refused=found.refused,
            deleted=list(deleted),
            memory=notes.take(),
            cursor=cursors.encode(DriveCursor(token=at.token, account=at.account, watched=watched)),
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
            elif file["id"] not in self._pointed_at(notes):
                deleted[file["id"]] = None

    def _pointed_at(self, but: PartitionState) -> set[str]:
        """Return the targets of shortcuts in other partitions: those partitions handle them."""
        others = [notes for one in self._roots.partitions() if (notes := self._notes(one)) is not but]
        return set[str]().union(*(notes.pointed_at() for notes in others))

    def _shortcuts(self, partition: str) -> Iterable[Shortcut]:
        return self._notes(partition).load().shortcuts.values()
