"""What shortcuts point at outside of every root: it is indexed at its shortcut's place, and watched like what lies there.

In come the shortcuts that a partition remembers and what a feed says; out come targets that changed, and those to which no
shortcut leads any more. No feed tells of all that happens to them, so they are asked for at every sync, a hundred in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from resources.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import BATCH, JSON
from resources.sources.drive.cursor import Cursor
from resources.sources.drive.documents import Documents, Found
from resources.sources.drive.notes import PartitionState, Shortcut
from resources.sources.drive.roots import Roots
from resources.sources.drive.sorting import Changes

WATCHED = BATCH
"""Targets looked at in one sync of a partition: one request."""


class Targets:
    """Keeps targets in step for one sync."""

    def __init__(self, roots: Roots, documents: Documents, notes: Callable[[str], PartitionState]) -> None:
        self._roots = roots
        self._documents = documents
        self._notes = notes

    def settle(
        self,
        notes: PartitionState,
        changes: Changes,
        found: Found,
        left: Callable[[str, Shortcut], bool],
        deleted: dict[str, datetime | None],
    ) -> None:
        """Say what became of changed files outside of every root, and of targets whose shortcut has `left` the partition.

        What a shortcut leads to goes into `found`, the rest into `deleted`.
        """
        self._show(notes, found.outside, found, deleted)
        ended = [one for one, shortcut in notes.shortcuts.items() if one in changes.gone or left(one, shortcut)]
        targets = {notes.shortcuts[one].target for one in ended}
        for one in ended:
            notes.set_shortcut(one, None)
        if not targets:
            return
        others = [shortcut for one in self._roots.partitions() for shortcut in self._shortcuts(one)]
        for target_id, file in self._documents.ask(sorted(targets)).items():
            further = [shortcut for shortcut in others if shortcut.target == target_id]
            if file is None:
                deleted[target_id] = changes.gone.get(target_id)
            elif not self._documents.is_inside(file, notes) and not self._documents.target(further, file, found, notes):
                deleted[target_id] = None

    def watch(self, partition: str, at: Cursor) -> Iterator[Batch]:
        """Yield the targets outside of every root as they are now: a folder above may have changed, which no feed tells us.

        At most `WATCHED` a sync, the others in turn.
        """
        notes = self._notes(partition)
        targets = sorted(notes.pointed_at())
        if not targets or not self._documents.follows_shortcuts:
            return
        turn = [one for one in targets if one > at.watched][:WATCHED] or targets[:WATCHED]
        notes.load()
        answers = self._documents.ask(turn)
        found = Found()
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
            cursor=cursors.encode(Cursor(token=at.token, account=at.account, watched=watched)),
        )

    def _show(
        self, notes: PartitionState, files: Iterable[JSON], found: Found, deleted: dict[str, datetime | None]
    ) -> None:
        """Describe files outside of every root at the place of a shortcut that leads to them; others outside are deleted."""
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
                deleted |= dict.fromkeys(ids)  # a shortcut whose target could not be read was a document of its own
            elif file["id"] not in self._pointed_at(notes):
                deleted[file["id"]] = None

    def _pointed_at(self, but: PartitionState) -> set[str]:
        """Return what shortcuts of other partitions point at: those partitions look after it."""
        others = [notes for one in self._roots.partitions() if (notes := self._notes(one)) is not but]
        return set[str]().union(*(notes.pointed_at() for notes in others))

    def _shortcuts(self, partition: str) -> Iterable[Shortcut]:
        return self._notes(partition).load().shortcuts.values()
