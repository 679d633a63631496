"""Sets logs aside while services write to them.

Services append to an inherited file, which must therefore stay the same file. Its beginning is copied, then cut off: no line is
lost, because the copied bytes never change and the file system removes exactly those.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from pathlib import Path

LOG_BYTES = 20 * 1024 * 1024
"""A log larger than this is set aside; one generation is kept."""
LOOK_SECONDS = 5.0
COLLAPSE_RANGE = 0x08
"""Source: fallocate(2), FALLOC_FL_COLLAPSE_RANGE"""


def watch(folder: Path, stopping: threading.Event, limit: int = LOG_BYTES) -> None:
    """Set aside each log of the folder that grows past `limit` bytes, until `stopping` is set."""
    while not stopping.wait(LOOK_SECONDS):
        for log in folder.glob("*.log"):
            rotate(log, limit)


def rotate(log: Path, limit: int = LOG_BYTES) -> bool:
    """Move all but the end of a log larger than `limit` bytes to `NAME.log.1`; return True if that was done."""
    try:
        with log.open("r+b") as file:
            block = os.fstatvfs(file.fileno()).f_bsize
            # Whole blocks only, and never the last one: a range that reaches the end cannot be collapsed.
            size = (os.fstat(file.fileno()).st_size - 1) // block * block
            if size <= limit:
                return False
            kept = log.with_suffix(".log.1")
            draft = log.with_suffix(".log.new")
            _copy(log, draft, size)
            if not _cut_beginning(file.fileno(), size):
                # tmpfs and others cannot do that. What is written between the last copied byte and the cut is lost.
                shutil.copyfile(log, draft)
                file.truncate(0)
            draft.replace(kept)
    except OSError:
        return False  # a full disk, say: the log grows until there is room to set it aside
    return True


def _copy(log: Path, target: Path, size: int) -> None:
    with log.open("rb") as source, target.open("wb") as out:
        left = size
        while left > 0 and (data := source.read(min(left, 1 << 20))):
            out.write(data)
            left -= len(data)


def _cut_beginning(descriptor: int, size: int) -> bool:
    """Remove the first `size` bytes of a file in place; False if its file system cannot do that."""
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:  # not Linux
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return fallocate(descriptor, COLLAPSE_RANGE, 0, size) == 0
