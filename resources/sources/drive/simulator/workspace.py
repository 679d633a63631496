"""Accounts and groups of a simulated Google Workspace."""

import msgspec

EVERYONE = "everyone"
"""A member that stands for all accounts of the Workspace: type CUSTOMER in the API."""


class Account(msgspec.Struct):
    email: str
    name: str
    org_unit: str = "/"
    archived: bool = False
    suspended: bool = False


class Workspace:
    def __init__(self) -> None:
        self.users: dict[str, Account] = {}
        self.groups: dict[str, dict[str, None]] = {}
        """Direct members by group, in the order in which they joined."""

    def delete_user(self, email: str) -> None:
        del self.users[email]
        for members in self.groups.values():
            members.pop(email, None)
