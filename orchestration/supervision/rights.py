"""Switch from root to an unprivileged account: `up` and `demo` restart themselves as that account, with everything they start.

The account is the owner of HOME. If HOME belongs to root, or does not exist yet, it is given to the account `concordance`. Other
commands stay root, and files that they create in HOME belong to HOME's owner. Where the switch is impossible, everything keeps
running as root and the reason is printed.
"""

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from orchestration.supervision import ports, run_state
from orchestration.supervision.environment import ROOT, child_environment
from orchestration.supervision.services import check_fresh
from resources.core.errors import ConfigurationError
from resources.core.paths import is_closed, is_file, is_folder
from resources.servers.drop_rights import CAP_DAC_READ_SEARCH, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP
from resources.servers.handover import foreign, hand_over
from resources.servers.privileges import (
    CAP_NET_BIND_SERVICE,
    SystemUser,
    allows,
    closed_parent,
    owner,
    passing,
    run_as,
    unprivileged,
)
from resources.servers.sockets import socket_path
from resources.settings import Settings
from resources.stores.disk import nearest
from resources.withheld import variable

FREE_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
PATIENCE_SECONDS = 10.0
"""Longest wait for the lock of a supervisor that was hung and has been killed."""
PROBE = "import cyclopts, orchestration.supervision.services"
"""What the account must be able to run: a library, and our own code."""


def drop(settings: Settings, arguments: Sequence[str]) -> str | None:
    """Restart this command as HOME's account. Returns only if that is not needed (None) or not possible (the reason).

    It is not needed if we are not root, or if Concordance already runs on this HOME. Raises `ConfigurationError` and
    `AlreadyRunningError`.
    """
    lives = run_state.supervisor(settings) is not None and run_state.hung_supervisor(settings) is None
    if os.geteuid() != 0 or lives:
        return None
    check_fresh(ports.choose(settings))
    account = _account(settings.home, make=True)
    needs = _needs(settings.home)
    closed = next((folder for path in needs if (folder := closed_parent(path, account))), None)
    environment = _environment(settings, account)
    keep = [CAP_NET_BIND_SERVICE] if _uses_a_privileged_port(settings) else []
    probe = run_as([sys.executable, "-c", PROBE], account, needs, keep)
    why = _obstacle(settings.home, account, closed) or _fault(probe, environment) or _hand_home_over(settings, account)
    if why:
        _take_back(settings.home, account)
        return f"Started as root. Services run as root, not as the account {account.name}: {why}"
    _announce(settings, account, closed)
    command = run_as([sys.executable, "-m", "orchestration.cli", *arguments], account, needs, keep)
    if closed is None and closed_parent(Path.cwd() / "file", account):
        os.chdir(settings.home)  # the account cannot read the current folder
    return os.execve(command[0], command, environment)  # noqa: S606 # replacing this process is the purpose


def write_as_owner(home: Path) -> None:
    """Make files that root creates from now on belong to HOME's owner, whose services write to them later.

    This process keeps root's access to files, and the programs that it starts are root.
    """
    if os.geteuid() != 0 or not sys.platform.startswith("linux") or not home.is_dir():
        return
    entry = home.stat()
    if entry.st_uid == 0:
        return
    if os.getegid() not in os.getgroups():
        # Otherwise the kernel treats every program that we start as a set-group-ID one, which cannot find libraries by relative paths.
        os.setgroups([*os.getgroups(), os.getegid()])
    library = ctypes.CDLL(None, use_errno=True)
    # Without this bit, the kernel drops root's capabilities over files together with its file system user id.
    if library.prctl(PR_SET_SECUREBITS, ctypes.c_ulong(SECBIT_NO_SETUID_FIXUP), 0, 0, 0) == 0:
        library.setfsgid(entry.st_gid)
        library.setfsuid(entry.st_uid)
        library.prctl(PR_SET_SECUREBITS, ctypes.c_ulong(0), 0, 0, 0)


