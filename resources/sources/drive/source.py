"""The source `google_drive`: My Drive, shared drives and selected folders, kept up to date by Drive's change feeds.

A partition is a root. The first sync lists it in pages that resume after an interruption; later ones read its feed. A file's
readers are those that Drive reports, never more: see `permissions`.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property

from resources.core.domain import Batch, Item, SourceName
from resources.core.errors import AbortSyncError, LostPartitionError
from resources.core.ports import Memory, Source
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources.drive import content, cursor
from resources.sources.drive.auth import Authority
from resources.sources.drive.channels import Channels, address
from resources.sources.drive.client import DriveClient
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import Documents
from resources.sources.drive.faults import ForbiddenError, NotFoundError
from resources.sources.drive.feeds import Feeds
from resources.sources.drive.following import Following
from resources.sources.drive.listing import Listing
from resources.sources.drive.notes import PartitionState
from resources.sources.drive.readers import Readers
from resources.sources.drive.roots import Roots
from resources.sources.drive.targets import Targets
from resources.sources.drive.tree import FolderTree

_ROUNDS = 3
"""A feed that still cannot be followed after this many listings is left to the next sync."""


class Drive(Source):
    """`resources.core.ports.Source` over Google Drive. `changes` is for one thread at a time, `fetch` for many."""

    fetchers = 12
    costly = True

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._sleep = sleep
        self._now = now
        self._tally = Tally()
        self._authority = Authority(settings, self._tally)
        self._kept: dict[str, PartitionState] = {}

    @property
    def name(self) -> SourceName:
        return SourceName.GOOGLE_DRIVE

    @property
    def tally(self) -> Tally:
        """Calls by method of Drive's API, including each call inside a batch."""
        return self._tally

    def partitions(self) -> list[str]:
        """Return the roots: `my_drive`, ids of shared drives and folders. Raises if the shared drives cannot be listed."""
        return self._roots.partitions()

    def retired(self, known: list[str]) -> list[str]:
        """Return the known roots that are no longer in CONCORDANCE_DRIVE_ROOTS."""
        return self._roots.retired(known)

    def lost(self, known: list[str]) -> list[str]:
        """Return the known shared drives that the account no longer sees."""
        return self._roots.lost(known)

    def subscribe(self) -> None:
        """Have Google send word of changes in each feed, where CONCORDANCE_PUBLIC_URL is an address for it."""
        feeds: dict[str, list[str]] = {}
        watches = address(self._settings) is not None
        for partition, root in self._roots.all().items() if watches else ():
            feeds.setdefault(root.drive or "", []).append(partition)
        Channels(self._settings, self._client, self._feeds, self._authority.account, self._now).ensure(feeds)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since the cursor; everything without one, or if the account, a setting or Drive invalidated it."""
        try:
            yield from self._changes(partition, cursor)
        except (NotFoundError, ForbiddenError) as error:
            raise LostPartitionError(f"The root {partition} of Drive can no longer be read: {error}") from None

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield a file's bytes, exported if it is a Google document; one attempt."""
        return content.fetch(self._client, item, self._settings.max_file_bytes)

    def _changes(self, partition: str, saved: str | None) -> Iterator[Batch]:
        if partition not in self.partitions():
            raise AbortSyncError(f"Drive has no root {partition!r} in CONCORDANCE_DRIVE_ROOTS.")
        at = cursor.decode(saved)
        if at is not None and at.account != self._view:
            at = None
        relist = saved is not None
        refused = False
        for _ in range(_ROUNDS):
            if at is None or at.listing is not None:
                at = yield from self._listing.run(partition, at, relist=relist)
            restart = yield from self._following.run(partition, at)
            if restart is None:
                return
            if restart.refused:
                if refused:
                    raise AbortSyncError(
                        f"{restart.refused} Drive issued this token during this sync, so the root is not listed again now; "
                        "the next sync tries again."
                    )
                refused = True
                yield self._relisting_notice(partition, restart.refused, at)
            before = restart.before
            at = yield from self._listing.run(partition, before, relist=True)
        raise AbortSyncError("Drive's change feed cannot currently be followed; the next sync tries again.")

    def _relisting_notice(self, partition: str, reason: str, at: DriveCursor) -> Batch:
        """Return an empty batch with a notice of why the root is listed although a cursor is saved."""
        notice = f"{reason} The root is listed from the beginning; unchanged files are not downloaded again."
        return Batch(partition=partition, cursor=cursor.encode(at), listing="page", notice=notice)

    def _notes(self, partition: str) -> PartitionState:
        if partition not in self._kept:
            self._kept[partition] = PartitionState(self._memory, partition)
        return self._kept[partition]

    @cached_property
    def _view(self) -> str:
        return cursor.view(self._authority.account, follows_shortcuts=self._settings.drive_follow_shortcuts)

    @cached_property
    def _client(self) -> DriveClient:
        return DriveClient(self._settings, self._authority, self._tally, sleep=self._sleep)

    @cached_property
    def _roots(self) -> Roots:
        return Roots(self._settings, self._client, self._notes)

    @cached_property
    def _tree(self) -> FolderTree:
        return FolderTree(self._client, self._roots, self._notes)

    @cached_property
    def _feeds(self) -> Feeds:
        return Feeds(self._client)

    @cached_property
    def _readers(self) -> Readers:
        return Readers(self._client, self._now)

    @cached_property
    def _documents(self) -> Documents:
        return Documents(self._settings, self._client, self._tree, self._readers, self._notes)

    @cached_property
    def _listing(self) -> Listing:
        return Listing(
            self._client,
            self._roots,
            self._tree,
            self._feeds,
            self._readers,
            self._documents,
            self._notes,
            self._view,
        )

    @cached_property
    def _following(self) -> Following:
        return Following(
            self._roots,
            self._tree,
            self._feeds,
            self._readers,
            self._documents,
            self._listing,
            Targets(self._roots, self._documents, self._notes),
            self._notes,
            self._now,
        )
