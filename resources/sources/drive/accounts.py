"""Several Google accounts that were connected by consent: each reads its own My Drive with its own cursor.

A shared drive or folder that several see is read by the one that was connected earliest. An account that Google refuses does not stop
the others, and what only it could read stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from resources.core.domain import Batch, Item
from resources.core.errors import AbortSyncError, AuthorizationError
from resources.sources.drive.account import Account
from resources.sources.drive.client import JSON
from resources.sources.drive.readers import owner_of


class _Found(NamedTuple):
    """The account that reads each partition, one that Google does not refuse, and whether it refuses another."""

    readers: dict[str, str]
    able: Account
    refused: bool


class Accounts:
    """The connected accounts by their emails, those connected earlier first."""

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

    def fetch(self, item: Item) -> Iterator[bytes]:
        email = self._reader(item.partition)
        try:
            yield from self._accounts[email].fetch(item)
        except AuthorizationError as error:
            raise AbortSyncError(
                f"A file of {item.partition} cannot be read with the account {email}: {error}"
            ) from None

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
