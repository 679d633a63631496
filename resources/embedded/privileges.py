"""The account that the embedded Postgres runs as: Postgres refuses to run as root, so root switches to an unprivileged account.

Folders closed to that account (such as root's home) are no obstacle: the command then keeps one of root's capabilities.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resources.errors import ConfigurationError

CANDIDATES = ("nobody", "daemon", "postgres")
"""Accounts that exist on nearly every machine, least privileged first. `initdb` needs one with an entry in passwd."""

DROP_RIGHTS = Path(__file__).with_name("drop_rights.py")
PROBE = "import os, sys; sys.exit(not all(os.access(path, os.X_OK) for path in sys.argv[1:]))"


@dataclass(frozen=True)
class Account:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """Return the account to switch to, or None if we are not root. Raises `ConfigurationError` if there is none."""
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


def run_as(command: Sequence[str], account: Account | None, needs: Sequence[Path]) -> list[str]:
    """Return `command` wrapped so that root can start it and it runs as `account`; unchanged without an account.

    The command keeps CAP_DAC_OVERRIDE only if a folder on the path to one of `needs` is closed to the account.
    """
    if account is None:
        return list(command)
    keep = "pass" if any(closed_parent(path, account) for path in needs) else "-"
    return [_python(), "-I", "-S", str(DROP_RIGHTS), str(account.uid), str(account.gid), keep, *command]


def check_path_access(account: Account | None, needs: Sequence[Path]) -> None:
    """Raise `ConfigurationError` if a folder on the path to one of `needs` is closed and we cannot get past it.

    Containers often run without the capabilities that root has elsewhere.
    """
    if account is None:
        return
    closed = [(folder, path) for path in needs if (folder := closed_parent(path, account))]
    if not closed:
        return
    there = [next(place for place in (path, *path.parents) if place.exists()) for path in needs]
    probe = run_as([_python(), "-I", "-S", "-c", PROBE, *map(str, there)], account, needs)
    if subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd="/").returncode != 0:
        folder, path = closed[0]
        raise ConfigurationError(
            f"Postgres does not run as root, and the user {account.name}, which it runs as instead, may not "
            f"pass through {folder} on the way to {path}. Run `chmod o+x {folder}`, move the installation, "
            "run Concordance as an ordinary user, or set CONCORDANCE_POSTGRES_URL."
        )


def closed_parent(path: Path, account: Account) -> Path | None:
    """Return the outermost folder on the path to `path` that the account cannot enter; None if there is none."""
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


def _python() -> str:
    # The resolved path: a link in a closed folder could be unreachable too.
    return str(Path(sys.executable).resolve())
