"""Accounts and groups of a simulated Google Workspace."""

import msgspec

EVERYONE = "everyone"
"""A member that stands for all accounts of the Workspace: type CUSTOMER in the API."""


class SimulatedAccount(msgspec.Struct):
    email: str
    name: str
    org_unit: str = "/"
    archived: bool = False
    suspended: bool = False
    no_drive: bool = False
    """True if an administrator has switched Drive off for them."""
    no_delegation: bool = False
    """True if the service account gets no token for them."""
    met: set[str] = set()
    """Files and folders that they saw when these last changed."""


class GoogleWorkspace:
    def __init__(self) -> None:
        self.users: dict[str, SimulatedAccount] = {}
        self.former: set[str] = set()
        """Accounts that were deleted: no token is issued for them."""
        self._first: dict[str, str] = {}
        """What the ids of accounts derive from, by address, where it is not the address."""
        self.groups: dict[str, dict[str, None]] = {}
        """Direct members by group, in the order in which they joined."""

    def identity(self, email: str) -> str:
        """Return what the ids of an account derive from: the first address, unless another account had that before."""
        return self._first.get(email, email)

    def rename_user(self, email: str, to: str) -> None:
        """Give an account another address; its ids stay, and whoever gets the old address gets others."""
        account = self.users.pop(email)
        account.email = to
        self.users[to] = account
        self._first |= {to: self.identity(email), email: f"{len(self._first)} {email}"}
        for group, members in self.groups.items():
            self.groups[group] = {to if one == email else one: None for one in members}

    def delete_user(self, email: str) -> None:
        del self.users[email]
        self.former.add(email)
        for members in self.groups.values():
            members.pop(email, None)
