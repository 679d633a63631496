"""Turn files from a listing or a feed into items and refusals, and identify those outside every root.

Shortcuts are resolved here, once. A target inside a root is indexed there anyway. One outside every root is refused, unless
`drive_follow_shortcuts` is set: then it becomes a document at the shortcut's place, with its own id and permissions. What is
in a folder likewise appears below the shortcut's place: see `shortcuts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import msgspec

from resources.core.domain import Folder, Item, Refusal
from resources.core.errors import SkipDocumentError
from resources.core.json import object_of
from resources.settings import Settings
from resources.sources.drive import labels, readers
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.content import DOCUMENT, FOLDER, SHORTCUT, WITH_COMMENTS, kind_of, version_of
from resources.sources.drive.faults import NOT_DOWNLOADABLE
from resources.sources.drive.notes import PartitionState, Shortcut
from resources.sources.drive.permissions import FileGrant, moment
from resources.sources.drive.readers import Links, Readers
from resources.sources.drive.roots import SHARED_WITH_ME
from resources.sources.drive.tree import FolderTree, Trail, folder_of, parent_of
from resources.sources.tree import EMPTY, too_large

FILE_FIELDS = (
    "id,name,mimeType,description,parents,driveId,trashed,trashedTime,createdTime,modifiedTime,version,size,md5Checksum,"
    "headRevisionId,webViewLink,owners(emailAddress,displayName),lastModifyingUser(emailAddress,displayName),"
    f"permissions({readers.FIELDS}),permissionIds,hasAugmentedPermissions,shortcutDetails(targetId,targetMimeType),"
    f"inheritedPermissionsDisabled,capabilities(canListChildren,canDownload,canReadLabels),{labels.FIELDS}"
)
"""Requested fields: by default Drive returns only four."""
_OUTSIDE = (
    "It is a shortcut to a file outside CONCORDANCE_DRIVE_ROOTS: add the file's folder to that setting, or set "
    "CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS=true."
)
_FOLDER_OUTSIDE = (
    "It is a shortcut to a folder outside CONCORDANCE_DRIVE_ROOTS: set CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS=true, or add the "
    "folder to CONCORDANCE_DRIVE_ROOTS: {}."
)
_UNREADABLE = "It is a shortcut to a file or folder that was deleted, is in the trash or not shared with the account that reads Drive."


def describe(
    file: JSON, trail: Trail, folders: tuple[Folder, ...], grant: FileGrant, settings: Settings
) -> Item | Refusal:
    """Return the document, or a refusal if there is a reason for one; `folders` are those of the trail."""
    name = str(file["name"])
    size = _whole_number(file.get("size"))
    try:
        kind = kind_of(name, str(file["mimeType"]))
    except SkipDocumentError as error:
        return refuse(file, trail, str(error))
    if (reason := labels.refusal(file, settings.drive_labels)) is not None:
        return refuse(file, trail, reason)
    if object_of(file.get("capabilities")).get("canDownload") is False:
        # here, and not only when it is fetched: its version is the same when it is allowed again
        return refuse(file, trail, NOT_DOWNLOADABLE)
    if kind.way == "media" and size is not None and not 0 < size <= settings.max_file_bytes:
        return refuse(file, trail, too_large(size, settings.max_file_bytes) if size else EMPTY)
    owner = readers.owner_of(file)
    commented = settings.drive_comments and file["mimeType"] == DOCUMENT
    return Item(
        source_id=file["id"],
        partition=trail.partition,
        title=name,
        path="/".join((*trail.names, name)),
        mime_type=kind.mime_type,
        version=version_of(file, commented=commented),
        permissions=tuple(sorted(grant.principals)),
        owner=owner,
        author=owner or _author(file),
        url=file.get("webViewLink"),
        # for Google's own formats Drive reports the storage used, not the size of an export
        size=size if kind.way == "media" else None,
        created_at=moment(file.get("createdTime")),
        modified_at=moment(file.get("modifiedTime")),
        collection_ids=trail.folders,
        folders=folders,
        tags={"sharing": grant.sharing, **labels.tags(file, settings.drive_labels)},
        description=file.get("description") or None,
        locator=WITH_COMMENTS if commented else kind.way,
    )


def refuse(file: JSON, trail: Trail, reason: str) -> Refusal:
    name = str(file["name"])
    return Refusal(
        source_id=file["id"],
        partition=trail.partition,
        title=name,
        path="/".join((*trail.names, name)),
        reason=reason,
        version=version_of(file),
        owner=readers.owner_of(file),
        collection_ids=trail.folders,
    )


def _author(file: JSON) -> str | None:
    """Return the last editor: files in shared drives have no owner."""
    person: JSON = file.get("lastModifyingUser") or {}
    return person.get("emailAddress") or person.get("displayName")


def _whole_number(value: Any) -> int | None:
    return int(value) if isinstance(value, str | int) and str(value).isdigit() else None


@dataclass
class DescribedFiles:
    """The result of describing files. `settled` are shortcuts that are not documents themselves."""

    seen: list[Item] = field(default_factory=list[Item])
    refused: list[Refusal] = field(default_factory=list[Refusal])
    outside: list[JSON] = field(default_factory=list[JSON])
    settled: list[str] = field(default_factory=list[str])

    def once(self) -> DescribedFiles:
        """Return the same with each document once, in its last description: a batch must not contain duplicates."""
        self.seen = list({item.source_id: item for item in self.seen}.values())
        shown = {item.source_id for item in self.seen}
        refused = {refusal.source_id: refusal for refusal in self.refused if refusal.source_id not in shown}
        self.refused = list(refused.values())
        return self

    def add(self, other: DescribedFiles) -> None:
        self.seen += other.seen
        self.refused += other.refused
        self.outside += other.outside
        self.settled += other.settled


class DriveDocuments:
    def __init__(
        self,
        settings: Settings,
        client: DriveClient,
        tree: FolderTree,
        readers: Readers,
        links: Links,
        notes: Callable[[str], PartitionState],
        elsewhere: Callable[[JSON], bool],
    ) -> None:
        """`elsewhere` tells of a file whether another account indexes it."""
        self.is_elsewhere = elsewhere
        self._settings = settings
        self.follows_shortcuts = settings.drive_follow_shortcuts
        self._client = client
        self._tree = tree
        self._readers = readers
        self._links = links
        self._notes = notes

    def describe(self, files: Sequence[JSON], notes: PartitionState) -> DescribedFiles:
        """Describe files and shortcuts (no folders) that are not in the trash; `notes` belong to the partition that found them."""
        found = DescribedFiles()
        self._tree.find(files, notes)
        places: list[tuple[JSON, Trail]] = []
        shortcuts: list[tuple[JSON, Trail]] = []
        for file in files:
            trail = self._tree.trail(parent_of(file))
            if trail is None:
                found.outside.append(file)
            elif file["mimeType"] == SHORTCUT:
                shortcuts.append((file, trail))
            else:
                places.append((file, trail))
        self.place(places, found)
        if shortcuts:
            self._resolve(shortcuts, found, notes)
        return found

    def place(self, files: Iterable[tuple[JSON, Trail]], found: DescribedFiles) -> None:
        by_partition: dict[str, list[tuple[JSON, Trail]]] = {}
        for file, trail in files:
            by_partition.setdefault(trail.partition, []).append((file, trail))
        for partition, placed in by_partition.items():
            notes = self._notes(partition)
            grants = self.grants(notes, [file for file, _ in placed])
            for file, trail in placed:
                grant = self._with_openers(file, grants[file["id"]], notes)
                if partition == SHARED_WITH_ME:
                    # Drive tells those who may only read it of no other reader; that the account reads it is known all the same
                    grant = grant._replace(principals=grant.principals | self._links.account)
                document = describe(file, trail, self._tree.chain(trail), grant, self._settings)
                if isinstance(document, Refusal):
                    found.refused.append(document)
                    continue
                found.seen.append(document)
                if grant.expires is not None:
                    notes.set_end(grant.expires, file["id"])

    def _with_openers(self, file: JSON, grant: FileGrant, notes: PartitionState) -> FileGrant:
        """Add the people who opened a file that is shared by link, and remember them, so that a change of them is noticed."""
        if not self._links.asks:
            return grant
        opened = self._links.opened(file["id"]) if grant.linked else None
        notes.set_opened(file["id"], None if opened is None else sorted(opened))
        return grant._replace(principals=grant.principals | opened) if opened else grant

    def grants(self, notes: PartitionState, files: Sequence[JSON]) -> dict[str, FileGrant]:
        return self._readers.grants(notes.load(), files, self._is_limited, self._may_expire)

    def ask(self, ids: Sequence[str]) -> dict[str, JSON | None]:
        """Return the current state of files; None for those deleted, trashed or not visible."""
        many = [{"fileId": one, "fields": FILE_FIELDS, "supportsAllDrives": True} for one in ids]
        found = self._client.visible("files.get", many)
        return {one: file if file and not file.get("trashed") else None for one, file in zip(ids, found, strict=True)}

    def look_up(self, ids: Set[str], notes: PartitionState) -> dict[str, JSON | None]:
        """Return the targets of shortcuts, and find out where they are."""
        targets = self.ask(sorted(ids)) if ids else {}
        for target_id, target in targets.items():
            if target is None or target["mimeType"] == FOLDER:
                self._tree.learn(target_id, None if target is None else folder_of(target))
        self._tree.relink()
        self._tree.find([target for target in targets.values() if target is not None], notes)
        return targets

    def target(self, shortcuts: Iterable[Shortcut], file: JSON, found: DescribedFiles, notes: PartitionState) -> bool:
        """Describe a target outside every root at the first of its shortcuts with a known location.

        Return False if there is none, or if shortcuts are not followed.
        """
        if not self.follows_shortcuts:
            return False
        for shortcut in shortcuts:
            self._tree.find([{"parents": [shortcut.parent]}], notes)
            trail = self._tree.trail(shortcut.parent)
            if trail is not None:
                self.place([(file, trail)], found)
                return True
        return False

    def is_inside(self, file: JSON, notes: PartitionState) -> bool:
        self._tree.find([file], notes)
        return self._is_placed(file)

    def _is_limited(self, file: JSON) -> bool:
        return file.get("inheritedPermissionsDisabled") is True or self._tree.limited(parent_of(file))

    def _may_expire(self, file: JSON) -> bool:
        """Return True for what lies in a shared drive and has permissions of its own, or is below a folder with one that expires.

        What a root inherits from folders above it, which are not known, is asked for with the root.
        """
        if file.get("driveId") is None:
            return False
        own = file.get("hasAugmentedPermissions") is True or self._tree.is_root(file["id"])
        return own or self._tree.temporary(parent_of(file))

    def _resolve(self, shortcuts: Sequence[tuple[JSON, Trail]], found: DescribedFiles, notes: PartitionState) -> None:
        pointing: list[tuple[JSON, Trail, Shortcut]] = []
        for file, trail in sorted(shortcuts, key=lambda one: one[0]["id"]):
            details: JSON = file.get("shortcutDetails") or {}
            if not details.get("targetId"):
                found.refused.append(refuse(file, trail, "It is a shortcut to something that no longer exists."))
                continue
            folder = details.get("targetMimeType") == FOLDER
            shortcut = Shortcut(target=str(details["targetId"]), parent=parent_of(file) or "", folder=folder)
            pointing.append((file, trail, shortcut))
            self._notes(trail.partition).load().set_shortcut(file["id"], shortcut)
        targets = self.look_up({shortcut.target for _, _, shortcut in pointing}, notes)
        outside: dict[str, tuple[JSON, Trail]] = {}
        for file, trail, shortcut in pointing:
            target = targets[shortcut.target]
            inside = target is not None and self._is_placed(target)
            self._notes(trail.partition).set_shortcut(file["id"], msgspec.structs.replace(shortcut, outside=not inside))
            if target is None or target["mimeType"] == SHORTCUT or (shortcut.folder and folder_of(target).closed):
                found.refused.append(refuse(file, trail, _UNREADABLE))
            elif not inside and not self.follows_shortcuts:
                reason = _FOLDER_OUTSIDE.format(shortcut.target) if shortcut.folder else _OUTSIDE
                found.refused.append(refuse(file, trail, reason))
            else:
                found.settled.append(file["id"])
                if not inside and not shortcut.folder:
                    outside.setdefault(shortcut.target, (target, trail))
        self.place(outside.values(), found)

    def _is_placed(self, target: JSON) -> bool:
        """Return True if the target of a shortcut is indexed without it."""
        folder = target["mimeType"] == FOLDER
        placed = self._tree.inside(target["id"]) if folder else self._tree.trail(parent_of(target)) is not None
        return placed or (self.follows_shortcuts and self.is_elsewhere(target))
