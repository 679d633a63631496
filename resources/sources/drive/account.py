"""One Google account's part of Drive: its roots, their listings and their change feeds; and several of them together.

A partition is a root. The first sync lists it in pages that resume after an interruption; later ones read its feed. A file's
readers are those that Drive reports, never more: see `permissions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import msgspec

from resources.core.domain import Batch, Item, Refusal
from resources.core.errors import AbortSyncError, AuthorizationError, FailedDocumentError, LostPartitionError
from resources.core.ports import Memory
from resources.settings import Settings
from resources.sources.drive import content, cursor
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.cursor import DriveCursor
from resources.sources.drive.documents import DriveDocuments
from resources.sources.drive.faults import ForbiddenError, NotFoundError, RejectedCallError
from resources.sources.drive.feeds import Feeds
from resources.sources.drive.following import Following
from resources.sources.drive.listing import RootListing, SharedWithMe
from resources.sources.drive.notes import PartitionState
from resources.sources.drive.readers import Links, Readers, owner_of
from resources.sources.drive.roots import MY_DRIVE, SHARED_WITH_ME, TITLE, Roots
from resources.sources.drive.shortcuts import LinkedFolders, Targets
from resources.sources.drive.tree import FolderTree

_ROUNDS = 3
"""A feed that still cannot be followed after this many listings is left to the next sync."""


class Account:
    """The roots of one account. `changes` is for one thread at a time, `fetch` and `look_again` for many, between its batches."""

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        client: DriveClient,
        wanted: Sequence[str],
        key: Callable[[], str],
        now: Callable[[], datetime],
        links: Links,
        *,
        mine: str = MY_DRIVE,
        title: str = TITLE,
        elsewhere: Callable[[JSON], bool] | None = None,
        only_shared: bool = False,
    ) -> None:
        """Read the roots in `wanted` with a client; `mine` and `title` are the key and name of the account's My Drive.

        `key` identifies the account in cursors. If other accounts read other roots, `elsewhere` returns True for a file in one of
        theirs, and what leaves a root may have moved there.
        """
        self._settings = settings
        self._memory = memory
        self._client = client
        self._key = key
        self._now = now
        self._links = links
        self._alone = elsewhere is None
        self._closed = self._alone and SHARED_WITH_ME not in wanted
        """True if nothing that leaves a root can have moved to a root that this account's feeds do not cover."""
        self._elsewhere = elsewhere or _nowhere
        self._kept: dict[str, PartitionState] = {}
        self._looking = Lock()
        self.roots = Roots(wanted, client, self._notes, mine, title, only_shared=only_shared)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since the cursor; everything without one, or if the account, a setting or Drive invalidated it."""
        try:
            for batch in self._changes(partition, cursor):
                yield batch if self._closed else msgspec.structs.replace(batch, own=True)
        except (NotFoundError, ForbiddenError) as error:
            raise LostPartitionError(f"The root {partition} of Drive can no longer be read: {error}") from None

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield a file's bytes, exported if it is a Google document; one attempt."""
        try:
            yield from content.fetch(self._client, item, self._settings.max_file_bytes)
        except (NotFoundError, ForbiddenError, RejectedCallError) as error:  # the listing showed it, so this may pass
            raise FailedDocumentError(str(error)) from error

    def look_again(self, item: Item) -> Item | None:
        """Return a document as it is now, if it is still in the same root."""
        try:
            found = self._here(item.partition, [item.source_id])
        except RejectedCallError as error:  # of this file alone, as in `fetch`
            raise FailedDocumentError(str(error)) from error
        return next((one for one in found if isinstance(one, Item)), None)

    def missing(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:
        """Return those of the files that are in the root, a hundred in a request.

        What others share is in a root of our own, and is no longer in it when a listing does not show it.
        """
        return [] if partition == SHARED_WITH_ME else self._here(partition, source_ids)

    def _here(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:
        with self._looking:
            files = [file for file in self._documents.ask(sorted(source_ids)).values() if file is not None]
            found = self._documents.describe(files, self._notes(partition)).once()
        shown = (*found.seen, *found.refused)
        return [one for one in shown if one.partition == partition and one.source_id in source_ids]

    def _changes(self, partition: str, saved: str | None) -> Iterator[Batch]:
        if partition not in self.roots.partitions():
            raise AbortSyncError(f"Drive has no root {partition!r} in CONCORDANCE_DRIVE_ROOTS.")
        if partition == SHARED_WITH_ME:
            yield from self._shared.run()
            return
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
        return cursor.view(
            self._key(),
            follows_shortcuts=self._settings.drive_follow_shortcuts,
            links=self._links.setting,
            labels=self._settings.drive_labels,
            comments=self._settings.drive_comments,
            largest=self._settings.max_file_bytes,
        )

    @cached_property
    def _tree(self) -> FolderTree:
        return FolderTree(
            self._client, self.roots, self._notes, follows_shortcuts=self._settings.drive_follow_shortcuts
        )

    @cached_property
    def feeds(self) -> Feeds:
        return Feeds(self._client, others=self._alone)

    @cached_property
    def _readers(self) -> Readers:
        return Readers(self._client, self._now, self._links)

    @cached_property
    def _documents(self) -> DriveDocuments:
        return DriveDocuments(
            self._settings, self._client, self._tree, self._readers, self._links, self._notes, self._elsewhere
        )

    @cached_property
    def _listing(self) -> RootListing:
        return RootListing(
            self._client,
            self.roots,
            self._tree,
            self.feeds,
            self._readers,
            self._documents,
            lambda partition: self._linked.pages(partition),
            self._notes,
            self._view,
        )

    @cached_property
    def _shared(self) -> SharedWithMe:
        return SharedWithMe(self.roots, self._tree, self._listing, self._documents, self._notes, self._view)

    @cached_property
    def _targets(self) -> Targets:
        return Targets(self.roots, self._documents, self._notes)

    @cached_property
    def _linked(self) -> LinkedFolders:
        return LinkedFolders(self.roots, self._tree, self._listing, self._documents, self._targets, self._notes)

    @cached_property
    def _following(self) -> Following:
        return Following(
            self.roots,
            self._tree,
            self.feeds,
            self._readers,
            self._documents,
            self._listing,
            self._targets,
            self._linked,
            self._links,
            self._notes,
            self._now,
        )


def _nowhere(_: JSON) -> bool:
    return False


class _Found(NamedTuple):
    """The account that reads each partition, one that Google does not refuse, and whether it refuses another."""

    readers: dict[str, str]
    able: Account
    refused: bool


class SeveralAccounts(ABC):
    """Accounts that each read some roots."""

    def fetch(self, item: Item) -> Iterator[bytes]:
        with self._account_of(item.partition) as account:
            yield from account.fetch(item)

    def look_again(self, item: Item) -> Item | None:
        with self._account_of(item.partition) as account:
            return account.look_again(item)

    def missing(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:
        with self._account_of(partition) as account:
            return account.missing(partition, source_ids)

    @abstractmethod
    def _account_of(self, partition: str) -> AbstractContextManager[Account]:
        """Provide the account that reads a root. Raises `AbortSyncError` if Google refuses it: the others continue."""
        ...


class Accounts(SeveralAccounts):
    """The connected accounts by their emails, those connected earlier first: each reads its own My Drive with its own cursor.

    A shared drive or folder that several see is read by the one that was connected earliest. An account that Google refuses does not
    stop the others, and what only it could read stays as it is.
    """

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self.first = next(iter(accounts.values()))

    def partitions(self) -> list[str]:
        """Return everything that the accounts read. Raises `AuthorizationError` if Google refuses all of them."""
        return sorted(self._found.readers)

    def lost(self, known: list[str]) -> list[str]:
        """Return the known shared drives that no account sees any more; none while an account is refused, which may see them."""
        found = self._found
        return [] if found.refused else [one for one in found.able.roots.lost(known) if one not in found.readers]

    def retired(self, known: list[str]) -> list[str]:
        """Return the known roots that are no longer configured, and the My Drives of accounts that are no longer connected."""
        found = self._found
        return [one for one in found.able.roots.retired(known) if one not in found.readers]

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield as `Account.changes`. Raises `AbortSyncError` instead of `AuthorizationError`: the other accounts continue."""
        email = self._reader(partition)
        try:
            yield from self._accounts[email].changes(partition, cursor)
        except AuthorizationError as error:
            raise AbortSyncError(f"{partition} cannot be read with the account {email}: {error}") from None

    @contextmanager
    def _account_of(self, partition: str) -> Generator[Account]:
        email = self._reader(partition)
        try:
            yield self._accounts[email]
        except AuthorizationError as error:
            raise AbortSyncError(f"A file of {partition} cannot be read with the account {email}: {error}") from None

    def reads(self, file: JSON) -> bool:
        """Return True if a file or folder is in the My Drive of an account, or in a shared drive that one reads."""
        drive = file.get("driveId")
        return drive in self._found.readers if drive is not None else owner_of(file) in self._owners

    @cached_property
    def _owners(self) -> frozenset[str]:
        return frozenset(email for email, account in self._accounts.items() if account.roots.mine is not None)

    def _reader(self, partition: str) -> str:
        return self._found.readers.get(partition, next(iter(self._accounts)))

    @cached_property
    def _found(self) -> _Found:
        readers: dict[str, str] = {}
        able: list[Account] = []
        refused: list[AuthorizationError] = []
        for email, account in self._accounts.items():
            try:
                for partition in account.roots.visible():
                    readers.setdefault(partition, email)
                able.append(account)
            except AuthorizationError as error:
                refused.append(error)
                if account.roots.mine is not None:
                    readers[account.roots.mine] = email  # reading it reports the refusal
        if not able:
            raise refused[0]
        if not refused:
            for partition in self.first.roots.partitions():  # folders that no account sees: reading them reports it
                readers.setdefault(partition, next(iter(self._accounts)))
        return _Found(readers, able[0], bool(refused))
