"""The parts of Drive that one account reads: partitions and their roots, from the settings and the visible shared drives.

A partition is `my_drive` (or the key that it has among several), the id of a shared drive or the id of a folder, or `shared_with_me`, whose
root exists in no Drive. A configured
root that is not visible is lost, not deleted: its documents are hidden until it can be read again. A root that is no longer
configured is retired.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from resources.core.errors import ConfigurationError, LostPartitionError
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.content import FOLDER
from resources.sources.drive.faults import ForbiddenError, NotFoundError
from resources.sources.drive.notes import PartitionState, RootNote

MY_DRIVE = "my_drive"
SHARED_DRIVES = "shared_drives"
SHARED_WITH_ME = "shared_with_me"
"""What other people shared with the account: a root only if the settings name it."""
TITLE = "My Drive"
SHARED_TITLE = "Shared with me"
_DRIVE_IDS = "0A"
"""Observed prefix of shared drive ids; used only for an id about which nothing else is known."""


class Roots:
    """The roots of one sync. The list of shared drives is requested once, when first needed."""

    def __init__(
        self,
        wanted: Sequence[str],
        client: DriveClient,
        notes: Callable[[str], PartitionState],
        mine: str = MY_DRIVE,
        title: str = TITLE,
        *,
        only_shared: bool = False,
    ) -> None:
        """With `only_shared`, folders of My Drives are refused: they are read with the drives of their owners."""
        self._client = client
        self._notes = notes
        self._my_drive = mine
        self._title = title
        self._only_shared = only_shared
        self._mine = MY_DRIVE in wanted
        self._every_drive = SHARED_DRIVES in wanted
        self._shared = SHARED_WITH_ME in wanted
        self._ids = frozenset(wanted) - {MY_DRIVE, SHARED_DRIVES, SHARED_WITH_ME}
        self._found: dict[str, RootNote] = {}

    @cached_property
    def drives(self) -> dict[str, str]:
        """Names of the visible shared drives, by id. Raises if they cannot be listed."""
        if not self._every_drive and not self._ids:
            return {}
        fields = "nextPageToken,drives(id,name)"
        return {
            drive["id"]: drive["name"]
            for drive in self._client.pages("drives.list", "drives", pageSize=100, fields=fields)
        }

    def partitions(self) -> list[str]:
        """Return the partitions that are configured and, as far as one call shows, readable."""
        found = {self._my_drive} if self._mine else set[str]()
        found |= {SHARED_WITH_ME} if self._shared else set[str]()
        found |= set(self.drives) if self._every_drive else set[str]()
        return sorted(found | {one for one in self._ids if one in self.drives or not self._is_drive(one)})

    def visible(self) -> list[str]:
        """Return the partitions without the configured folders that the account does not see: one more call for those."""
        found = self.partitions()
        folders = [one for one in found if one in self._ids and one not in self.drives]
        many = [{"fileId": one, "fields": "id", "supportsAllDrives": True} for one in folders]
        seen = self._client.visible("files.get", many) if many else ()
        unseen = {one for one, file in zip(folders, seen, strict=True) if file is None}
        return [one for one in found if one not in unseen]

    @property
    def mine(self) -> str | None:
        """The key of the account's My Drive, if that is a root."""
        return self._my_drive if self._mine else None

    def lost(self, known: list[str]) -> list[str]:
        """Return the known shared drives that are configured and not visible; a lost folder is detected when it is read."""
        return [one for one in known if self._is_wanted(one) and self._is_drive(one) and one not in self.drives]

    def retired(self, known: list[str]) -> list[str]:
        """Return the known partitions that are no longer configured."""
        return [one for one in known if not self._is_wanted(one)]

    def root(self, partition: str, *, fresh: bool = False) -> RootNote:
        """Return the root of a partition, as remembered unless `fresh`.

        Raises `LostPartitionError` if it cannot be read or is not a folder.
        """
        if fresh or partition not in self._found:
            self._found[partition] = self._look(partition, fresh=fresh)
        return self._found[partition]

    def all(self) -> dict[str, RootNote]:
        """Return the root of every partition that can be read."""
        for partition in self.partitions():
            if partition not in self._found:
                try:
                    self.root(partition)
                except (ConfigurationError, LostPartitionError):
                    continue  # reported when this partition is synced
        return self._found

    def update(self, partition: str, **facts: Any) -> RootNote:
        """Record new facts about a root, as fields of `RootNote`."""
        self._found[partition] = msgspec.structs.replace(self.root(partition), **facts)
        return self._found[partition]

    def _look(self, partition: str, *, fresh: bool) -> RootNote:
        if partition == SHARED_WITH_ME and self._shared:
            return RootNote(id=SHARED_WITH_ME, name=SHARED_TITLE, kind="shared")
        if partition in self.drives:
            return RootNote(id=partition, name=self.drives[partition], kind="drive", drive=partition)
        if not self._is_wanted(partition) or self._is_drive(partition):
            raise LostPartitionError(f"The shared drive {partition} can no longer be read.")
        kept = None if fresh else self._notes(partition).root
        if kept is not None:
            return kept
        fields = "id,name,mimeType,parents,driveId"
        found: JSON
        if partition == self._my_drive:
            found = self._client.call("files.get", fileId="root", fields=fields)
            return RootNote(id=found["id"], name=self._title, kind="mine")
        try:
            found = self._client.call("files.get", fileId=partition, fields=fields, supportsAllDrives=True)
        except (NotFoundError, ForbiddenError):
            raise LostPartitionError(
                f"CONCORDANCE_DRIVE_ROOTS names {partition!r}, which does not exist or is not shared with the account "
                "that reads Drive: share it, or remove it from the setting."
            ) from None
        if found["mimeType"] != FOLDER:
            raise LostPartitionError(
                f"CONCORDANCE_DRIVE_ROOTS names {partition!r}, which is a file ({found['name']!r}): name a folder."
            )
        if self._only_shared and found.get("driveId") is None:
            raise ConfigurationError(
                f"CONCORDANCE_DRIVE_ROOTS names {partition!r}, a folder in a user's My Drive. With CONCORDANCE_DRIVE__USERS, My Drives "
                "are read as a whole: remove the folder, and add its owner to users."
            )
        parents: list[str] = found.get("parents") or []
        parent = parents[0] if parents else None
        return RootNote(id=partition, name=found["name"], kind="folder", drive=found.get("driveId"), parent=parent)

    def _is_wanted(self, partition: str) -> bool:
        if partition == self._my_drive:
            return self._mine
        if partition == SHARED_WITH_ME:
            return self._shared
        return partition in self._ids or (self._every_drive and self._is_drive(partition))

    def _is_drive(self, partition: str) -> bool:
        if partition in {self._my_drive, SHARED_WITH_ME}:
            return False
        if partition in self.drives:
            return True
        kept = self._notes(partition).root
        return kept.kind == "drive" if kept is not None else partition.startswith(_DRIVE_IDS)
