"""The supervisor's sign of life: a file's time, in seconds of this machine's monotonic clock, renewed every second.

A supervisor that hangs, or that a signal has stopped, still has its pid; without this, `status` would go on showing what it wrote last.
Renewing a time needs no space on the disk, and the monotonic clock is the same for all processes and never set.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

import psutil

from resources.servers.processes import ProcessIdentity
from resources.settings import Settings

BEAT_SECONDS = 1.0
SILENT_SECONDS = 15.0
"""A supervisor that has not beaten for this long hangs; on a busy machine, a beat may be some seconds late."""


def file(settings: Settings) -> Path:
    """Return the path of the file."""
    return settings.home / "run" / "heartbeat"


def beat(settings: Settings) -> None:
    """Renew the time."""
    path, now = file(settings), time.monotonic_ns()
    path.touch()
    os.utime(path, ns=(now, now))


def keep_beating(settings: Settings, stopping: Event) -> None:
    """Beat until `stopping` is set."""
    while not stopping.wait(BEAT_SECONDS):
        with suppress(OSError):  # a disk that fails for a moment; if it goes on, the silence says so
            beat(settings)


def hangs(settings: Settings, supervisor: ProcessIdentity) -> bool:
    """Return True if this living supervisor is stopped by a signal or has been silent for too long."""
    try:
        if psutil.Process(supervisor.pid).status() == psutil.STATUS_STOPPED:
            return True
        return time.monotonic() - file(settings).stat().st_mtime > SILENT_SECONDS
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False  # it is ending, or has written nothing yet
