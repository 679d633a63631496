"""Effective access to items: grants are inherited down the tree, and a limited-access folder stops them.

For each item this computes its effective grants, whether it is trashed, its shared drive and whether the account may see it.
Results are cached until something changes, and an item without grants of its own shares its parent's, so that listing
thousands of files takes one step per file.
"""

from collections.abc import Mapping

from simulators.drive.tree import RANKS, DriveFile, DriveGrant

Grants = Mapping[str, tuple[DriveGrant, ...]]
"""Grants by grantee; several if an item's own grant comes on top of an inherited one, the strongest first."""

_NOBODY: Grants = {}


class AccessRules:
    """Cached access results for the current items; call `forget` after each change of the tree or of a grant.

    They are those of one viewer: at first the account that the simulator acts for.
    """

    def __init__(self, items: Mapping[str, DriveFile], account: str) -> None:
        self._items = items
        self._account = account
        self.opened: set[tuple[str, str]] = set()
        """Who opened which item by its link."""
        self.view(account)
        self._grants: dict[str, Grants] = {}
        self._trashed: dict[str, bool] = {}
        self._lost: dict[str, bool] = {}
        self._roots: dict[str, str] = {}

    def view(self, email: str) -> None:
        """Answer for another viewer from now on."""
        self.viewer = email
        self._names = (f"user:{email}", f"domain:{email.rpartition('@')[2]}", "anyone")

    def forget(self) -> None:
        for memo in (self._grants, self._trashed, self._lost, self._roots):
            memo.clear()

    def grants(self, item: DriveFile) -> Grants:
        found = self._grants.get(item.id)
        if found is None:
            found = self._grants[item.id] = self._merge(item)
        return found

    def hidden(self, item: DriveFile) -> list[DriveGrant]:
        """Return the grants disabled by a limited-access folder: their holders see the folder but cannot open it."""
        if not item.limited or item.parent is None:
            return []
        kept = self.grants(item)
        return [held[0] for who, held in self.grants(self._items[item.parent]).items() if who not in kept]

    def role(self, item: DriveFile) -> str | None:
        """Return the account's strongest role on the item, or None."""
        if self.lost(item):
            return None
        grants = self.grants(item)
        held = [grants[name][0].role for name in self._names if name in grants]
        return max(held, key=RANKS.__getitem__, default=None)

    def readable(self, item: DriveFile) -> bool:
        grants = self.grants(item)
        return any(name in grants for name in self._names) and not self.lost(item)

    def visible(self, item: DriveFile) -> bool:
        """Return True if the account sees the item, including a limited-access folder that it cannot open."""
        return self.readable(item) or (
            item.limited and item.parent is not None and self.readable(self._items[item.parent])
        )

    def visibility(self, item: DriveFile) -> str:
        """Return the widest visibility of an item, as searches name it."""
        grants = self.grants(item)
        for who, held in sorted(grants.items()):
            if who == "anyone" or who.startswith("domain:"):
                kind = "anyone" if who == "anyone" else "domain"
                return f"{kind}{'CanFind' if any(grant.discoverable for grant in held) else 'WithLink'}"
        return "limited"

    def met(self, item: DriveFile) -> bool:
        """Return True if the viewer's listings show an item: they found it without a link, or have opened it by one."""
        if self.viewer == self._account or (self.viewer, item.id) in self.opened:
            return True
        grants = self.grants(item)
        held = [grant for name in self._names for grant in grants.get(name, ())]
        return any(grant.kind == "user" or grant.discoverable or grant.member for grant in held)

    def shared_with_viewer(self, item: DriveFile) -> bool:
        """Return True for an item of another person's My Drive that was shared with the viewer itself, not by a folder above it."""
        return item.owner not in {None, self.viewer} and f"user:{self.viewer}" in item.grants and self.readable(item)

    def trashed(self, item: DriveFile) -> bool:
        found = self._trashed.get(item.id)
        if found is None:
            above = item.parent is not None and self.trashed(self._items[item.parent])
            found = self._trashed[item.id] = above or item.trashed_at is not None
        return found

    def lost(self, item: DriveFile) -> bool:
        """Return True if the account lost access to the item, or to something above it; other viewers lose nothing so."""
        if self.viewer != self._account:
            return False
        found = self._lost.get(item.id)
        if found is None:
            found = item.lost or (item.parent is not None and self.lost(self._items[item.parent]))
            self._lost[item.id] = found
        return found

    def root(self, item: DriveFile) -> str:
        """Return the id of the root of the item's tree: a shared drive, My Drive, or an item shared by another user."""
        found = self._roots.get(item.id)
        if found is None:
            found = item.id if item.parent is None else self.root(self._items[item.parent])
            self._roots[item.id] = found
        return found

    def _merge(self, item: DriveFile) -> Grants:
        above = _NOBODY if item.parent is None else self.grants(self._items[item.parent])
        if item.limited:
            above = {who: held for who, held in above.items() if held[0].role == "organizer"}
        if not item.grants and not item.limited and not any(held[0].role == "owner" for held in above.values()):
            return above
        merged: dict[str, tuple[DriveGrant, ...]] = {}
        for who, held in above.items():
            # a folder's owner can edit what others put there
            merged[who] = tuple(_as_writer(grant) if grant.role == "owner" else grant for grant in held)
        for who, grant in item.grants.items():
            if grant.role == "owner":
                merged[who] = (grant,)
            else:
                both = (*merged.get(who, ()), grant)
                merged[who] = tuple(sorted(both, key=lambda held: -RANKS[held.role]))
        return merged


def _as_writer(grant: DriveGrant) -> DriveGrant:
    return DriveGrant(grant.who, "writer", grant.on, grant.member, grant.discoverable, grant.expires)
