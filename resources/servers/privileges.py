"""The account that root switches to: Postgres refuses to run as root, and no other service needs root's privileges.

Folders closed to that account (such as root's home) are no obstacle: the command then keeps one of root's capabilities.
"""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from resources.core.errors import ConfigurationError
from resources.servers.drop_rights import CAP_DAC_READ_SEARCH

NAME = "concordance"
"""Our own system account; `useradd` creates it if it is missing."""
FALLBACKS = ("daemon", "nobody")
"""Used where no account can be created (no `useradd`, or a read-only /etc). `initdb` needs one with an entry in passwd."""
FORMER = ("nobody", "daemon", "postgres")
"""Accounts that older versions ran Postgres as."""
MAKING_SECONDS = 10.0
"""How long to retry `useradd`: other processes may hold the lock on /etc/passwd."""

CAP_DAC_OVERRIDE, CAP_NET_BIND_SERVICE = 1, 10
"""Source: capabilities(7), linux/capability.h."""

DROP_RIGHTS = Path(__file__).with_name("drop_rights.py")
PROBE = "import os, sys; sys.exit(not all(os.access(path, os.X_OK) for path in sys.argv[1:]))"


@dataclass(frozen=True)
class SystemUser:
    name: str
    uid: int
    gid: int


def unprivileged(*, make: bool = False) -> SystemUser | None:
    """Return the account to switch to, or None if we are not root. With `make`, create our own account if it is missing.

    Raises `ConfigurationError` if there is none.
    """
    if os.geteuid() != 0:
        return None
    if make and named(NAME) is None:
        _make()
    for name in (NAME, *FALLBACKS):
        if found := named(name):
            return found
    raise ConfigurationError(
        f"Postgres does not run as root, and the account {NAME} does not exist and cannot be created. Create it "
        f"(useradd --system {NAME}), run Concordance as an ordinary user, or set CONCORDANCE_POSTGRES_URL."
    )


def owner(path: Path) -> SystemUser | None:
    """Return the account that owns the file; None for root, an id without a name, and accounts that older versions used."""
    try:
        entry = pwd.getpwuid(path.stat().st_uid)
    except KeyError:
        return None
    return (
        None if entry.pw_uid == 0 or entry.pw_name in FORMER else SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    )


def named(name: str) -> SystemUser | None:
    """Return the account of this name; None if there is none, or if it is root."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid) if entry.pw_uid else None


def _make() -> None:
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        return
    command = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    command += ["--shell", "/usr/sbin/nologin", NAME]
    deadline = time.monotonic() + MAKING_SECONDS
    while subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0:
        if named(NAME) is not None or not os.access("/etc", os.W_OK) or time.monotonic() > deadline:
            return
        time.sleep(0.2)


def run_as(
    command: Sequence[str], account: SystemUser | None, needs: Sequence[Path], keep: Collection[int] = ()
) -> list[str]:
    """Return `command` wrapped so that root can start it and it runs as `account`; unchanged without an account.

    The command keeps the capabilities in `keep`. It also keeps the one to pass closed folders, but only if a folder on the path to
    one of `needs` is closed to the account.
    """
    if account is None:
        return list(command)
    kept = set(keep)
    if any(closed_parent(path, account) for path in needs):
        kept.add(passing())
    rights = ",".join(str(capability) for capability in sorted(kept)) or "-"
    return [_python(), "-I", "-S", str(DROP_RIGHTS), str(account.uid), str(account.gid), rights, *command]


def check_path_access(account: SystemUser | None, needs: Sequence[Path]) -> None:
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


def closed_parent(path: Path, account: SystemUser) -> Path | None:
    """Return the outermost folder on the way to `path` that the account may not pass through; None when it can."""
    for folder in reversed(path.parents):
        if not folder.exists():
            return None
        if not allows(folder, account, stat.S_IXOTH):
            return folder
    return None


def allows(path: Path, account: SystemUser, wanted: int) -> bool:
    """Return True if the mode of `path` gives the account these permissions, written as those of others (`S_IROTH`)."""
    entry = path.stat()
    if entry.st_uid == account.uid:
        wanted <<= 6
    elif entry.st_gid == account.gid:
        wanted <<= 3
    return entry.st_mode & wanted == wanted


def passing() -> int:
    """Return the capability to pass closed folders: CAP_DAC_READ_SEARCH, or CAP_DAC_OVERRIDE in containers that lack it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    held = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return CAP_DAC_READ_SEARCH if held >> CAP_DAC_READ_SEARCH & 1 else CAP_DAC_OVERRIDE


def _python() -> str:
    # Its real place: a link in a closed folder is one thing more that could be out of reach.
    return str(Path(sys.executable).resolve())
