"""The memory of one partition: what is committed, with the changes to save with the next batch.

Keys: `!root` is the root, `!members` the members of its shared drive, `!until:TIME:ID` when a permission expires, `!again:TIME:ID`
when a folder whose readers changed is listed once more, `!opened:ID` who opened a file that is shared by link, `!renamed` that
someone's address has changed, `!linked` the folders that are indexed at the place of a shortcut, `f:ID` a folder, `p:ID` the principal
behind a permission id, `s:ID` a shortcut's target. Those with `!` are read at every sync, the rest only if something changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from resources.core.domain import SourceName
from resources.core.ports import Memory

RENAMED = "!renamed"
PERSON = "p:"
"""Before the permission ids of people and groups."""
AFTER_PERSON = "p;"
_AFTER_HEAD = '"'
"""The character after `!`."""


class FolderState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    parent: str | None = None
    access: str = ""
    """Digest of who may find it; its content inherits this."""
    limited: bool = False
    """True if it stops inherited permissions: then not everyone whom Drive lists may open it."""
    closed: bool = False
    """True if the account can see but not open it."""
    temporary: bool = False
    """True if one of its permissions expires: the ids of its content do not say until when they count."""


class Shortcut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    target: str
    parent: str
    folder: bool = False
    outside: bool = False
    """True if the target is in no root, so that no feed reports its changes."""


class RootNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A partition's root. `kind`: `mine`, `drive`, `folder` or `shared`; `drive`: the shared drive that contains it."""

    id: str
    name: str
    kind: str
    drive: str | None = None
    parent: str | None = None
    above: tuple[str, ...] = ()
    """Folders above a root folder: if they change, it may be in another drive or no longer visible."""


