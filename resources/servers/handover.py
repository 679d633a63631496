"""Change the owner of root's files: HOME and everything in it, when `up` switches from root to another account.

Symbolic links are not followed, and files with more than one hard link are skipped: the other name may be outside of HOME.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from resources.servers.privileges import SystemUser

STEP = 10_000
"""Number of files between two progress messages."""
OWN_NAMES = frozenset({
    "audit", "dagster", "eval", "keys.json", "lake", "logs", "models", "postgres", "qdrant", "revoked", "rights", "run",
    "sample-roots.json",
})  # fmt: skip
"""Everything that Concordance creates in HOME."""


def foreign(home: Path) -> list[str]:
    """Return the names in HOME that are not Concordance's. Such a folder has other uses, so its owner must not change."""
    if not home.exists():
        return []
    found = {entry.name for entry in home.iterdir()} - OWN_NAMES - {"lost+found"}
    return sorted(name for name in found if not name.startswith(".keys-"))


def hand_over(folder: Path, account: SystemUser, tell: Callable[[int], None] | None = None) -> None:
    """Make the account the owner of everything in `folder` and, last, of the folder itself. Does nothing if it owns the folder.

    An interrupted attempt is therefore repeated. `tell` receives the number of files from time to time. Raises `OSError`.
    """
    if folder.stat().st_uid == account.uid:
        return
    count = 0
    for _, folders, files, handle in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*files, *folders):
            _give(name, account, handle)
            count += 1
            if tell is not None and count % STEP == 0:
                tell(count)
    _give(str(folder), account)


def _give(name: str, account: SystemUser, folder: int | None = None) -> None:
    """Change the owner of a file or folder through a descriptor, so that it cannot be swapped after the checks."""
    with suppress(FileNotFoundError):  # removed in the meantime
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return  # symbolic links stay as they are; sockets and pipes are created at each start
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            found = os.fstat(handle)
            if found.st_uid != account.uid and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
                os.fchown(handle, account.uid, account.gid)
        finally:
            os.close(handle)
