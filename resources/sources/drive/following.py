"""Follow a root's change feed and yield batches that bring the index up to date.

A changed folder stands for everything below it: Drive's feed reports a share, a rename or a move only on the folder itself. So
the folder is compared with what is remembered of it, and its content is listed if it differs. Membership of a shared drive is
in no feed, so it is compared at every sync.

Listings may show for minutes what was before a change, and readers reach the content of a folder step by step. So what is listed because
of a change is listed once more by a later sync.
Source: https://github.com/googleapis/google-api-go-client/issues/906
"""

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from resources.core.domain import Batch
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import JSON
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import DescribedFiles, DriveDocuments
from resources.sources.drive.faults import PageTokenError
from resources.sources.drive.feeds import Changes, FeedPage, Feeds, sort
from resources.sources.drive.listing import RootListing
from resources.sources.drive.notes import PartitionState, RootNote, Shortcut
from resources.sources.drive.readers import Links, Readers
from resources.sources.drive.roots import Roots
from resources.sources.drive.shortcuts import LinkedFolders, Targets
from resources.sources.drive.tree import FolderTree, folder_of, parent_of

_LAG = timedelta(minutes=10)
"""After this time, a listing is taken to show a change."""


class Relist(NamedTuple):
    """The root must be listed again; the feed then continues from `before`, or from now without it."""

    before: DriveCursor | None
    refused: str = ""
    """Drive's message about a rejected token, if that is the reason."""


@dataclass
class _Page:
    """A page that is being processed for one partition."""

    root: RootNote
    notes: PartitionState
    page: FeedPage
    changes: Changes
    found: DescribedFiles = field(default_factory=DescribedFiles)
    emptied: list[str] = field(default_factory=list[str])
    deleted: dict[str, datetime | None] = field(default_factory=dict[str, "datetime | None"])
    forgotten: set[str] = field(default_factory=set[str])
    """Folders that are no longer below the root."""
    again: frozenset[str] = frozenset()
    """Folders to list once more."""
    relist: list[JSON] = field(default_factory=list[JSON])
    """Folders whose whole content may have changed."""
    gathered: list[JSON] = field(default_factory=list[JSON])
    """Folders that left the root, or that the account can no longer open: everything still visible below them goes into one
    batch, and everything else that was below them is deleted."""


