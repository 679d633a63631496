"""Rotate logs while services write to them.

Services append to an inherited file descriptor, so the file must stay the same. Its beginning is copied and then removed in place;
no line is lost, because the copied bytes never change.
"""

import ctypes
import os
import shutil
import threading
from pathlib import Path

LOG_BYTES = 20 * 1024 * 1024
"""Size from which a log is rotated; one generation is kept."""
LOOK_SECONDS = 5.0
COLLAPSE_RANGE = 0x08
"""Source: fallocate(2), FALLOC_FL_COLLAPSE_RANGE"""


def watch(folder: Path, stopping: threading.Event, limit: int = LOG_BYTES) -> None:
    """Rotate each log in the folder that exceeds `limit` bytes, until `stopping` is set."""
    while not stopping.wait(LOOK_SECONDS):
        for log in folder.glob("*.log"):
            rotate(log, limit)


def rotate(log: Path, limit: int = LOG_BYTES) -> bool:
    """Move all but the end of a log larger than `limit` bytes to `NAME.log.1`; return True if it was moved."""
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
                # tmpfs and others do not support this. Lines written between copying and truncating are lost.
                shutil.copyfile(log, draft)
                file.truncate(0)
            draft.replace(kept)
    except OSError:
        return False  # for example a full disk: the log is rotated once there is room
    return True


def _copy(log: Path, target: Path, size: int) -> None:
    with log.open("rb") as source, target.open("wb") as out:
        left = size
        while left > 0 and (data := source.read(min(left, 1 << 20))):
            out.write(data)
            left -= len(data)


def _cut_beginning(descriptor: int, size: int) -> bool:
    """Remove the first `size` bytes of a file in place; return False if its file system does not support this."""
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:  # not Linux
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return fallocate(descriptor, COLLAPSE_RANGE, 0, size) == 0
