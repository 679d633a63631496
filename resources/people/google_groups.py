"""Read everyone and every group of Google's directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from resources.core.errors import AuthorizationError, DocumentError, RetryLaterError
from resources.people.membership import EVERYONE, DirectMembers
from resources.sources.drive.directory import GoogleDirectory, GoogleUser

AT_A_TIME = 4
"""Groups that are read at a time. Google allows 2,400 calls a minute for each person.

Source: https://developers.google.com/workspace/admin/directory/v1/limits"""
MOST_FAILURES = 3
"""With more groups than this that temporarily cannot be read, Google itself is failing: the sync ends without a change."""


class GoogleListing(msgspec.Struct):
    """Answer of Google's directory: users, the members of each group, and the groups that could not be read, with the reason."""

    users: list[GoogleUser]
    groups: dict[str, DirectMembers]
    unreadable: dict[str, str]


def read(directory: GoogleDirectory) -> GoogleListing:
    """Return the directory. Raises `AuthorizationError`, `ConfigurationError` or `RetryLaterError` if it cannot be read as a whole."""
    users: dict[str, GoogleUser] = {}
    for user in directory.users():  # one who changes between two pages may be on both
        known = users.get(user.email)
        if user.email and (known is None or known.active):
            users[user.email] = user
    names = [name for name in directory.groups() if name]
    failed: list[str] = []

    def members(group: str) -> DirectMembers | str:
        try:
            return _members(directory, group)
        except AuthorizationError:
            raise
        except DocumentError as error:
            return str(error)
        except RetryLaterError as error:
            failed.append(group)
            if len(failed) > MOST_FAILURES:
                raise
            return str(error)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip(names, pool.map(members, names), strict=True))
    return GoogleListing(
        list(users.values()),
        {group: one for group, one in found.items() if isinstance(one, DirectMembers)},
        {group: one for group, one in found.items() if isinstance(one, str)},
    )


def with_stored(
    listing: GoogleListing, stored: Callable[[list[str]], Mapping[str, DirectMembers]]
) -> dict[str, DirectMembers]:
    """Return the groups, those that could not be read with what was stored of them."""
    return listing.groups | dict(stored(sorted(listing.unreadable)) if listing.unreadable else {})


def _members(directory: GoogleDirectory, group: str) -> DirectMembers:
    members = directory.members(group)
    return DirectMembers(
        [one.email for one in members if one.type not in {"GROUP", "CUSTOMER"} and one.email],
        [EVERYONE if one.type == "CUSTOMER" else one.email for one in members if one.type in {"GROUP", "CUSTOMER"}],
    )