class PartitionState:
    """The memory of one partition with the changes of this sync. Not thread-safe: only the listing uses it."""

    def __init__(self, memory: Memory, partition: str) -> None:
        self._memory = memory
        self._partition = partition
        self._head: dict[str, Any] | None = None
        self._loaded = False
        self._early: list[Shortcut] | None = None
        self._pending: dict[str, Any] = {}
        self.folders: dict[str, FolderState] = {}
        self.people: dict[str, str] = {}
        self.shortcuts: dict[str, Shortcut] = {}

    def load(self) -> PartitionState:
        """Read folders, principals and shortcuts, once."""
        if not self._loaded:
            self._loaded = True
            for key, value in self._memory.read(SourceName.GOOGLE_DRIVE, self._partition, _AFTER_HEAD).items():
                kind, _, name = key.partition(":")
                if kind == "f":
                    self.folders[name] = msgspec.convert(value, FolderState)
                elif kind == "p":
                    self.people[name] = str(value)
                elif kind == "s":
                    self.shortcuts[name] = msgspec.convert(value, Shortcut)
        return self

    def watched(self) -> list[Shortcut]:
        """Return the partition's shortcuts to files outside every root, without reading the rest."""
        return [shortcut for shortcut in self._shortcuts() if shortcut.outside and not shortcut.folder]

    def links(self) -> list[Shortcut]:
        """Return the partition's shortcuts to folders, without reading the rest."""
        return [shortcut for shortcut in self._shortcuts() if shortcut.folder]

    @property
    def linked(self) -> list[str]:
        """The folders outside every root that were listed at the place of a shortcut."""
        return self._read_head().get("!linked", [])

    def set_linked(self, folders: list[str]) -> None:
        self._put_head("!linked", folders or None)

    @property
    def root(self) -> RootNote | None:
        value = self._read_head().get("!root")
        return None if value is None else msgspec.convert(value, RootNote)

    @property
    def members(self) -> list[str] | None:
        return self._read_head().get("!members")

    def due(self, now: datetime) -> list[str]:
        """Return the files with a permission that has expired since they were last seen, and remove their entries."""
        return self._due("!until:", now)

    def due_again(self, now: datetime) -> list[str]:
        """Return the folders to list once more, and remove their entries."""
        return self._due("!again:", now)

    @property
    def opened(self) -> dict[str, list[str]]:
        """Users who had opened each file that is shared by link when it was last described."""
        return {key.partition(":")[2]: who for key, who in self._read_head().items() if key.startswith("!opened:")}

    def set_opened(self, file_id: str, who: list[str] | None) -> None:
        self._put_head(f"!opened:{file_id}", who)

    def set_root(self, root: RootNote) -> None:
        self._put_head("!root", msgspec.to_builtins(root))

    def set_members(self, members: list[str]) -> None:
        self._put_head("!members", members)

    def set_end(self, when: datetime, file_id: str) -> None:
        """Remember to check a file again when one of its permissions expires."""
        self._put_head(f"!until:{_stamp(when)}:{file_id}", True)

    def set_again(self, when: datetime, folder_id: str) -> None:
        """Remember to list a folder, or the root, once more."""
        self._put_head(f"!again:{_stamp(when)}:{folder_id}", True)

    def set_folder(self, folder_id: str, folder: FolderState | None) -> None:
        _put(self.folders, self._pending, "f", folder_id, folder)

    @property
    def renamed(self) -> bool:
        """True if someone has another address than what is indexed says, so that the root must be listed again."""
        return RENAMED in self._read_head()

    def set_person(self, permission_id: str, principal: str) -> None:
        if self.people.get(permission_id, principal) != principal:
            self._put_head(RENAMED, value=True)
        _put(self.people, self._pending, "p", permission_id, principal)

    def set_shortcut(self, shortcut_id: str, shortcut: Shortcut | None) -> None:
        _put(self.shortcuts, self._pending, "s", shortcut_id, shortcut)

    def start_over(self) -> None:
        """Forget everything except the root, for a listing from the beginning."""
        self.load()
        for folder_id in list(self.folders):
            self.set_folder(folder_id, None)
        for shortcut_id in list(self.shortcuts):
            self.set_shortcut(shortcut_id, None)
        for permission_id in list(self.people):
            del self.people[permission_id]
            self._pending[f"{PERSON}{permission_id}"] = None
        for key in list(self._read_head()):
            if key == RENAMED or key.startswith(("!until:", "!opened:")):
                self._put_head(key, None)

    def take(self) -> dict[str, Any]:
        """Return the entries to save with the next batch, and clear them."""
        pending, self._pending = self._pending, {}
        return pending

    def below(self, folder_id: str) -> set[str]:
        """Return a folder and every remembered folder below it."""
        children: dict[str | None, list[str]] = {}
        for one, folder in self.folders.items():
            children.setdefault(folder.parent, []).append(one)
        found: set[str] = set()
        waiting = [folder_id]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += children.get(one, ())
        return found

    def inside(self, folder_id: str, top: str) -> bool:
        passed: set[str] = set()
        at: str | None = folder_id
        while at is not None and at not in passed:
            folder = self.folders.get(at)
            if folder is None:
                return False
            if at == top:
                return True
            passed.add(at)
            at = folder.parent
        return False

    def _shortcuts(self) -> list[Shortcut]:
        """Return the shortcuts in the order of their ids."""
        if self._loaded:
            return [shortcut for _, shortcut in sorted(self.shortcuts.items())]
        if self._early is None:
            found = self._memory.read(SourceName.GOOGLE_DRIVE, self._partition, "s:", "s;")
            self._early = [msgspec.convert(value, Shortcut) for _, value in sorted(found.items())]
        return self._early

    def _due(self, kind: str, now: datetime) -> list[str]:
        keys = [key for key in self._read_head() if key.startswith(kind) and key <= f"{kind}{_stamp(now)}:\x7f"]
        for key in keys:
            self._put_head(key, None)
        return [key.rpartition(":")[2] for key in keys]

    def _read_head(self) -> dict[str, Any]:
        if self._head is None:
            self._head = dict(self._memory.read(SourceName.GOOGLE_DRIVE, self._partition, "!", _AFTER_HEAD))
        return self._head

    def _put_head(self, key: str, value: Any) -> None:
        head = self._read_head()
        if head.get(key) != value:
            self._pending[key] = value
            if value is None:
                del head[key]
            else:
                head[key] = value


def _put(kept: dict[str, Any], pending: dict[str, Any], kind: str, key: str, value: Any) -> None:
    if kept.get(key) == value:
        return
    pending[f"{kind}:{key}"] = None if value is None else msgspec.to_builtins(value)
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _stamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
