"""The folder tree, from memory, listings, the feed and look-ups, and the location of files in it.

A trail leads from a folder up to the outermost configured root. A document belongs to the innermost root, so overlapping
roots do not produce duplicates. A folder outside every root that shortcuts link to continues, where shortcuts are followed, at
the place of the first of them that is inside a root.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from resources.core import domain
from resources.core.json import object_of
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.notes import FolderState, PartitionState, RootNote
from resources.sources.drive.permissions import FileGrant
from resources.sources.drive.roots import Roots

FOLDER_FIELDS = "id,name,mimeType,parents,trashed,driveId,inheritedPermissionsDisabled,capabilities(canListChildren)"


class Trail(NamedTuple):
    """A location inside a root. `folders`: ids from the nearest up; `names` from the outermost root down."""

    partition: str
    folders: tuple[str, ...]
    names: tuple[str, ...]


class _Link(NamedTuple):
    """The folder that contains a shortcut to a folder, and the shared drive where it is."""

    parent: str
    drive: str


class FolderTree:
    """The folders known in this sync. What was seen in this sync takes precedence over what is remembered."""

    def __init__(
        self, client: DriveClient, roots: Roots, notes: Callable[[str], PartitionState], *, follows_shortcuts: bool
    ) -> None:
        self._follows_shortcuts = follows_shortcuts
        self._client = client
        self._roots = roots
        self._notes = notes
        self._folders: dict[str, FolderState | None] = {}
        self._access: dict[str, str] = {}
        self._temporary: dict[str, bool] = {}
        self._tops: dict[str, str] | None = None
        self._loaded: set[str] = set()
        self._trails: dict[str, Trail | None] = {}
        self._links: dict[str, list[_Link]] | None = None

    def learn(self, folder_id: str, folder: FolderState | None) -> None:
        """Record a folder's current state; None: it was deleted, trashed or is not readable."""
        if self._folders.get(folder_id, "") != folder:
            self._folders[folder_id] = folder
            self._trails.clear()

    def relink(self) -> None:
        """Notice that the remembered shortcuts to folders have changed."""
        self._links = None
        self._trails.clear()

    def grant(self, folder_id: str, grant: FileGrant) -> None:
        self._access[folder_id] = grant.digest
        self._temporary[folder_id] = grant.temporary

    def chain(self, trail: Trail) -> tuple[domain.Folder, ...]:
        """Return the folders of a trail, outermost first, with who may find each; no one if that is not known."""
        self._load_access(trail.folders)
        return tuple(
            domain.Folder(id=one, name=name, readers=tuple(self._access.get(one, "").split()[1:]))
            for one, name in zip(reversed(trail.folders), trail.names, strict=True)
        )

    def trail(self, parent: str | None) -> Trail | None:
        """Return the location of a folder's content; None if it is in no root as far as is known (`find` looks it up)."""
        if parent is None:
            return None
        if parent not in self._trails:
            self._trails[parent] = self._walk(parent, set())
        return self._trails[parent]

    def is_below(self, folder_id: str, root: RootNote) -> bool:
        """Return True if a folder is known to be in this root, or is it."""
        trail = self.trail(folder_id)
        return trail is not None and root.id in trail.folders

    def is_root(self, folder_id: str) -> bool:
        return folder_id in self._root_ids()

    def inside(self, folder_id: str) -> bool:
        """Return True if a folder is known to be in a root, not only linked from one."""
        ids, _ = self._climb(folder_id)
        return not self._root_ids().keys().isdisjoint(ids)

    def limited(self, parent: str | None) -> bool:
        """Return True if a folder, or a known one above it, stops inherited permissions. One that only holds a shortcut to it does not."""
        above = (self._folders.get(one) for one in (self._climb(parent)[0] if parent else ()))
        return any(folder is not None and folder.limited for folder in above)

    def temporary(self, parent: str | None) -> bool:
        """Return True if a permission of a folder, or of a known one above it, expires."""
        folders = self._climb(parent)[0] if parent else []
        self._load_access(folders)
        return any(self._temporary.get(one) for one in folders)

    def above(self, folder_id: str) -> tuple[str, ...]:
        """Return the known folders above a folder, nearest first."""
        found: list[str] = []
        at = self._folders.get(folder_id)
        while at is not None and at.parent is not None and at.parent not in found:
            found.append(at.parent)
            at = self._folders.get(at.parent)
        return tuple(found)

    def find(self, files: Iterable[JSON], notes: PartitionState) -> None:
        """Look up the location of these files: in memory, otherwise by asking Drive, one level of folders at a time.

        Folders outside every root are remembered in `notes`. An unknown folder inside a root is not: the feed, or the running
        listing, delivers it with its content.
        """
        wanted = {(parent, file.get("driveId") or "") for file in files if (parent := parent_of(file))}
        asked: dict[str, FolderState] = {}
        while True:
            missing = {one: drive for parent, drive in wanted if (one := self._missing(parent)) is not None}
            if not missing:
                further = {link for parent, _ in wanted for link in self._links_above(parent)} - wanted
                if not further:
                    break
                wanted |= further
                continue
            if self._load(set(missing.values())):
                continue
            for folder_id, folder in self._ask(sorted(missing)).items():
                self.learn(folder_id, folder)
                if folder is not None:
                    asked[folder_id] = folder
        for folder_id, folder in asked.items():
            if self.trail(folder_id) is None:
                notes.set_folder(folder_id, folder)

    def top(self, partition: str, root: RootNote) -> None:
        self._root_ids()[root.id] = partition
        self.learn(root.id, FolderState(name=root.name, parent=root.parent))

    def _walk(self, start: str, passed: set[str]) -> Trail | None:
        """Return the trail of a folder: its own, otherwise that of the nearest shortcut that leads to it or to a folder above it.

        `passed` are folders whose shortcuts lead nowhere or are being tried, since shortcuts may form cycles.
        """
        tops = self._root_ids()
        ids, names = self._climb(start)
        found = [number for number, one in enumerate(ids) if one in tops]
        if found:
            end = found[-1] + 1
            return Trail(tops[ids[found[0]]], tuple(ids[:end]), tuple(reversed(names[:end])))
        for number, one in enumerate(ids, 1):
            if one in passed:
                return None
            passed.add(one)
            for parent, _ in self._linked().get(one, ()):
                place = self._walk(parent, passed)
                if place is not None:
                    below = tuple(reversed(names[:number]))
                    return Trail(place.partition, (*ids[:number], *place.folders), (*place.names, *below))
        return None

    def _climb(self, start: str) -> tuple[list[str], list[str]]:
        """Return ids and names of a folder and the known ones above it, nearest first."""
        ids: list[str] = []
        names: list[str] = []
        self._root_ids()
        at: str | None = start
        while at is not None and at not in ids:
            folder = self._folders.get(at)
            if folder is None:
                break
            ids.append(at)
            # Drive calls the top folder of every shared drive "Drive"
            names.append(self._roots.drives.get(at, folder.name))
            at = folder.parent
        return ids, names

    def _links_above(self, parent: str) -> Iterator[_Link]:
        """Yield where shortcuts link to a folder, or to one above it."""
        links = self._linked()
        if links:
            for one in self._climb(parent)[0]:
                yield from links.get(one, ())

    def _linked(self) -> dict[str, list[_Link]]:
        """Return the links of all partitions by the folder that they lead to."""
        if self._links is None:
            self._links = {}
            for partition, root in self._roots.all().items() if self._follows_shortcuts else ():
                for shortcut in self._notes(partition).links():
                    self._links.setdefault(shortcut.target, []).append(_Link(shortcut.parent, root.drive or ""))
        return self._links

    def _missing(self, start: str) -> str | None:
        """Return the first unknown folder on the way up, or None if all are known."""
        tops = self._root_ids()
        passed: set[str] = set()
        at: str | None = start
        while at is not None and at not in passed:
            if at not in self._folders:
                return at
            folder = self._folders[at]
            if folder is None or (at in tops and len(tops) == 1):
                return None
            passed.add(at)
            at = folder.parent
        return None

    def _root_ids(self) -> dict[str, str]:
        if self._tops is None:
            self._tops = {}
            for partition, root in self._roots.all().items():
                self._tops[root.id] = partition
                self._folders.setdefault(root.id, FolderState(name=root.name, parent=root.parent))
        return self._tops

    def _load(self, drives: set[str]) -> bool:
        """Read the remembered folders of the roots in these drives; False if that was done before."""
        fresh = [
            partition
            for partition, root in self._roots.all().items()
            if (root.drive or "") in drives and partition not in self._loaded
        ]
        for partition in fresh:
            self._loaded.add(partition)
            for folder_id, folder in self._notes(partition).load().folders.items():
                self._folders.setdefault(folder_id, folder)
                if folder.access:
                    self._access.setdefault(folder_id, folder.access)
                self._temporary.setdefault(folder_id, folder.temporary)
        if fresh:
            self._trails.clear()
        return bool(fresh)

    def _load_access(self, folders: Iterable[str]) -> None:
        if any(one not in self._access for one in folders):
            self._load({root.drive or "" for root in self._roots.all().values()})

    def _ask(self, ids: list[str]) -> dict[str, FolderState | None]:
        many = [{"fileId": one, "fields": FOLDER_FIELDS, "supportsAllDrives": True} for one in ids]
        found = self._client.visible("files.get", many)
        return {
            one: folder_of(file) if file and not file.get("trashed") else None
            for one, file in zip(ids, found, strict=True)
        }


def folder_of(file: JSON, grant: FileGrant | None = None) -> FolderState:
    return FolderState(
        name=str(file["name"]),
        parent=parent_of(file),
        access="" if grant is None else grant.digest,
        limited=file.get("inheritedPermissionsDisabled") is True,
        closed=object_of(file.get("capabilities")).get("canListChildren") is False,
        temporary=grant is not None and grant.temporary,
    )


def parent_of(file: JSON) -> str | None:
    """Return the folder that contains a file, if the account may see it."""
    parents: list[str] = file.get("parents") or []
    return parents[0] if parents else None
