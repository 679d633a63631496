"""My Drives of a whole company: each chosen user of the directory is a partition, read in that user's name by domain-wide delegation.

A user who is suspended, archived, gone or denied is lost: the documents are hidden at once. One who is merely no longer named by
`drive_users` is retired, like a root that leaves the settings. A user whom Google refuses does not stop the others.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from resources.core.domain import Batch
from resources.core.errors import AbortSyncError, AuthorizationError, DocumentError, LostPartitionError
from resources.core.ports import Memory
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources.drive.account import Account, SeveralAccounts
from resources.sources.drive.auth import Authority, RefusedUserError
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.directory import GoogleDirectory, GoogleUser
from resources.sources.drive.readers import Links, owner_of
from resources.sources.drive.roots import MY_DRIVE

_LINKED = "(visibility = 'anyoneWithLink' or visibility = 'domainWithLink') and trashed = false"
"""Source: https://developers.google.com/workspace/drive/api/guides/ref-search-terms"""
_EVERYWHERE: Mapping[str, Any] = {
    "pageSize": 1000,
    "includeItemsFromAllDrives": True,
    "supportsAllDrives": True,
    "fields": "nextPageToken,files(id,viewedByMe)",
}
PREFIX = "user-"


class Company(SeveralAccounts):
    """The users' drives. The directory is read once per sync, when first needed."""

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        client: DriveClient,
        authority: Authority,
        tally: Tally,
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
        shared_drives: Callable[[], Collection[str]],
    ) -> None:
        """`shared_drives` returns those that the account of the settings reads."""
        self._shared_drives = shared_drives
        self._settings = settings
        self._memory = memory
        self._client = client
        self._authority = authority
        self._tally = tally
        self._now = now
        self._sleep = sleep
        self._accounts: dict[str, Account] = {}
        self._clients: dict[str, DriveClient] = {}

    def partitions(self) -> list[str]:
        """Return the drives that are read. Raises if the directory cannot be listed."""
        if not self._settings.drive_users:
            return []
        return sorted(key for key, user in self.users.items() if user.active and self._is_chosen(user))

    def retired(self, known: list[str]) -> list[str]:
        """Return the known drives of users whom the setting no longer names, and does not deny."""
        if not self._settings.drive_users:
            return [one for one in known if is_user(one)]
        gone = set(self.lost(known))
        there = set(self.partitions())
        return [one for one in known if is_user(one) and one not in there and one not in gone]

    def lost(self, known: list[str]) -> list[str]:
        """Return the known drives of users who are suspended, archived, denied, or no longer in the directory."""
        if not self._settings.drive_users:
            return []
        return [one for one in known if is_user(one) and self._is_lost(self.users.get(one))]

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield as `Account.changes`. Raises `LostPartitionError` if Google refuses the user, and never `AuthorizationError`."""
        try:
            yield from self._account(partition).changes(partition, cursor)
        except RefusedUserError as error:
            raise LostPartitionError(f"The My Drive of {self._email(partition)} cannot be read: {error}") from None
        except AuthorizationError as error:
            raise AbortSyncError(f"The My Drive of {self._email(partition)} cannot be read: {error}") from None

    @contextmanager
    def _account_of(self, partition: str) -> Generator[Account]:
        try:
            yield self._account(partition)
        except AuthorizationError as error:
            raise AbortSyncError(f"The My Drive of {self._email(partition)} cannot be read: {error}") from None

    def reads(self, file: JSON) -> bool:
        """Return True if a file or folder is in the My Drive of a user who is read, or in a shared drive that is."""
        drive = file.get("driveId")
        return drive in self._shared_drives() if drive is not None else owner_of(file) in self._emails

    @cached_property
    def _emails(self) -> frozenset[str]:
        return frozenset(self.users[partition].email for partition in self.partitions())

    @cached_property
    def users(self) -> dict[str, GoogleUser]:
        """The users of the Workspace by the key of their drive."""
        return by_partition(GoogleDirectory(self._settings, self._tally, sleep=self._sleep).users())

    @cached_property
    def openers(self) -> dict[str, frozenset[str]]:
        """Return the users who opened each file that is shared by link; those whom Google refuses count as having opened none."""
        found: dict[str, set[str]] = {}
        for partition in self.partitions():
            user = self.users[partition]
            try:
                for file in self._client_of(user).pages("files.list", "files", q=_LINKED, **_EVERYWHERE):
                    if file.get("viewedByMe") is True:
                        found.setdefault(str(file["id"]), set()).add(user.email)
            except (AuthorizationError, DocumentError):
                continue  # reported when this person's drive is synced
        return {file_id: frozenset(who) for file_id, who in found.items()}

    def _client_of(self, user: GoogleUser) -> DriveClient:
        if user.id not in self._clients:
            self._clients[user.id] = self._client.acting_for(self._authority.acting_for(user.email))
        return self._clients[user.id]

    def _account(self, partition: str) -> Account:
        if partition not in self._accounts:
            user = self.users.get(partition)
            if user is None or not user.active or not self._is_chosen(user):
                raise LostPartitionError(f"{partition} is not the drive of a user whom CONCORDANCE_DRIVE__USERS names.")
            self._accounts[partition] = Account(
                self._settings,
                self._memory,
                self._client_of(user),
                (MY_DRIVE,),
                lambda: f"{partition} {user.email}",  # with another address, all that is the person's has other readers
                self._now,
                Links(self._settings.drive_link_sharing, lambda: user.email, lambda: self.openers),
                mine=partition,
                title=f"My Drive of {user.name or user.email}",
                elsewhere=self.reads,
            )
        return self._accounts[partition]

    def _is_chosen(self, user: GoogleUser) -> bool:
        return allows(self._settings.drive_users, user.email)

    def _is_lost(self, user: GoogleUser | None) -> bool:
        return user is None or not user.active or denies(self._settings.drive_users, user.email)

    def _email(self, partition: str) -> str:
        user = self.users.get(partition)
        return user.email if user is not None else partition


def by_partition(users: Iterable[GoogleUser]) -> dict[str, GoogleUser]:
    """Return users by the key of their My Drive: the id, since an email may change.

    Raises `AbortSyncError` if there are none: someone always is there.
    """
    found = {f"{PREFIX}{user.id}": user for user in users if user.id and user.email}
    if not found:
        raise AbortSyncError("The directory lists no users; the next sync tries again.")
    return found


def is_user(partition: str) -> bool:
    return partition.startswith(PREFIX)


def allows(patterns: Sequence[str], email: str) -> bool:
    """Return True if a pattern names the email and none with a leading `-` does."""
    named = any(fnmatchcase(email, one) for one in patterns if not one.startswith("-"))
    return named and not denies(patterns, email)


def denies(patterns: Sequence[str], email: str) -> bool:
    return any(fnmatchcase(email, one[1:]) for one in patterns if one.startswith("-"))
