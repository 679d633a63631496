"""Processes of our own: told apart from strangers that reuse their number, and ended whole.

A process is known by its number and its start time together; the number alone may have gone to somebody else since.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import msgspec
import psutil


class ProcessIdentity(msgspec.Struct, frozen=True):
    """One process for good: pid and start time (seconds since boot on Linux, so a changed clock changes nothing)."""

    pid: int
    started: float


def identify(pid: int) -> ProcessIdentity | None:
    """Return who has this number now; None when nobody has, or only a corpse."""
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
    """Whether that very process runs."""
    return identify(identity.pid) == identity


def end_group(identity: ProcessIdentity, first: signal.Signals = signal.SIGTERM, grace: float = 10.0) -> None:
    """End a process that leads its own group, with all of the group: `first` to the leader, SIGKILL to all after `grace` seconds.

    Returns when none of the group is left. Does nothing when the number has gone to somebody else.
    """
    if identify(identity.pid) not in (identity, None):
        return
    members = group(identity.pid)
    if alive(identity):
        # The leader alone is told first: Postgres, Dagster and uvicorn end their own children, and in order.
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
            continue  # ended meanwhile, or a stranger's
    return found


def kill_all(identities: list[ProcessIdentity], patience: float = 5.0) -> None:
    """Kill these processes at once and wait until they are gone."""
    for identity in identities:
        if alive(identity):
            _send(identity.pid, signal.SIGKILL)
    wait_gone(identities, patience)


def wait_gone(identities: list[ProcessIdentity], patience: float) -> bool:
    """Wait until none of these runs; False when `patience` seconds were not enough.

    A corpse that nobody collects counts as gone: in a container the first process may never collect orphans.
    """
    deadline = time.monotonic() + patience
    while any(alive(identity) for identity in identities):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended between the look and the signal


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def tail(log: Path, lines: int = 5) -> str:
    """Return the last lines of a log for a message; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
