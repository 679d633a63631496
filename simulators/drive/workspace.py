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
        self.groups: dict[str, dict[str, None]] = {}
        """Direct members by group, in the order in which they joined."""

    def delete_user(self, email: str) -> None:
        del self.users[email]
        self.former.add(email)
        for members in self.groups.values():
            members.pop(email, None)
