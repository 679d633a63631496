"""Identify our processes and end them with their process groups.

A process is identified by its pid and start time, because the pid alone may have been reused.
"""

import contextlib
import os
import random
import signal
import socket
import time
from pathlib import Path

import msgspec
import psutil

from resources.core.errors import ServiceUnavailableError


class ProcessIdentity(msgspec.Struct, frozen=True):
    """Pid and start time of a process (seconds since boot on Linux, independent of clock changes)."""

    pid: int
    started: float


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process with this pid; None if there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessIdentity(pid, _started(process))
    except psutil.NoSuchProcess:
        return None


def _started(process: psutil.Process) -> float:
    stat = Path(f"/proc/{process.pid}/stat")
    if stat.exists():
        try:
            # Field 22, counted after the command's closing bracket. Source: proc_pid_stat(5)
            return float(stat.read_text().rpartition(")")[2].split()[19])
        except (OSError, IndexError, ValueError):
            raise psutil.NoSuchProcess(process.pid) from None
    return process.create_time()


def alive(identity: ProcessIdentity) -> bool:
    """Return True if this process, and not another one with its pid, is running."""
    return identify(identity.pid) == identity


def end_group(identity: ProcessIdentity, first: signal.Signals = signal.SIGTERM, grace: float = 10.0) -> None:
    """Send `first` to a group's leader, then SIGKILL to all of the group after `grace` seconds, and wait until it is gone.

    Does nothing if the pid belongs to another process now.
    """
    if identify(identity.pid) not in (identity, None):
        return
    members = group(identity.pid)
    if alive(identity):
        # Only the leader is signalled first: Postgres, Dagster and uvicorn end their own children in order.
        _send(identity.pid, first)
        wait_gone([identity], grace)
    kill_all([member for member in members if alive(member)])


def group(leader: int) -> list[ProcessIdentity]:
    """Return the processes of the group that `leader` leads or led."""
    found: list[ProcessIdentity] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and (identity := identify(process.pid)):
                found.append(identity)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or owned by another account
    return found


def family(leader: ProcessIdentity) -> list[ProcessIdentity]:
    """Return the process, its descendants and every process of its group."""
    found = {member.pid: member for member in group(leader.pid)}
    try:
        if alive(leader):
            found[leader.pid] = leader
            for child in psutil.Process(leader.pid).children(recursive=True):
                if (identity := identify(child.pid)) is not None:
                    found[child.pid] = identity
    except psutil.NoSuchProcess:
        pass  # it ended meanwhile
    return list(found.values())


def stopped_by_signal(identity: ProcessIdentity) -> bool:
    """Return True if the process was stopped by a signal."""
    try:
        return psutil.Process(identity.pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def kill_all(identities: list[ProcessIdentity]) -> None:
    """Kill these processes and wait up to five seconds until they are gone."""
    for identity in identities:
        if alive(identity):
            _send(identity.pid, signal.SIGKILL)
    wait_gone(identities, 5.0)


def wait_gone(identities: list[ProcessIdentity], seconds: float) -> None:
    """Wait until none of these is running, for at most `seconds`.

    Zombies count as gone, because in a container the first process may never reap orphans.
    """
    deadline = time.monotonic() + seconds
    while any(alive(identity) for identity in identities):
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended meanwhile


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    return port_fault(port, host) is None


def port_fault(port: int, host: str = "127.0.0.1") -> OSError | None:
    """Return why this process cannot listen on a port; None if it can."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


PORTS = range(20_000, 32_000)
"""Below those that kernels give to outgoing connections: one of these could take a port before it is used."""
_offered: set[int] = set()


def free_port() -> int:
    """Return a port that is free now, and that was not returned before: what will use that one may not listen yet."""
    # not the module's own generator: processes that seed it alike, as tests do, would choose the same ports
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            if port not in _offered:
                probe.bind(("127.0.0.1", port))
                _offered.add(port)
                return port
    raise ServiceUnavailableError("None of 100 ports between 20000 and 31999 of 127.0.0.1 can be used.")


def tail(log: Path) -> str:
    """Return the last five lines of a log for a message; empty if there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-5:])
