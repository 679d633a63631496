"""The users whose My Drives are read by domain-wide delegation: listed from the directory, chosen by the setting `drive_users`."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from resources.core.errors import AbortSyncError
from resources.sources.drive.directory import GoogleUser

PREFIX = "user-"


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
