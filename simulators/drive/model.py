"""A simulated Google Drive: user actions as methods, and the expected state of an index over it.

Methods such as `file`, `edit`, `move` and `share` change the state that the simulated API answers from; tests compare an index
with `everything` and `readers`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from simulators.drive.feeds import Feed
from simulators.drive.state import Content, DriveState
from simulators.drive.tree import (
    DOCUMENT,
    FOLDER,
    PRESENTATION,
    SHORTCUT,
    SPREADSHEET,
    DriveComment,
    DriveFile,
    DriveGrant,
    SharedDrive,
)
from simulators.drive.workspace import SimulatedAccount

_SHORT = {"document": DOCUMENT, "spreadsheet": SPREADSHEET, "presentation": PRESENTATION}


class SimulatedDrive(DriveState):
    # Actions on files

    def file(
        self,
        name: str,
        parent: str | None,
        content: Content,
        mime_type: str = "text/plain",
        owner: str | None = None,
        created: datetime | None = None,
        modified: datetime | None = None,
        **meta: Any,
    ) -> str:
        """Create a file. Without a parent it is placed in its owner's Drive and shared with the account.

        `mime_type` may be a short name of Google's own formats: `document` (content is Markdown), `spreadsheet` (rows by
        sheet), `presentation` (text).
        """
        mime_type = _SHORT.get(mime_type.rpartition("google-apps.")[2], mime_type)
        with self.lock:
            item = self.create(name, mime_type, parent, owner, created, modified, **meta)
            self.write(item, content)
            self.changed(item)
            return item.id

    def folder(self, name: str, parent: str | None, *, owner: str | None = None, **meta: Any) -> str:
        """Create a folder; `meta` may contain `id`, `created`, `modified`, `description`."""
        with self.lock:
            item = self.create(name, FOLDER, parent, owner, **meta)
            self.changed(item)
            return item.id

    def shortcut(self, target: str, parent: str, name: str, **meta: Any) -> str:
        with self.lock:
            item = self.create(name, SHORTCUT, parent, None, **meta)
            item.target, item.target_mime_type = target, self.items[target].mime_type
            self.changed(item)
            return item.id

    def comment(self, id: str, author: str, text: str, quote: str | None = None) -> int:  # noqa: A002
        """Comment on a file, and return the number of the comment."""
        with self.lock:
            item = self.items[id]
            item.comments = [*item.comments, DriveComment(author, text, quote)]
            self.changed(item)
            return len(item.comments) - 1

    def reply(self, id: str, number: int, author: str, text: str, *, resolve: bool = False) -> None:  # noqa: A002
        """Answer a comment, and resolve it if so wished."""
        with self.lock:
            comment = self.items[id].comments[number]
            comment.replies = [*comment.replies, DriveComment(author, text)]
            comment.resolved = resolve
            self.changed(self.items[id])

    def edit(self, id: str, content: Content) -> None:  # noqa: A002 - the API's word
        with self.lock:
            item = self.items[id]
            self.write(item, content)
            item.revision += 1
            item.modified, item.modified_by = self.now(), item.owner or self.account
            self.changed(item)

    def rename(self, id: str, name: str) -> None:  # noqa: A002
        """Rename a file or folder, which counts as a modification."""
        with self.lock:
            self._set(id, name=name, modified=self.now())

    def move(self, id: str, parent: str) -> None:  # noqa: A002
        """Move an item to another folder, possibly in another drive; its inherited permissions change accordingly."""
        with self.lock:
            item, before = self.item(id), self.drive_of(id)
            if self.is_below(parent, id):
                raise ValueError(f"{item.name!r} cannot be moved into itself.")
            if item.parent is not None:
                del self.items[item.parent].children[id]
            item.parent = parent
            self.items[parent].children[id] = None
            self.access.forget()
            if self.drive_of(id) != before:
                self.change_owners(item)
            self.changed(item, before)

    def allow_download(self, id: str, *, allowed: bool) -> None:  # noqa: A002
        """Allow or forbid the account to download a file, which does not modify it."""
        self._set(id, download_forbidden=not allowed)

    def trash(self, id: str) -> None:  # noqa: A002
        """Move an item, and everything below it, to the trash."""
        with self.lock:
            self._set(id, trashed_at=self.now())

    def restore(self, id: str) -> None:  # noqa: A002
        """Restore an item from the trash; items below that were trashed separately stay there."""
        self._set(id, trashed_at=None)

    def delete(self, id: str) -> None:  # noqa: A002
        """Delete an item and everything below it for good."""
        with self.lock:
            item, drive = self.item(id), self.drive_of(id)
            if item.parent is not None:
                del self.items[item.parent].children[id]
            for below in self.subtree(item):
                del self.items[below.id]
            self.publish(item, {drive})

    # Permissions

    def share(
        self,
        id: str,  # noqa: A002
        who: str,
        role: str = "reader",
        discoverable: bool = False,
        expires: datetime | None = None,
    ) -> None:
        """Give `user:EMAIL`, `group:EMAIL`, `domain:NAME` or `anyone` a role; an owner stays the owner.

        Sharing with the account restores lost access. A grant with an expiry ends at that time, which appears in the feed.
        """
        with self.lock:
            item = self.items[id]
            if who == f"user:{item.owner}":
                return
            item.grants[who] = DriveGrant(who, role, id, discoverable=discoverable, expires=expires)
            if expires is not None:
                self.expiring[id, who] = expires.astimezone(UTC)
            if who == f"user:{self.account}":
                item.lost = False
            self.changed(item)

    def unshare(self, id: str, who: str) -> None:  # noqa: A002
        """Remove a grant given on this item; inherited ones stay."""
        with self.lock:
            item = self.items[id]
            del item.grants[who]
            self.changed(item)

    def limit(self, folder_id: str) -> None:
        """Make a folder limited-access: only organizers and those it is shared with directly may open it."""
        if not self.item(folder_id).is_folder:
            raise ValueError(f"{self.item(folder_id).name!r} is not a folder; only folders have limited access.")
        self._set(folder_id, limited=True)

    def inherit(self, folder_id: str) -> None:
        """Let a limited-access folder inherit permissions again."""
        self._set(folder_id, limited=False)

    def label(self, id: str, label: str) -> None:  # noqa: A002
        """Put a label on a file, which the feed reports as a change of the file."""
        with self.lock:
            self.items[id].labels[label] = None
            self.changed(self.items[id])

    def unlabel(self, id: str, label: str) -> None:  # noqa: A002
        with self.lock:
            del self.items[id].labels[label]
            self.changed(self.items[id])

    def hide_labels(self, id: str) -> None:  # noqa: A002
        """Keep the account from reading a file's labels."""
        self._set(id, labels_hidden=True)

    def lose_file(self, id: str) -> None:  # noqa: A002
        """Remove the account's access to a file or folder that was shared with it."""
        self._set(id, lost=True)

    def regain_file(self, id: str) -> None:  # noqa: A002
        self._set(id, lost=False)

    def transfer(self, id: str, to: str) -> None:  # noqa: A002
        """Make another person the owner of an item and everything below, and move it to the top of their My Drive."""
        with self.lock:
            self.give(self.item(id), to)
            self.move(id, self.tops[to])

    def _set(self, item_id: str, **facts: Any) -> None:
        with self.lock:
            item = self.item(item_id)
            for name, value in facts.items():
                setattr(item, name, value)
            self.changed(item)

    # Shared drives

    def shared_drive(self, name: str, members: Mapping[str, str], id: str | None = None) -> str:  # noqa: A002
        """Create a shared drive with members by role; the account is an organizer by default."""
        with self.lock:
            drive_id, now = id or self.ids.root(), self.now()
            self.drives[drive_id] = SharedDrive(drive_id, name, now)
            self.feeds[drive_id] = Feed(self.ids.number(10_000, 99_000) * (len(self.feeds) + 1))
            root = self.add_item(drive_id, "Drive", FOLDER, None, owner=None)
            for who, role in {f"user:{self.account}": "organizer", **members}.items():
                root.grants[who] = DriveGrant(who, role, drive_id, member=True)
            self.drive_changed(drive_id)
            return drive_id

    def add_member(self, drive_id: str, who: str, role: str = "reader") -> None:
        """Add a member or change its role, which appears in no feed unless it is the account."""
        self.set_member(drive_id, who, DriveGrant(who, role, drive_id, member=True))

    def remove_member(self, drive_id: str, who: str) -> None:
        """Remove a member, which appears in no feed unless it is the account."""
        self.set_member(drive_id, who, None)

    def rename_drive(self, drive_id: str, name: str) -> None:
        with self.lock:
            self.drives[drive_id].name = name
            self._enter(drive_id, self.now(), "drive", drive_id)
            self.drive_changed(drive_id)

    def lose_drive(self, drive_id: str) -> None:
        """Remove the account's access to a shared drive."""
        self._show_drive(drive_id, lost=True)

    def regain_drive(self, drive_id: str) -> None:
        self._show_drive(drive_id, lost=False)

    def _show_drive(self, drive_id: str, *, lost: bool) -> None:
        with self.lock:
            self.items[drive_id].lost = lost
            self.drive_changed(drive_id)

    # Persistent failures

    def expire_tokens(self) -> None:
        """Invalidate every page token issued so far, of feeds and of listings."""
        with self.lock:
            self.listings.forget()
            for feed in self.feeds.values():
                feed.expire()

    def revoke(self) -> None:
        """Withdraw the consent: issued access tokens are rejected, refresh tokens get `invalid_grant`."""
        with self.lock:
            self.sessions.revoke()

    # The Workspace's users and groups

    def user(self, email: str, name: str = "", org_unit: str = "/", archived: bool = False) -> str:
        """Add an account of the Workspace, or change it; return the root folder of its My Drive."""
        with self.lock:
            self.open_drive(email)
            self.workspace.users[email] = SimulatedAccount(
                email, name or email.partition("@")[0].title(), org_unit, archived
            )
            return self.tops[email]

    def suspend(self, email: str) -> None:
        with self.lock:
            self.workspace.users[email].suspended = True

    def reinstate(self, email: str) -> None:
        with self.lock:
            self.workspace.users[email].suspended = False

    def rename_user(self, email: str, to: str) -> None:
        """Give an account another address, which no feed reports; permissions show the new one."""
        with self.lock:
            self.workspace.rename_user(email, to)
            self.readdress(email, to)

    def delete_user(self, email: str) -> None:
        """Delete an account, which leaves its groups."""
        with self.lock:
            self.workspace.delete_user(email)

    def group(self, email: str, members: Sequence[str] = ()) -> None:
        """Add a group; a member is an email, or `everyone` for all accounts of the Workspace."""
        with self.lock:
            self.workspace.groups[email] = dict.fromkeys(members)

    def join(self, group: str, member: str) -> None:
        """Add a member to a group. Google refuses cycles; here they are accepted, since two changes at a time may make one."""
        with self.lock:
            self.workspace.groups[group][member] = None

    def leave(self, group: str, member: str) -> None:
        with self.lock:
            del self.workspace.groups[group][member]

    def delete_group(self, email: str) -> None:
        with self.lock:
            del self.workspace.groups[email]

    # Expected state

    def readers(self, id: str) -> set[str]:  # noqa: A002
        """Return the principals that may find an item: none if it is deleted, trashed or inaccessible to the account.

        A domain or everyone (`public`) is included only if the sharing is discoverable: a link alone does not make an item searchable.
        """
        with self.lock:
            self.settle()
            item = self.items.get(id)
            if item is None or self.access.trashed(item) or not self.access.readable(item):
                return set()
            found: set[str] = set()
            for grant in (held for grants in self.access.grants(item).values() for held in grants):
                if grant.kind == "user":
                    found.add(grant.name)
                elif grant.kind == "group" or grant.discoverable:
                    found.add("public" if grant.kind == "anyone" else grant.who)
            return found

    def everything(self, root: str) -> dict[str, DriveFile]:
        """Return the files and shortcuts (not folders) below a folder, shared drive or My Drive that the account may read."""
        with self.lock:
            self.settle()
            top = self.items.get(self.my_drive if root == "root" else root)
            return {
                item.id: item
                for item in ([] if top is None else self.subtree(top))
                if not item.is_folder and not self.access.trashed(item) and self.access.readable(item)
            }
