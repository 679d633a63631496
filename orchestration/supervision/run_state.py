"""The state of the running services in `HOME/run/state.json`, and the lock that permits one supervisor per HOME."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import msgspec
import psutil

from orchestration.supervision.heartbeat import hangs
from resources.core.durable import write_atomic
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.servers.processes import ProcessIdentity, alive, end_group, group, kill_all
from resources.settings import Settings

StateName = Literal["starting", "ready", "hung", "restarting", "stopped", "external"]


class ServiceStatus(msgspec.Struct, kw_only=True):
    """The state of one service; `started` distinguishes its process from a later one with the same pid."""

    state: StateName
    url: str | None = None
    pid: int | None = None
    started: float | None = None
    stop_signal: int = signal.SIGTERM
    """The signal that stops it cleanly."""

    @property
    def identity(self) -> ProcessIdentity | None:
        return ProcessIdentity(self.pid, self.started) if self.pid is not None and self.started is not None else None

    def end(self) -> bool:
        """End the process and its group. Return True if it was running."""
        if self.identity is None or not alive(self.identity):
            return False
        end_group(self.identity, signal.Signals(self.stop_signal))
        return True


class StartedWith(msgspec.Struct, kw_only=True):
    """A salted digest of each setting, and whether the sample company was added. See `orchestration.supervision.changes`."""

    salt: str
    digests: dict[str, str]
    sample: bool = False
    added_roots: list[tuple[str, str]] = []
    """Name and URL of each root of the sample company if it was added."""


class RunState(msgspec.Struct, kw_only=True):
    """The content of the file. `error` is the reason why the last `up` failed."""

    supervisor: ProcessIdentity | None = None
    services: dict[str, ServiceStatus] = {}
    complete: bool = False
    """True once every service has been ready; before that, some services are not listed yet."""
    error: str | None = None
    started: StartedWith | None = None
    """The settings that the services were started with."""
    folder: tuple[int, int] | None = None
    """Device and inode of `HOME/run`, which `write` adds: the processes in a copy of the file belong to the HOME that was copied."""


def state_file(settings: Settings) -> Path:
    return settings.home / "run" / "state.json"


def read(settings: Settings) -> RunState:
    """Return the state from the file, or an empty one if there is no file, or only a copy of another HOME's."""
    try:
        state = msgspec.json.decode(state_file(settings).read_bytes(), type=RunState)
    except FileNotFoundError:
        return RunState()
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"{state_file(settings)} is damaged. Stop the processes of this HOME by hand, then delete the file."
        ) from error
    if state.folder is None:  # earlier versions did not write it
        services = (one.identity for one in state.services.values() if one.identity is not None and alive(one.identity))
        ours = all(_home(one) in (None, str(settings.home)) for one in services)
    else:
        ours = state.folder == _folder(settings)
    return state if ours else RunState()


def write(settings: Settings, state: RunState) -> None:
    """Replace the file atomically."""
    file = state_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, msgspec.json.encode(msgspec.structs.replace(state, folder=_folder(settings))) + b"\n")


def _folder(settings: Settings) -> tuple[int, int]:
    found = state_file(settings).parent.stat()
    return found.st_dev, found.st_ino


def supervisor(settings: Settings) -> ProcessIdentity | None:
    found = read(settings).supervisor
    return found if found is not None and alive(found) else None


def supervised_elsewhere(settings: Settings) -> bool:
    """Return True if something else than `up` runs the processes, each by its own command."""
    return settings.http_internal_url is not None and supervisor(settings) is None


def hung_supervisor(settings: Settings) -> ProcessIdentity | None:
    found = supervisor(settings)
    return found if found is not None and hangs(settings, found) else None


def end_hung(settings: Settings) -> ProcessIdentity | None:
    """Kill a supervisor that hangs and return it; its services then end, too."""
    found = hung_supervisor(settings)
    if found is not None:
        kill_all([found])
    return found


def account(settings: Settings) -> str | None:
    """Return the account that the services of this HOME run as; None if no supervisor is running."""
    found = supervisor(settings)
    if found is None:
        return None
    try:
        return psutil.Process(found.pid).username()
    except psutil.NoSuchProcess:
        return None


def running(settings: Settings) -> bool:
    """Return True if a supervisor is running and all of its services are ready."""
    state = read(settings)
    return (
        state.supervisor is not None
        and state.complete
        and alive(state.supervisor)
        and not hangs(settings, state.supervisor)
        and all(service.state in ("ready", "external") for service in state.services.values())
    )


KILLED_SECONDS = 5.0
"""Time that a killed supervisor may still hold its lock."""


HOW_TO_START = "Start it with: concordance up"
WAIT = "Concordance is running, but this service is not responding. See `concordance status`, then try again."


def remedy(settings: Settings) -> str:
    """Return what to do about a service that is not responding."""
    return HOW_TO_START if supervisor(settings) is None else WAIT


class AlreadyRunningError(ConcordanceError):
    """Another supervisor uses this HOME."""


def already_running(settings: Settings) -> str:
    """Return the message for a second `up` with the same HOME."""
    if running(settings):
        return f"Concordance is already running in {settings.home}. See `concordance status`, or stop it with `concordance down`."
    return f"Another `concordance up` is starting in {settings.home}. See its progress with `concordance status`."


def lock(settings: Settings, wait: float = 0.0, *, command: str = "up") -> IO[bytes]:
    """Take the lock of this HOME, which is released when the file is closed or the process ends. The file names the command that has it.

    Waits up to `wait` seconds: a killed process holds the lock until its last thread has ended. Raises `AlreadyRunningError`.
    """
    folder = state_file(settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("a+b", buffering=0)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            file.seek(0)
            holder = file.read().decode()
            file.close()
            if holder in ("", "up"):
                raise AlreadyRunningError(already_running(settings)) from None
            raise AlreadyRunningError(
                f"`concordance {holder}` is running in {settings.home}. Run the command again once it has ended."
            ) from None
        with suppress(OSError):  # of a full disk
            file.truncate(0)
            file.write(command.encode())
        return file


def end_leftovers(settings: Settings) -> list[str]:
    """Wait until the services of a killed supervisor have ended, in reverse order, and kill those that do not end.

    They were told to end when it was killed. Returns the names of those that were running. The caller holds the lock.
    """
    ended: list[str] = []
    for name, service in reversed(read(settings).services.items()):
        if service.end():
            ended.append(name)
            continue
        identity = service.identity
        if identity is None:
            continue
        # The leader has ended, but its group may still have children; ours have our HOME in their environment.
        children = [member for member in group(identity.pid) if _home(member) == str(settings.home)]
        if children:
            kill_all(children)
            ended.append(name)
    return ended


def _home(identity: ProcessIdentity) -> str | None:
    """Return the HOME in the environment of a process, if it can be read; every service of ours has it."""
    try:
        return psutil.Process(identity.pid).environ().get("CONCORDANCE_HOME")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def stop(settings: Settings, wait: float = 120.0) -> bool:
    """Stop the supervisor and all services, also those of a killed or hung one. Return False if nothing was running."""
    end_hung(settings)
    found = supervisor(settings)
    if found is not None:
        os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + wait
        while alive(found):
            if time.monotonic() > deadline:
                raise ConcordanceError(
                    f"The supervisor (pid {found.pid}) did not stop within {wait:.0f} s. See {settings.home / 'logs'}."
                )
            time.sleep(0.05)
        return True
    if not state_file(settings).exists():
        return False
    with lock(settings, KILLED_SECONDS, command="down"):
        ended = end_leftovers(settings)
        write(settings, RunState())
    return bool(ended)
