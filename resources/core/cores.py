"""The number of cores."""

import os


def cores() -> int:
    """Return the number of cores this process may use (a container's share, not the machine's)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
