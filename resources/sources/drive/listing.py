"""The full listing of a root: every folder, then every file in pages, each page a batch with a cursor to resume from.

The feed's token is taken before the listing begins, so that changes made meanwhile are in the feed. If Drive rejects a page
token, only the listing is lost: it starts over and the feed still starts from the same token.

What other people shared with the account is in no folder and in no feed, so it lies in a root of our own, `shared_with_me`, which
each sync lists as a whole: a call per 1,000 files and per 40 folders. What is not listed any more is no longer shared.
Source: https://developers.google.com/workspace/drive/api/guides/ref-search-terms (sharedWithMe)
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from resources.core.domain import Batch
from resources.core.errors import AbortSyncError
from resources.sources.drive import cursor as cursors
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.content import FOLDER
from resources.sources.drive.cursor import DriveCursor, ListingPosition
from resources.sources.drive.documents import FILE_FIELDS, DescribedFiles, DriveDocuments
from resources.sources.drive.faults import NotFoundError, PageTokenError
from resources.sources.drive.feeds import Feeds
from resources.sources.drive.notes import FolderState, PartitionState, RootNote
from resources.sources.drive.permissions import FileGrant
from resources.sources.drive.readers import Readers
from resources.sources.drive.roots import SHARED_WITH_ME, Roots
from resources.sources.drive.tree import FolderTree, folder_of, parent_of

PAGE = 1000
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/list"""
FIRST_PAGE = 200
"""Size of a page whose files must be fetched before it is committed."""
PARENTS = 40
"""Folders in one query; Drive rejects long queries."""
_RESTARTS = 3
_ANY_DRIVE = "*"
"""Stands for shared drives of which the account may not be a member: their folders are listed one by one, in its own corpus."""


def groups(folders: Sequence[str], size: int = PARENTS) -> Iterator[Sequence[str]]:
    """Yield folders in groups that fit into one query."""
    for start in range(0, len(folders), size):
        yield folders[start : start + size]


