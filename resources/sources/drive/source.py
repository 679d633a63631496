"""The source `google_drive`: My Drives, shared drives and selected folders, kept up to date by Drive's change feeds.

One account reads the roots of the settings (`account`), or each of several that people connected its own (`accounts`); with
`drive_users`, each user's My Drive is read in that user's name (`company`).
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property

from resources.core.domain import Batch, Item, Refusal, SourceName
from resources.core.errors import AuthorizationError
from resources.core.ports import Memory, Source
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources.drive.account import Account, Accounts
from resources.sources.drive.auth import Authority, is_by_consent
from resources.sources.drive.channels import DriveChannels, address
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.company import Company, is_user
from resources.sources.drive.notes import RENAMED
from resources.sources.drive.readers import Links
from resources.sources.drive.roots import MY_DRIVE, SHARED_DRIVES, TITLE, Roots
from resources.stores import credentials as kept
from sql.sources import ConnectedAccount


class Drive(Source):
    """`resources.core.ports.Source` over Google Drive. `changes` is for one thread at a time, `fetch` for many."""

    fetchers = 12
    renamed = RENAMED
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

    @property
    def name(self) -> SourceName:
        return SourceName.GOOGLE_DRIVE

    @property
    def tally(self) -> Tally:
        """Calls by method of Drive's API, including each call inside a batch."""
        return self._tally

    def partitions(self) -> list[str]:
        """Return the roots: `my_drive`, ids of shared drives and folders, users' drives. Raises if they cannot be listed."""
        return sorted([*self._roots.partitions(), *self._company.partitions()])

    def retired(self, known: list[str]) -> list[str]:
        """Return the known roots that are no longer in `drive_roots` or `drive_users`."""
        return [*self._roots.retired(_not_users(known)), *self._company.retired(known)]

    def lost(self, known: list[str]) -> list[str]:
        """Return the known shared drives that the account no longer sees, and the drives of users who are gone or suspended."""
        return [*self._roots.lost(_not_users(known)), *self._company.lost(known)]

    def subscribe(self) -> None:
        """Have Google send word of changes in each feed, where CONCORDANCE_PUBLIC_URL is an address for it.

        The feeds of users and of further connected accounts are read at each sync only: a channel for each would cost more calls
        than it saves.
        """
        try:
            self._subscribe()
        except AuthorizationError:
            if self._several is None:
                raise  # otherwise reading the account's roots reports it, and the other accounts continue

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed since the cursor; everything without one, or if the account, a setting or Drive invalidated it."""
        return self._reader(partition).changes(partition, cursor)

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield a file's bytes, exported if it is a Google document; one attempt."""
        return self._reader(item.partition).fetch(item)

    def missing(self, partition: str, source_ids: Collection[str]) -> list[Item | Refusal]:
        return self._reader(partition).missing(partition, source_ids)

    def look_again(self, item: Item) -> Item | None:
        return self._reader(item.partition).look_again(item)

    def _subscribe(self) -> None:
        feeds: dict[str, list[str]] = {}
        watches = address(self._settings) is not None
        for partition, root in self._main.roots.all().items() if watches else ():
            feeds.setdefault(root.drive or "", []).append(partition)
        DriveChannels(self._settings, self._client, self._main.feeds, self._authority.account, self._now).ensure(feeds)

    def _reader(self, partition: str) -> Account | Accounts | Company:
        return self._company if is_user(partition) else self._several or self._main

    @property
    def _roots(self) -> Roots | Accounts:
        return self._several or self._main.roots

    @cached_property
    def _client(self) -> DriveClient:
        return DriveClient(self._settings, self._authority, self._tally, sleep=self._sleep)

    @cached_property
    def _main(self) -> Account:
        """The account of the settings, or the one connected earliest.

        It reads all roots but users' drives, which take the place of its own My Drive, and what other connected accounts read.
        """
        if self._several is not None:
            return self._several.first
        if self._connected:
            return self._by_consent(self._connected[0])
        users = self._settings.drive_users
        return Account(
            self._settings,
            self._memory,
            self._client,
            [one for one in self._wanted if not (users and one == MY_DRIVE)],
            lambda: self._authority.account,
            self._now,
            Links(self._settings.drive_link_sharing, lambda: self._authority.account, lambda: self._company.openers),
            elsewhere=self._company.reads if users else None,
            only_shared=bool(users),
        )

    @property
    def _wanted(self) -> Sequence[str]:
        return self._settings.drive_roots or (MY_DRIVE, SHARED_DRIVES)

    @cached_property
    def _connected(self) -> list[ConnectedAccount]:
        """The accounts that were connected by consent, if Drive is read with these."""
        return kept.accounts(self._settings.postgres_dsn, kept.GOOGLE) if is_by_consent(self._settings) else []

    @cached_property
    def _several(self) -> Accounts | None:
        """The accounts that were connected by consent, if there is more than one."""
        if len(self._connected) < 2:
            return None
        return Accounts({one.account: self._by_consent(one) for one in self._connected})

    def _by_consent(self, one: ConnectedAccount) -> Account:
        def elsewhere(file: JSON) -> bool:
            return self._several is not None and self._several.reads(file)

        return Account(
            self._settings,
            self._memory,
            self._client.acting_for(self._authority.of_connected(one.account)),
            self._wanted,
            lambda: one.account,
            self._now,
            Links(self._settings.drive_link_sharing, lambda: one.account),
            mine=my_drive_of(one),
            title=TITLE if one.is_first else f"{TITLE} of {one.account}",
            elsewhere=elsewhere if len(self._connected) > 1 else None,
        )

    @cached_property
    def _company(self) -> Company:
        return Company(
            self._settings,
            self._memory,
            self._client,
            self._authority,
            self._tally,
            self._now,
            self._sleep,
            lambda: self._main.roots.partitions(),
        )


def my_drive_of(one: ConnectedAccount) -> str:
    """Return the key of an account's My Drive. That of the first account is the one it had before there could be others."""
    return MY_DRIVE if one.is_first else f"{MY_DRIVE}-{hashlib.sha256(one.account.encode()).hexdigest()[:8]}"


def _not_users(partitions: list[str]) -> list[str]:
    return [one for one in partitions if not is_user(one)]
