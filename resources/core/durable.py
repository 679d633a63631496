"""Writes that survive a loss of power."""

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves either the old or the new content; durable on return."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
