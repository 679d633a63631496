"""The state behind the simulated Drive: items, shared drives, grants and feeds, and the primitive changes to them.

Changes reach the feeds as in the real Drive: a change of a folder lists only the folder, and changes of a shared drive's
membership are not listed.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from simulators.drive.access import AccessRules
from simulators.drive.channels import NotificationChannels
from simulators.drive.feeds import Feed
from simulators.drive.listings import Listings
from simulators.drive.oauth import SimulatedOAuth
from simulators.drive.tree import FOLDER, SPREADSHEET, DriveFile, DriveGrant, Ids, SharedDrive, Sheets
from simulators.drive.workspace import GoogleWorkspace, SimulatedAccount
from simulators.faults import Faults

Content = bytes | str | Sheets


class DriveState:
    """The simulated state. Thread-safe; ids depend only on the seed and the order of calls."""

    token = "drive-simulator"  # noqa: S105 - opens the simulator, nothing else
    """A bearer token that is always accepted, besides those that the sign-in issued."""

    def __init__(
        self,
        account: str = "sync@larkmoor.example",
        *,
        clock: Callable[[], datetime] | None = None,
        seed: int = 0,
        unnoticed: float = 0.5,
    ) -> None:
        self.account = account
        self.base = ""
        """Address of the simulator, as the latest request names it."""
        self.unnoticed = unnoticed
        """Share of the changes in shared drives that reach only the drive's own feed, not the account's."""
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.validate: Callable[[str, Any], None] | None = None
        """Called with the method's id and the body of every JSON response."""
        self.incomplete: set[str] = set()
        """Corpora whose search leaves out half of the results and says so."""
        self.bare_changes = False
        """True if feeds leave out the files of changes."""
        self.lock = threading.RLock()
        self.items: dict[str, DriveFile] = {}
        self.drives: dict[str, SharedDrive] = {}
        self.feeds: dict[str, Feed] = {}
        """Feeds by shared drive id; the account's under the empty string."""
        self.channels = NotificationChannels()
        self.listings = Listings()
        self.sessions = SimulatedOAuth(account)
        self.workspace = GoogleWorkspace()
        self.access = AccessRules(self.items, account)
        self.include_labels: frozenset[str] = frozenset()
        """The labels that the call being answered asks for."""
        self._clock = clock or (lambda: datetime.now(UTC))
        self.ids = Ids(seed)
        self._seed = seed
        self._told = 0
        self._last = datetime.min.replace(tzinfo=UTC)
        self.expiring: dict[tuple[str, str], datetime] = {}
        self._lag: tuple[datetime, DriveState] | None = None
        self.feeds[""] = Feed(self.ids.number(1_000, 9_000))
        self.sessions.workspace = self.workspace
        self.tops: dict[str, str] = {account: self.ids.root()}
        """Root folders of My Drives by email."""
        self.add_item(self.tops[account], "My Drive", FOLDER, None, owner=account)

    @property
    def my_drive(self) -> str:
        """Id of the root folder of the viewer: the account, except while a call in another user's name is answered."""
        return self.tops[self.access.viewer]

    def lag(self, seconds: float) -> None:
        """Let listings show for so long what they show now, as Google's may for minutes; everything else answers with the present.

        Source: https://github.com/googleapis/google-api-go-client/issues/906
        """
        with self.lock:
            now = copy.copy(self)
            now.items, now.drives = copy.deepcopy(self.items), dict(self.drives)
            now.access = AccessRules(now.items, self.account)
            now.access.opened = set(self.access.opened)
            now._lag = None
            self._lag = self._clock() + timedelta(seconds=seconds), now

    def listed(self) -> DriveState:
        """Return the state that listings show to the viewer."""
        if self._lag is None or self._clock() >= self._lag[0]:
            return self
        shown = self._lag[1]
        shown.access.view(self.access.viewer)
        shown.include_labels = self.include_labels
        return shown

    @contextmanager
    def acting_for(self, email: str) -> Generator[None]:
        """Answer calls as this user sees Drive. Hold the lock meanwhile."""
        before = self.access.viewer
        self.access.view(email)
        try:
            yield
        finally:
            self.access.view(before)

    def own_feed(self, feed: str) -> str:
        """Return the name of a feed; the viewer's own has the empty name in calls."""
        return feed or ("" if self.access.viewer == self.account else f"~{self.access.viewer}")

    def open_drive(self, email: str) -> None:
        """Give a person a My Drive of their own, with a change feed."""
        if email not in self.tops:
            self.tops[email] = self.ids.root()
            self.feeds[f"~{email}"] = Feed(self.ids.number(10_000, 99_000) * (len(self.feeds) + 1))
            self.add_item(self.tops[email], "My Drive", FOLDER, None, owner=email)

    def readdress(self, email: str, to: str) -> None:
        """Carry over a person's My Drive, feed, files, grants and openings to another address."""
        before, after = f"user:{email}", f"user:{to}"
        self.tops[to] = self.tops.pop(email)
        self.feeds[f"~{to}"] = self.feeds.pop(f"~{email}")
        for item in self.items.values():
            item.owner = to if item.owner == email else item.owner
            item.modified_by = to if item.modified_by == email else item.modified_by
            if before in item.grants:
                item.grants[after] = msgspec.structs.replace(item.grants.pop(before), who=after)
        self.expiring = {(one, after if who == before else who): at for (one, who), at in self.expiring.items()}
        self.access.opened = {(to if who == email else who, one) for who, one in self.access.opened}
        self.access.forget()

    def open(self, id: str, email: str) -> None:  # noqa: A002
        """Let a person open an item, which Drive then shows in their listings; no feed reports it."""
        with self.lock:
            self.access.opened.add((email, id))

    def settle(self) -> None:
        """End grants that have expired, as Google does: the item's change appears in the feed."""
        if not self.expiring:
            return
        now = self._clock().astimezone(UTC)
        for (item_id, who), at in list(self.expiring.items()):
            if at <= now:
                del self.expiring[item_id, who]
                item = self.items.get(item_id)
                if item is not None and (grant := item.grants.get(who)) is not None and grant.expires is not None:
                    del item.grants[who]
                    self.changed(item)

    def now(self) -> datetime:
        """Return the current time in milliseconds, as in the API, and never the same twice."""
        now = self._clock().astimezone(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._last = max(now, self._last + timedelta(milliseconds=1))
        return self._last

    def item(self, item_id: str) -> DriveFile:
        """Return an item that may be changed: not the root of a drive."""
        item = self.items[item_id]
        if item_id in self.tops.values() or item_id in self.drives:
            raise ValueError(f"{item.name!r} is the top of a drive; that cannot be changed.")
        return item

    def create(
        self,
        name: str,
        mime_type: str,
        parent: str | None,
        owner: str | None,
        created: datetime | None = None,
        modified: datetime | None = None,
        **meta: Any,
    ) -> DriveFile:
        """Create an item below a parent, or in another user's Drive if there is none."""
        above = None if parent is None else self.items[self.my_drive if parent == "root" else parent]
        if above is None and owner is None:
            raise ValueError(f"{name!r} needs a parent, or the owner in whose Drive it lies.")
        item_id = meta.pop("id", None) or self.ids.file()
        item = self.add_item(item_id, name, mime_type, above, owner=owner or (above and above.owner))
        item.modified_by = owner or self.account
        item.created = (created or modified or item.created).astimezone(UTC)
        item.modified = (modified or item.created).astimezone(UTC)
        item.description = meta.pop("description", None)
        if meta:
            raise TypeError(f"unknown metadata: {', '.join(meta)}")
        if above is None:
            item.grants[f"user:{self.account}"] = DriveGrant(f"user:{self.account}", "reader", item.id)
        return item

    def add_item(
        self, item_id: str, name: str, mime_type: str, above: DriveFile | None, *, owner: str | None
    ) -> DriveFile:
        """Add an item with only its place and its owner."""
        now = self.now()
        drive = above is not None and self.drive_of(above.id)
        item = DriveFile(item_id, name, mime_type, above and above.id, now, now, None if drive else owner, self.account)
        if item.owner:
            item.grants[f"user:{owner}"] = DriveGrant(f"user:{owner}", "owner", item_id)
        if above is not None:
            above.children[item_id] = None
        self.items[item_id] = item
        self.access.forget()
        return item

    def write(self, item: DriveFile, content: Content) -> None:
        """Set an item's content: rows for a spreadsheet, bytes for everything else."""
        if isinstance(content, dict) is not (item.mime_type == SPREADSHEET):
            raise TypeError(
                f"{item.name!r}: the content of a spreadsheet is rows by sheet, that of other files text or bytes."
            )
        if isinstance(content, dict):
            item.sheets = content
        else:
            item.content = content.encode() if isinstance(content, str) else content
        item.md5 = hashlib.md5(item.content, usedforsecurity=False).hexdigest()

    def change_owners(self, item: DriveFile) -> None:
        """Update owners after a move: a shared drive owns what is moved into it; what leaves one belongs to the account."""
        shared = self.drive_of(item.id)
        self.give(item, None if shared else self.account)

    def give(self, item: DriveFile, owner: str | None) -> None:
        """Set the owner of an item and of everything below it."""
        for below in self.subtree(item):
            if below.owner is not None:
                below.grants.pop(f"user:{below.owner}", None)
            below.owner = owner
            if owner is not None:
                below.grants[f"user:{owner}"] = DriveGrant(f"user:{owner}", "owner", below.id)
        self.access.forget()

    def set_member(self, drive_id: str, who: str, grant: DriveGrant | None) -> None:
        """Add, change or remove a member of a shared drive."""
        with self.lock:
            grants = self.items[drive_id].grants
            if grant is None:
                del grants[who]
            else:
                grants[who] = grant
            self.access.forget()
            if who == f"user:{self.account}":
                self.drive_changed(drive_id)

    def drive_of(self, item_id: str) -> str:
        """Return the id of the shared drive that contains an item, or an empty string."""
        root = self.access.root(self.items[item_id])
        return root if root in self.drives else ""

    def is_below(self, item_id: str | None, top: str) -> bool:
        while item_id is not None:
            if item_id == top:
                return True
            item_id = self.items[item_id].parent
        return False

    def subtree(self, top: DriveFile) -> list[DriveFile]:
        """Return an item and everything below it, parents first."""
        found = [top]
        for item in found:
            found.extend(self.items[child] for child in item.children)
        return found

    def changed(self, item: DriveFile, *before: str) -> None:
        """Record that an item changed; `before` is the drive that it was in before."""
        self.access.forget()
        self.publish(item, {self.drive_of(item.id), *before})

    def publish(self, item: DriveFile, drives: set[str]) -> None:
        """Add an item's change to the feeds: its drive's, and for some changes in shared drives the account's as well."""
        self.access.forget()
        item.version += 1
        now = self.now()
        for drive in drives - {""}:
            self._enter(drive, now, "file", item.id)
        item.mine = item.mine or "" in drives
        if self._concerns_account(item) if "" in drives else self._reaches_account():
            item.in_account_feed = True
            self._enter("", now, "file", item.id)
        if "" in drives:
            for user in self.workspace.users.values():
                self._tell(user, item, now)

    def _tell(self, user: SimulatedAccount, item: DriveFile, now: datetime) -> None:
        """Add a change outside shared drives to the feed of a user who sees the item, or saw it when it last changed."""
        if user.email == self.account:
            return
        with self.acting_for(user.email):
            sees = item.id in self.items and self.access.visible(item)
        if sees or item.id in user.met:
            self._enter(f"~{user.email}", now, "file", item.id)
        if sees:
            user.met.add(item.id)
        else:
            user.met.discard(item.id)

    def _enter(self, feed: str, now: datetime, kind: Literal["file", "drive"], changed: str) -> None:
        self.feeds[feed].add(now, kind, changed)
        self.channels.changed(feed, now)

    def _concerns_account(self, item: DriveFile) -> bool:
        """Return True unless an item outside shared drives belongs to other people and was never shared with the account."""
        known = item.in_account_feed or not self.workspace.users
        return known or (item.id in self.items and self.access.visible(item))

    def _reaches_account(self) -> bool:
        self._told += 1
        digest = hashlib.sha256(f"{self._seed} {self._told}".encode()).digest()
        return digest[0] / 256 >= self.unnoticed

    def drive_changed(self, drive_id: str) -> None:
        """Add a change of a shared drive, or of the account's access to it, to the account's feed."""
        self.access.forget()
        self._enter("", self.now(), "drive", drive_id)
