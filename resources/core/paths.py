"""Ask what a path is where the answer may be refused: `Path.is_dir` and the like raise if a parent folder cannot be entered.

`os.walk` does not raise, and leaves out what it cannot list.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk through a folder as `os.walk` does. One that is gone has no files; raises `OSError` for one that cannot be listed."""
    return os.walk(folder, onerror=_raise_unless_gone)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


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
