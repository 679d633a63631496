"""What runs on one HOME, as a file that other commands read: `HOME/run/state.json`, and the lock that admits one supervisor.

Enter: settings. Leave: each service's state, address and pid, whether a supervisor lives, and the means to end what a killed
supervisor left behind.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import IO, Literal

import msgspec
import psutil

from orchestration.supervision.heartbeat import hangs
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.servers.processes import ProcessIdentity, alive, end_group, group, kill_all
from resources.settings import Settings

StateName = Literal["starting", "ready", "hung", "restarting", "stopped", "external"]


class ServiceStatus(msgspec.Struct, kw_only=True):
    """One service as `status` shows it; `started` tells its process from another with the same pid."""

    state: StateName
    url: str | None = None
    pid: int | None = None
    started: float | None = None
    stop_signal: int = signal.SIGTERM
    """What asks it to end cleanly."""
    fingerprint: str | None = None
    """Hash of its command, settings and version; only a process with the same one is adopted."""
    standby: ProcessIdentity | None = None
    """The process that waits to take over, which it does without the supervisor."""

    @property
    def identity(self) -> ProcessIdentity | None:
        """The process, if there was one."""
        return ProcessIdentity(self.pid, self.started) if self.pid is not None and self.started is not None else None

    def present(self) -> ServiceStatus:
        """Return the state as it is by now: a process that has ended is replaced by the one that waited."""
        if self.standby is None or not alive(self.standby) or (self.identity is not None and alive(self.identity)):
            return self
        return msgspec.structs.replace(self, pid=self.standby.pid, started=self.standby.started, standby=None)

    def end(self) -> bool:
        """End the process that waits, then the process itself. Return False if neither of them lived."""
        lived = False
        if self.standby is not None and alive(self.standby):
            kill_all(group(self.standby.pid))
            lived = True
        if self.identity is not None and alive(self.identity):
            end_group(self.identity, signal.Signals(self.stop_signal))
            lived = True
        return lived


class RunState(msgspec.Struct, kw_only=True):
    """The whole file. `error` is why the last `up` failed, for the command that waits for it."""

    supervisor: ProcessIdentity | None = None
    services: dict[str, ServiceStatus] = {}
    complete: bool = False
    """Whether every service has been ready once: before that, those still to come are not in the list."""
    error: str | None = None


def state_file(settings: Settings) -> Path:
    """Return the path of the state file."""
    return settings.home / "run" / "state.json"


def read(settings: Settings) -> RunState:
    """Return what the file says; an empty state when there is none."""
    try:
        return msgspec.json.decode(state_file(settings).read_bytes(), type=RunState)
    except FileNotFoundError:
        return RunState()
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"{state_file(settings)} is damaged: end what still runs on this HOME by hand, then delete the file."
        ) from error


def write(settings: Settings, state: RunState) -> None:
    """Replace the file whole: a reader never sees half of it."""
    file = state_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(state) + b"\n")
    draft.replace(file)


def supervisor(settings: Settings) -> ProcessIdentity | None:
    """Return the supervisor that lives on this HOME, if one does."""
    found = read(settings).supervisor
    return found if found is not None and alive(found) else None


def hung_supervisor(settings: Settings) -> ProcessIdentity | None:
    """Return the supervisor that lives on this HOME but has stopped working, if there is one."""
    found = supervisor(settings)
    return found if found is not None and hangs(settings, found) else None


def end_hung(settings: Settings) -> ProcessIdentity | None:
    """Kill a supervisor that has stopped working, and return it; its services go on."""
    found = hung_supervisor(settings)
    if found is not None:
        kill_all([found])
    return found


def account(settings: Settings) -> str | None:
    """Return the name of the account that the services of this HOME run as; None if no supervisor is running."""
    found = supervisor(settings)
    if found is None:
        return None
    try:
        return psutil.Process(found.pid).username()
    except psutil.NoSuchProcess:
        return None


def running(settings: Settings) -> bool:
    """Whether a supervisor works and all of its services are ready."""
    state = read(settings)
    return (
        state.supervisor is not None
        and state.complete
        and alive(state.supervisor)
        and not hangs(settings, state.supervisor)
        and all(service.state in ("ready", "external") for service in state.services.values())
    )


KILLED_SECONDS = 5.0
"""How long a killed supervisor may hold its lock."""


class AlreadyRunningError(ConcordanceError):
    """Another supervisor holds this HOME."""


def already(settings: Settings) -> str:
    """Return the message for a second `up` on the same HOME."""
    if running(settings):
        return (
            f"Concordance runs on {settings.home} already: see `concordance status`, or end it with `concordance down`."
        )
    return f"Another `concordance up` holds {settings.home} and is not ready yet: `concordance status` shows how far it is."


def lock(settings: Settings, patience: float = 0.0) -> IO[bytes]:
    """Take the lock of this HOME; it goes when the file is closed or the process ends, however it ends.

    `patience` is how many seconds to wait for it: a killed process holds it until the last of its threads has ended.
    Raises `AlreadyRunningError`.
    """
    folder = state_file(settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("ab")
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            file.close()
            raise AlreadyRunningError(already(settings)) from None
        return file


def end_leftovers(settings: Settings, keep: Collection[str] = ()) -> list[str]:
    """End what a killed supervisor left running, last started first, except the services to `keep`.

    Returns the names ended. Call it holding the lock.
    """
    ended: list[str] = []
    for name, service in reversed(read(settings).services.items()):
        if name in keep:
            continue
        if service.end():
            ended.append(name)
            continue
        identity = service.identity
        if identity is None:
            continue
        # The leader is gone but its children may live, in a group of its number. Ours have our HOME in their environment.
        children = [member for member in group(identity.pid) if _belongs(member, settings.home)]
        if children:
            kill_all(children)
            ended.append(name)
    return ended


def _belongs(identity: ProcessIdentity, home: Path) -> bool:
    try:
        return psutil.Process(identity.pid).environ().get("CONCORDANCE_HOME") == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def end(settings: Settings, patience: float = 120.0) -> bool:
    """Tell the supervisor to stop everything and wait until it has; end leftovers if it was killed or hangs. False: nothing ran."""
    end_hung(settings)
    found = supervisor(settings)
    if found is not None:
        os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while alive(found):
            if time.monotonic() > deadline:
                raise ConcordanceError(
                    f"The supervisor (pid {found.pid}) has not stopped in {patience:.0f} s. See {settings.home / 'logs'}."
                )
            time.sleep(0.05)
        return True
    if not state_file(settings).exists():
        return False
    with lock(settings, KILLED_SECONDS):
        ended = end_leftovers(settings)
        write(settings, RunState())
    return bool(ended)
