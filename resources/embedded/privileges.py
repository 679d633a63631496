"""Who the embedded Postgres runs as: Postgres refuses root, so under root it gets an account without rights.

Enter: our own user id and a path. Leave: the account to run as (None: as we are) and whether that account can reach the path.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from resources.errors import ConfigurationError

CANDIDATES = ("nobody", "daemon", "postgres")
"""Accounts that exist on nearly every machine, the least privileged first. `initdb` needs one with an entry in passwd."""


@dataclass(frozen=True)
class Account:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """Return the account to drop to, or None when we are not root. Raises `ConfigurationError` when there is none."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(
        "Postgres does not run as root, and none of the accounts it could run as exists "
        f"({', '.join(CANDIDATES)}). Run Concordance as an ordinary user, or set CONCORDANCE_POSTGRES_URL."
    )


def closed_parent(path: Path, account: Account) -> Path | None:
    """Return the outermost folder on the way to `path` that the account may not pass through; None when it can."""
    for folder in reversed(path.parents):
        if not folder.exists():
            return None
        entry = folder.stat()
        if entry.st_uid == account.uid:
            passes = stat.S_IXUSR
        elif entry.st_gid == account.gid:
            passes = stat.S_IXGRP
        else:
            passes = stat.S_IXOTH
        if not entry.st_mode & passes:
            return folder
    return None