@dataclass
class RootListing:
    _client: DriveClient
    _roots: Roots
    _tree: FolderTree
    _feeds: Feeds
    _readers: Readers
    _documents: DriveDocuments
    _linked: Callable[[str], Iterator[tuple[str, DescribedFiles]]]
    """Pages of the folders that are linked from a partition."""
    _notes: Callable[[str], PartitionState]
    _view: str

    def run(
        self, partition: str, before: DriveCursor | None, *, relist: bool = False
    ) -> Generator[Batch, None, DriveCursor]:
        """Yield the whole root and return the cursor from which its feed continues.

        `before` says where to resume; if it is None or has no place in a listing, or someone's address has changed since, the listing
        starts from the beginning. `relist`: most of it is known, so pages are large.
        """
        at = before
        for _ in range(_RESTARTS):
            notes = self._notes(partition).load()
            if at is None or at.listing is None or notes.root is None or notes.renamed:
                at = yield from self._begin(partition, notes, at, PAGE if relist else FIRST_PAGE)
            try:
                return (yield from self._pages(partition, notes, at))
            except PageTokenError:
                at = DriveCursor(token=at.token, account=at.account)
        raise AbortSyncError("Drive keeps rejecting its own page tokens during the listing; the next sync tries again.")

    def below(
        self, folders: Sequence[JSON], partition: str, notes: PartitionState, *, linked: bool = False
    ) -> Iterator[list[JSON]]:
        """Yield the files below some folders, page by page, and record the folders below them.

        If they are `linked`, the account may not be a member of their shared drive.
        """
        root = self._roots.root(partition)
        by_drive: dict[str | None, list[str]] = {}
        for folder in folders:
            drive = folder.get("driveId")
            by_drive.setdefault(_ANY_DRIVE if linked and drive else drive, []).append(folder["id"])
        for drive, level in by_drive.items():
            while level:
                further: list[str] = []
                for group in groups(level, 1 if drive == _ANY_DRIVE else PARENTS):
                    for page in self._children(group, "trashed = false", drive, root, PAGE):
                        inner = [file for file in page["files"] if file["mimeType"] == FOLDER]
                        self.remember(inner, root, notes)
                        further += [file["id"] for file in inner]
                        yield [file for file in page["files"] if file["mimeType"] != FOLDER]
                level = further

    def climb(self, partition: str, root: RootNote, notes: PartitionState) -> RootNote:
        self._tree.top(partition, root)
        if root.kind == "folder":
            self._tree.find([{"parents": [root.parent], "driveId": root.drive}] if root.parent else [], notes)
            root = self._roots.update(partition, above=self._tree.above(root.id))
        notes.set_root(root)
        return root

    def remember(self, folders: Sequence[JSON], root: RootNote, notes: PartitionState) -> None:
        """Record folders, with who may find them where their permissions are their own."""
        for file in folders:
            self._tree.learn(file["id"], folder_of(file))
        inside = [file for file in folders if self._tree.is_below(file["id"], root)]
        grants = self._documents.grants(notes, inside)
        for file in inside:
            grant = grants[file["id"]]
            self._tree.grant(file["id"], grant)
            notes.set_folder(file["id"], folder_of(file, grant))
            if grant.expires is not None:
                notes.set_end(grant.expires, file["id"])

    def _begin(
        self, partition: str, notes: PartitionState, before: DriveCursor | None, size: int
    ) -> Generator[Batch, None, DriveCursor]:
        """Take the feed's token unless there is one, list the folders, and yield a batch with the memory of them."""
        root = self._roots.root(partition, fresh=True)
        token = before.token if before is not None else self._feeds.start(root.drive)
        notes.start_over()
        self._tree.relink()
        root = self.climb(partition, root, notes)
        if root.drive is not None:
            notes.set_members(self._readers.members(root.drive))
            self._readers.learn_members(root.drive, notes)
        grant = self._root_grant(root, notes)
        notes.set_folder(
            root.id, folder_of({"name": root.name, "parents": [root.parent] if root.parent else []}, grant)
        )
        if grant is not None:
            self._tree.grant(root.id, grant)
            if grant.expires is not None:
                notes.set_end(grant.expires, root.id)
        self._list_folders(root, notes)
        at = DriveCursor(token=token, account=self._view, listing=ListingPosition(size=size))
        yield Batch(
            partition=partition,
            listing="page",
            begins=True,
            memory=notes.take(),
            cursor=cursors.encode(at),
            title=root.name,
        )
        return at

    def _root_grant(self, root: RootNote, notes: PartitionState) -> FileGrant | None:
        """Return who may find the root itself; None if that cannot be read at present."""
        if root.kind == "drive":
            return self._readers.drive(root.id)
        file = self._documents.ask([root.id])[root.id]
        return None if file is None else self._documents.grants(notes, [file])[root.id]

    def _list_folders(self, root: RootNote, notes: PartitionState) -> None:
        condition = f"mimeType = '{FOLDER}' and trashed = false"
        if root.kind != "folder":
            found = [file for page in self._list(condition, root.drive, PAGE) for file in page["files"]]
            self.remember(found, root, notes)
            return
        level = [root.id]
        while level:
            pages = (
                page for group in groups(level) for page in self._children(group, condition, root.drive, root, PAGE)
            )
            found = [file for page in pages for file in page["files"]]
            self.remember(found, root, notes)
            level = [file["id"] for file in found]

    def _pages(self, partition: str, notes: PartitionState, at: DriveCursor) -> Generator[Batch, None, DriveCursor]:
        root = self._roots.root(partition)
        self._tree.top(partition, root)
        queries = self._queries(root, notes)
        place = at.listing or ListingPosition()
        for number in range(place.query, len(queries)):
            page_token = place.page if number == place.query else None
            pages = self._files(queries[number], root, place.size or PAGE, page_token)
            page = next(pages, None)
            while page is not None:
                following: str | None = page.get("nextPageToken")
                ahead = next(pages, None) if following is None else None
                ended = following is None and ahead is None
                found = self._documents.describe(page["files"], notes).once()
                last = ended and number == len(queries) - 1 and not self._has_links(notes)
                next_place = ListingPosition(query=number + ended, page=following, size=place.size)
                at = DriveCursor(token=at.token, account=at.account, listing=None if last else next_place)
                yield self._batch(partition, notes, at, root, found)
                page = ahead if following is None else next(pages, None)
        if at.listing is not None:
            for _, found in self._linked(partition):
                yield self._batch(partition, notes, at, root, found.once())
            at = DriveCursor(token=at.token, account=at.account)
            yield self._batch(partition, notes, at, root, DescribedFiles())
        return at

    def _has_links(self, notes: PartitionState) -> bool:
        return self._documents.follows_shortcuts and bool(notes.links())

    def _batch(
        self, partition: str, notes: PartitionState, at: DriveCursor, root: RootNote, found: DescribedFiles
    ) -> Batch:
        return Batch(
            partition=partition,
            seen=found.seen,
            refused=found.refused,
            memory=notes.take(),
            cursor=cursors.encode(at),
            listing="complete" if at.listing is None else "page",
            title=root.name,
        )

    def _queries(self, root: RootNote, notes: PartitionState) -> list[Sequence[str]]:
        """Return the groups of folders whose files are listed in one query each; the same groups when the listing is resumed.

        A whole drive takes one query, without a folder.
        """
        if root.kind != "folder":
            return [()]
        return list(groups(sorted(one for one in notes.folders if notes.inside(one, root.id))))

    def _files(self, folders: Sequence[str], root: RootNote, size: int, page_token: str | None) -> Iterator[JSON]:
        condition = f"mimeType != '{FOLDER}' and trashed = false"
        if folders:
            return self._children(folders, condition, root.drive, root, size, page_token)
        return self._list(condition, root.drive, size, page_token)

    def _children(
        self,
        folders: Sequence[str],
        condition: str,
        drive: str | None,
        root: RootNote,
        size: int,
        page_token: str | None = None,
    ) -> Iterator[JSON]:
        """Yield pages of the direct children of some folders.

        Drive rejects the whole query if one of them was just deleted; then each is queried separately, and the feed reports the deletion.
        """
        parents = " or ".join(f"'{folder}' in parents" for folder in folders)
        try:
            yield from self._list(f"({parents}) and {condition}", drive, size, page_token)
        except NotFoundError as error:
            if error.of != "fileId":
                raise
            if page_token is not None:
                raise PageTokenError("A folder was deleted while its files were listed.") from error
            if len(folders) == 1:
                self._check(root)
                yield {"files": []}
                return
            for folder in folders:
                yield from self._alone(folder, condition, drive, root)

    def _alone(self, folder: str, condition: str, drive: str | None, root: RootNote) -> Iterator[JSON]:
        """Yield the children of one folder, without page tokens: those belong to another query than the one being resumed."""
        for page in self._children([folder], condition, drive, root, PAGE):
            page.pop("nextPageToken", None)
            yield page

    def _check(self, root: RootNote) -> None:
        """Raise if the root itself cannot be found: then its listing is not empty but failed."""
        if root.kind == "shared":
            return
        self._client.call("files.get", fileId=root.id, fields="id", supportsAllDrives=True)

    def shared(self) -> Iterator[list[JSON]]:
        """Yield what other people shared with the account, page by page."""
        for page in self._list("sharedWithMe = true and trashed = false", None, PAGE):
            yield page["files"]

    def _list(self, condition: str, drive: str | None, size: int, page_token: str | None = None) -> Iterator[JSON]:
        """Yield pages of a query. Raises `AbortSyncError` if Drive reports an incomplete search."""
        named = None if drive == _ANY_DRIVE else drive
        while True:
            page = self._client.call(
                "files.list",
                q=condition,
                corpora="user" if named is None else "drive",
                driveId=named,
                includeItemsFromAllDrives=drive is not None,
                supportsAllDrives=True,
                spaces="drive",
                pageSize=size,
                pageToken=page_token,
                fields=f"nextPageToken,incompleteSearch,files({FILE_FIELDS})",
            )
            if page.get("incompleteSearch"):
                raise AbortSyncError("Drive reported an incomplete search; the next sync tries again.")
            page.setdefault("files", [])
            yield page
            page_token = page.get("nextPageToken")
            if page_token is None:
                return


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
        """Yield everything in pages, and before and after them an empty batch that opens and closes the listing."""
        notes = self._notes(SHARED_WITH_ME).load()
        notes.start_over()
        root = self._listing.climb(SHARED_WITH_ME, self._roots.root(SHARED_WITH_ME), notes)
        notes.set_folder(root.id, FolderState(name=root.name))
        yield self._batch([], root, notes, begins=True)
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

    def _batch(
        self, files: list[JSON], root: RootNote, notes: PartitionState, *, begins: bool = False, last: bool = False
    ) -> Batch:
        described = self._documents.describe(files, notes).once() if files else DescribedFiles()
        at = DriveCursor(token="", account=self._view, listing=None if last else ListingPosition())
        return Batch(
            partition=SHARED_WITH_ME,
            seen=[item for item in described.seen if item.partition == SHARED_WITH_ME],
            refused=[refusal for refusal in described.refused if refusal.partition == SHARED_WITH_ME],
            memory=notes.take(),
            cursor=cursors.encode(at),
            listing="complete" if last else "page",
            begins=begins,
            title=root.name,
        )
