"""The supervisor's heartbeat: the modification time of a file, set every second to this machine's monotonic clock.

It shows that a supervisor with a living process hangs or was stopped by a signal. Setting a file's time needs no disk space, and the
monotonic clock is the same for all processes and never adjusted.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

from resources.servers.processes import ProcessIdentity, stopped_by_signal
from resources.settings import Settings

BEAT_SECONDS = 1.0
SILENT_SECONDS = 15.0
"""Age of the heartbeat from which a supervisor counts as hung; on a busy machine, it may be some seconds late."""


def file(settings: Settings) -> Path:
    return settings.home / "run" / "heartbeat"


def beat(settings: Settings) -> None:
    """Set the time of the heartbeat file to now."""
    path, now = file(settings), time.monotonic_ns()
    path.touch()
    os.utime(path, ns=(now, now))


def keep_beating(settings: Settings, stopping: Event) -> None:
    while not stopping.wait(BEAT_SECONDS):
        with suppress(OSError):  # a disk error that lasts shows as a missing heartbeat
            beat(settings)


def hangs(settings: Settings, supervisor: ProcessIdentity) -> bool:
    """Return True if this running supervisor was stopped by a signal or its heartbeat is too old."""
    try:
        return stopped_by_signal(supervisor) or time.monotonic() - file(settings).stat().st_mtime > SILENT_SECONDS
    except FileNotFoundError:
        return False  # it has only just started
