"""Ask what a path is where the answer may be refused: `Path.is_dir` and the like raise if a parent folder cannot be entered."""

import os
from pathlib import Path


def is_folder(path: Path) -> bool:
    """Return True if the path is known to be a folder."""
    return os.path.isdir(path)  # noqa: PTH112 # does not raise


def is_file(path: Path) -> bool:
    """Return True if the path is known to be a file."""
    return os.path.isfile(path)  # noqa: PTH113 # does not raise


def is_closed(path: Path) -> bool:
    """Return True if this account may not even know whether the path exists."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