@dataclass
class Following:
    _roots: Roots
    _tree: FolderTree
    _feeds: Feeds
    _readers: Readers
    _documents: DriveDocuments
    _listing: RootListing
    _targets: Targets
    _linked: LinkedFolders
    _links: Links
    _notes: Callable[[str], PartitionState]
    _now: Callable[[], datetime]
    _placed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Number of the page that last showed or deleted a document: reading an older page again must not undo a newer one."""
    _readdressed: set[str] = field(default_factory=set[str], init=False)

    def run(self, partition: str, at: DriveCursor) -> Generator[Batch, None, Relist | None]:
        """Yield the feed's changes since `at`; return `Relist` if the root must be listed."""
        notes = self._notes(partition)
        root = self._roots.root(partition)
        if notes.root is None or self._must_readdress(partition, notes):
            return Relist(at)
        again = frozenset(notes.due_again(self._now()))
        if root.drive is not None and self._readers.members(root.drive) != notes.members:
            notes.set_again(self._now() + _LAG, root.id)
            return Relist(at)
        if root.id in again or (root.kind == "drive" and root.name != notes.root.name):
            return Relist(at)
        due = [*notes.due(self._now()), *self._differently_opened(notes), *again]
        while True:
            try:
                page = self._feeds.page(root.drive, at.token)
            except PageTokenError as error:
                return Relist(None, str(error))
            following = DriveCursor(token=page.following, account=at.account)
            changes = sort(page.changes)
            if not page.first:
                superseded = [one for one in changes.files if self._placed.get(one, -1) > page.number]
                for one in superseded:
                    del changes.files[one]
                due += [one for one in superseded if one in notes.load().shortcuts]  # they may have left this root
            due = [*due, *sorted(changes.unnamed)]
            for file_id, file in self._documents.ask(due).items() if due else ():
                changes.note_now(file_id, file)
            due = []
            if root.kind == "folder" and not changes.changed.isdisjoint({root.id, *root.above}):
                if self._roots.root(partition, fresh=True).drive != root.drive:
                    return Relist(None)  # it is in another drive, with another feed
                self._look_at(root.id, changes)
            yield from self._process_page(partition, page, changes, at, following, again)
            again = frozenset[str]()
            at, root = following, self._roots.root(partition)
            if page.last:
                break
        if self._must_readdress(partition, notes):
            return Relist(at)
        yield from self._linked.run(partition, at)
        for batch in self._targets.watch(partition, at):
            yield self._place(batch, self._feeds.read)
        return None

    def _must_readdress(self, partition: str, notes: PartitionState) -> bool:
        """Return True if someone's address has changed: once in a sync, as Drive may show two for a while."""
        if not notes.renamed or partition in self._readdressed:
            return False
        self._readdressed.add(partition)
        return True

    def _differently_opened(self, notes: PartitionState) -> list[str]:
        """Return the files shared by link that other people have opened since they were described, and forget who had."""
        if not self._links.asks:
            return []
        changed = [one for one, who in notes.opened.items() if sorted(self._links.opened(one)) != who]
        for file_id in changed:
            notes.set_opened(file_id, None)
        return changed

    def _look_at(self, folder_id: str, changes: Changes) -> None:
        """Note the current state of a selected folder: who may read it, and whether it is in the trash, depends on those above it."""
        for one, file in self._documents.ask([folder_id]).items():
            if file is not None or one not in changes.gone:
                changes.note_now(one, file)

    def _process_page(
        self,
        partition: str,
        page: FeedPage,
        changes: Changes,
        at: DriveCursor,
        following: DriveCursor,
        again: frozenset[str],
    ) -> Iterator[Batch]:
        """Yield one page: first what is below changed folders, then everything else with the cursor after it."""
        notes = self._notes(partition)
        root = self._roots.root(partition)
        if not (changes.files or changes.folders or changes.gone):
            cursor = cursors.encode(following)
            yield Batch(partition=partition, cursor=cursor, memory=notes.take(), title=root.name)
            return
        work = _Page(root, notes.load(), page, changes, again=again)
        self._look_up_departed(work)
        self._sort_folders(partition, work)
        here = cursors.encode(at)
        for files in self._listing.below(self._outermost(work), partition, work.notes):
            below = self._documents.describe(files, work.notes).once()
            batch = Batch(
                partition=partition,
                seen=below.seen,
                refused=below.refused,
                deleted=below.settled,
                cursor=here,
                title=work.root.name,
            )
            yield self._place(batch, page.number)  # not later: a listing may lag behind the feed
        self._sort_files(partition, work)
        yield self._place(self._last(partition, work, following), page.number, changes.asked)

    def _look_up_departed(self, work: _Page) -> None:
        """Look up items that left this feed's view: they may have moved to another root, which is not a deletion."""
        changes, root = work.changes, work.root
        if root.kind == "drive":
            for kept in (changes.folders, changes.gone):
                kept.pop(root.id, None)  # the drive itself is compared at every sync
        if len(self._roots.partitions()) > 1:
            lost = sorted(changes.unseen & changes.gone.keys())
            for file_id, file in self._documents.ask(lost).items() if lost else ():
                if file is None:
                    changes.asked.add(file_id)
                else:
                    changes.note_now(file_id, file)

    def _sort_folders(self, partition: str, work: _Page) -> None:
        """Decide for each folder whether to do nothing, list its content, or delete its content."""
        notes, changes = work.notes, work.changes
        for folder_id in changes.gone:
            self._tree.learn(folder_id, None)
        for folder_id, file in changes.folders.items():
            self._tree.learn(folder_id, folder_of(file))
        if work.root.kind == "folder" and work.root != notes.root and work.root.id not in changes.gone:
            work.root = self._listing.climb(partition, work.root, notes)
        self._tree.find([*changes.folders.values(), *changes.files.values()], notes)
        was = {
            one: notes.inside(one, work.root.id) for one in (*changes.folders, *changes.gone) if one in notes.folders
        }
        inside = [file for one, file in changes.folders.items() if self._tree.is_below(one, work.root)]
        grants = self._documents.grants(notes, inside)
        for folder_id, file in changes.folders.items():
            before = notes.folders.get(folder_id)
            if folder_id in grants:
                self._tree.grant(folder_id, grants[folder_id])
                now = folder_of(file, grants[folder_id])
                differs = now != before or not was[folder_id]
                if differs or folder_id in work.again:
                    if now.closed:
                        self._gather(work, file)
                        self._forget(work, folder_id, all_of_it=True)
                    else:
                        work.relist.append(file)
                        if differs:
                            notes.set_again(self._now() + _LAG, folder_id)
                    notes.set_folder(folder_id, now)
                if (ends := grants[folder_id].expires) is not None:
                    notes.set_end(ends, folder_id)
            elif was.get(folder_id):
                if self._tree.trail(folder_id) is None:
                    work.emptied.append(folder_id)
                else:
                    self._gather(work, file)  # it moved to another root
                self._forget(work, folder_id)
            elif before is not None:
                notes.set_folder(folder_id, folder_of(file))
        for folder_id in changes.gone:
            if was.get(folder_id):
                work.emptied.append(folder_id)
                self._forget(work, folder_id)
            elif folder_id in notes.folders:
                notes.set_folder(folder_id, None)

    def _gather(self, work: _Page, file: JSON) -> None:
        work.gathered.append(file)
        work.emptied.append(file["id"])

    def _forget(self, work: _Page, folder_id: str, *, all_of_it: bool = False) -> None:
        """Forget a folder and those below it, except those seen elsewhere below the root."""
        for one in work.notes.below(folder_id):
            if all_of_it or not self._tree.is_below(one, work.root):
                work.notes.set_folder(one, None)
                work.forgotten.add(one)

    def _outermost(self, work: _Page) -> list[JSON]:
        """Leave out folders below others that are listed anyway."""
        ids = {file["id"] for file in work.relist}
        kept: list[JSON] = []
        for file in work.relist:
            trail = self._tree.trail(file["id"])
            if trail is not None and not ids.intersection(trail.folders[1:]):
                kept.append(file)
        return kept

    def _sort_files(self, partition: str, work: _Page) -> None:
        """Describe changed files at their current location; those in no root are deleted unless a shortcut points to them."""
        changes, notes = work.changes, work.notes
        found = self._documents.describe(list(changes.files.values()), notes)
        if not work.page.first:
            # the partition that read the page first has reported files in other roots, which may have changed since
            found.seen = [item for item in found.seen if item.partition == partition]
            found.refused = [refusal for refusal in found.refused if refusal.partition == partition]
        changed = {**changes.files}
        for files in self._listing.below(work.gathered, partition, notes):
            changed |= {file["id"]: file for file in files}
            found.add(self._documents.describe(files, notes))
        work.deleted |= changes.gone
        work.deleted |= dict.fromkeys(found.settled)

        def has_left(shortcut_id: str, shortcut: Shortcut) -> bool:
            file = changed.get(shortcut_id)
            if file is None:
                return shortcut.parent in work.forgotten
            trail = self._tree.trail(parent_of(file))
            return trail is None or trail.partition != partition

        self._targets.settle(notes, changes, found, has_left, work.deleted)
        work.found = found.once()

    def _place(self, batch: Batch, number: int, asked: Collection[str] = ()) -> Batch:
        """Remember which page shows or deletes a batch's documents, and return it. Those `asked` for are newer than every page read."""
        for one in (*(document.source_id for document in (*batch.seen, *batch.refused)), *batch.deleted):
            self._placed[one] = max(self._feeds.read if one in asked else number, self._placed.get(one, -1))
        return batch

    def _last(self, partition: str, work: _Page, following: DriveCursor) -> Batch:
        shown = {one.source_id for one in (*work.found.seen, *work.found.refused)}
        deleted = {
            one: when
            for one, when in work.deleted.items()
            if one not in shown and (one in work.changes.asked or self._placed.get(one, -1) <= work.page.number)
        }
        return Batch(
            partition=partition,
            seen=work.found.seen,
            refused=work.found.refused,
            deleted=list(deleted),
            deleted_at={one: when for one, when in deleted.items() if when is not None},
            emptied=work.emptied,
            memory=work.notes.take(),
            cursor=cursors.encode(following),
            title=work.root.name,
        )