def unreadable(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the file roots and settings, with their paths, that root can read but the services that it starts cannot.

    Yields nothing if we are not root: services then run as our own account.
    """
    if os.geteuid() != 0:
        return
    account = _account(settings.home)
    if any(closed_parent(path, account) for path in _needs(settings.home)):
        return  # they keep the capability to read everything
    for root in settings.file_roots:
        parts = urlsplit(root.url)
        folder = Path(unquote(parts.path))
        if parts.scheme == "file" and is_folder(folder) and not _reads(account, folder):
            yield root.name, folder
    key = settings.google_service_account_file
    if key is not None and is_file(key) and not _reads(account, key.absolute()):
        yield "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE", key.absolute()


def of_another_account(home: Path) -> str | None:
    """Return what to do if HOME, or a folder on the way to it, is closed to this account; None if it is not."""
    place = nearest(home)
    if os.access(home, os.W_OK | os.X_OK) if place == home else not is_closed(home):
        return None
    try:
        account = place.owner()
    except KeyError:
        account = "another account"
    return f"{place} belongs to {account}: run the command as that account."


def group(settings: Settings) -> int:
    """Return the group of the account that root starts the services as."""
    return _account(settings.home).gid


def _reads(account: SystemUser, path: Path) -> bool:
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return closed_parent(path, account) is None and allows(path, account, wanted)


def _writes(account: SystemUser, folder: Path) -> bool:
    return closed_parent(folder, account) is None and allows(folder, account, stat.S_IWOTH | stat.S_IXOTH)


def _account(home: Path, *, make: bool = False) -> SystemUser:
    """Return HOME's owner, or our own account if that is root, has no name, or HOME does not exist yet.

    If the keys in HOME belong to root, root has used it, and the owner of the folder does not count.
    """
    mark = home / "keys.json" if (home / "keys.json").exists() else home
    found = (owner(mark) if mark.exists() else None) or unprivileged(make=make)
    if found is None:
        raise ConfigurationError("Only root can switch to another account.")
    return found


def _needs(home: Path) -> list[Path]:
    return [Path(sys.executable), Path(sys.executable).resolve(), Path(sys.base_prefix) / "lib", ROOT / "sql", home]


def _uses_a_privileged_port(settings: Settings) -> bool:
    first = int(FREE_PORTS.read_text()) if FREE_PORTS.exists() else 1024
    numbers = (settings.http_port, settings.dagster_port, settings.postgres_port, settings.qdrant_port)
    return any(port < first for port in numbers)


def _obstacle(home: Path, account: SystemUser, closed: Path | None) -> str:
    """Return why the account cannot own HOME or run Concordance, and what to do; empty if no reason is known."""
    if closed and passing() != CAP_DAC_READ_SEARCH:
        # CAP_DAC_OVERRIDE would do, but it also allows writing to every file, which is as good as being root.
        return (
            f"{closed} is closed to other accounts, and this system does not let root pass on the capability "
            f"CAP_DAC_READ_SEARCH. To change that, run: chmod o+x {closed}"
        )
    others = [] if home.exists() and home.stat().st_uid == account.uid else foreign(home)
    if others:
        return (
            f"CONCORDANCE_HOME ({home}) also contains other files ({', '.join(others[:3])}), so its owner is not changed. "
            "Move them elsewhere, or set CONCORDANCE_HOME to a folder of its own."
        )
    return ""


def _fault(probe: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return why the account cannot run the program; empty if it can."""
    done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd="/", env=environment)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
    return f"it cannot run this installation ({said[-1]}). To change that, let it read the program's folder."


def _environment(settings: Settings, account: SystemUser) -> Mapping[str, str]:
    environment = {name: value for name, value in child_environment(settings).items() if not name.startswith("XDG_")}
    # Some libraries look for files in the user's home, and fail if they may not even look.
    environment |= {"HOME": str(settings.home), "USER": account.name, "LOGNAME": account.name}
    environment |= variable(())  # all settings are here: `.env` is not read again
    models = Path.home() / ".cache" / "huggingface"
    if models.is_dir():
        environment.setdefault("HF_HOME", str(models))  # models that root has downloaded
    if "TMPDIR" in environment and not _writes(account, Path(environment["TMPDIR"])):
        del environment["TMPDIR"]
    if sys.prefix != sys.base_prefix and not sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in environment:
        # The account cannot write next to root's files: without this, each process would compile every module again.
        folder = Path(sys.prefix) / f"bytecode-{account.uid}"
        try:
            folder.mkdir(exist_ok=True)
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        except OSError:
            return environment
        environment["PYTHONPYCACHEPREFIX"] = str(folder)
    return environment


def _hand_home_over(settings: Settings, account: SystemUser) -> str:
    """Create HOME if it is missing and make the account its owner. Returns the reason if that is not possible."""
    home = settings.home
    try:
        home.mkdir(mode=0o711, parents=True, exist_ok=True)
        if _belongs(home, account) and _belongs(home / "keys.json", account):
            return ""
        (home / "run").mkdir(mode=0o700, exist_ok=True)
        hung = run_state.end_hung(settings)
        with run_state.lock(settings, PATIENCE_SECONDS if hung else 0.0):
            run_state.end_leftovers(settings)  # they run as root, so the account could not end them
            why = _give(settings, account)
            home.chmod(0o711 if why else 0o700)
            return why
    except OSError as error:
        raise ConfigurationError(
            f"CONCORDANCE_HOME: {home} cannot be written ({error.strerror})."
            " Choose a folder that you may write to, or make room in this one."
        ) from error


def _belongs(path: Path, account: SystemUser) -> bool:
    return not path.exists() or path.stat().st_uid == account.uid


def _give(settings: Settings, account: SystemUser) -> str:
    home = settings.home
    if (home / "keys.json").exists():
        _say(f"Changing the owner of {home} from root to {account.name}, once ...")
    try:
        sockets = socket_path(settings, "code.sock").parent
        if not sockets.is_relative_to(home):
            hand_over(sockets, account)
        os.chown(home, 0, 0)  # so that an interrupted change is repeated, even if another account created the folder
        hand_over(home, account, lambda count: _say(f"  {count} files"))
    except PermissionError as error:
        return f"the owner of {home} cannot be changed ({error.strerror})."
    return ""


def _take_back(home: Path, account: SystemUser) -> None:
    """Make HOME root's again if services run as root after all, so that a later switch includes the files that they write."""
    if home.is_dir() and home.stat().st_uid == account.uid and account == unprivileged():
        os.chown(home, 0, 0)


def _announce(settings: Settings, account: SystemUser, closed: Path | None) -> None:
    more = f". They can read every file, because {closed} is closed to other accounts" if closed else ""
    _say(f"Started as root. Services run as the account {account.name} (uid {account.uid}){more}.")
    for name, path in unreadable(settings):
        _say(
            f"{name}: {path} is readable by root but not by {account.name}, so it cannot be indexed. Let that account read it "
            "and enter the folders above it."
        )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
