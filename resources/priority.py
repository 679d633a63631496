"""The priority of this process's threads, which long work lowers so that short work of other processes is not delayed by it."""

import os
from pathlib import Path

NICE = 10
"""At this niceness a thread gets a tenth of a core that a thread at 0 wants too (Linux, `sched(7)`)."""
_TASKS = Path("/proc/self/task")


def lower() -> None:
    """Lower the priority of all threads of this process. It cannot be raised again without privileges."""
    if not _TASKS.is_dir():
        _lower(0)
        return
    for task in _TASKS.iterdir():  # Linux has a priority for each thread; later threads inherit it
        try:
            _lower(int(task.name))
        except ProcessLookupError:
            continue  # it has ended meanwhile


def _lower(thread: int) -> None:
    """Lower a thread's priority, unless it is low already: `nice concordance up` has lowered it, and only root may raise it."""
    if os.getpriority(os.PRIO_PROCESS, thread) < NICE:
        os.setpriority(os.PRIO_PROCESS, thread, NICE)


def lowered() -> bool:
    return os.getpriority(os.PRIO_PROCESS, 0) >= NICE
