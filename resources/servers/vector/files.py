"""Crash-safe file operations: atomic writes, copies of sparse files, and an exclusive lock on a folder.

A collection's preallocated files are mostly holes; copying only their data keeps a copy as small as the original.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

from resources.core.durable import sync_folder
from resources.core.paths import walk
from resources.servers.vector.faults import wrong_input

# Source: https://github.com/qdrant/qdrant lib/collection name validation: characters that are not portable in folder names.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')
_LONGEST_NAME = 255
_CHUNK = 8 * 1024 * 1024
_OF_CONTENT = {None, errno.ENOENT, errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.EUCLEAN}
"""Errors of the system that a damaged collection has, or none. Others say nothing of the files' content."""
_CODE = re.compile(r"\b(?:os error|code:) (\d+)")
"""The number of an error of the system in a message of the engine, which is written in Rust."""


class FolderError(Exception):
    """The folder cannot be served: another process uses it, or it holds a collection that this server cannot open."""


def unopened(error: Exception) -> str:
    """Return what to do about a collection that cannot be opened: its folder is to be deleted only if it is damaged."""
    code = _CODE.search(str(error))
    number = error.errno if isinstance(error, OSError) else int(code[1]) if code else None
    if number not in _OF_CONTENT:
        return "Its files are as they were: repair that (permissions, open files, disk, memory), and start again"
    return "Serve it with an earlier version, or delete the folder"


def check_name(name: str) -> str:
    """Return the collection's name; 400 if it cannot be a folder's name."""
    if not name or len(quote(name, safe="")) > _LONGEST_NAME or _FORBIDDEN & set(name):
        raise wrong_input(
            f'collection name `{name}` must have 1 to {_LONGEST_NAME} characters and none of < > : " / \\ | ? *'
        )
    return name


def folder_name(name: str) -> str:
    """Return a collection's folder name: percent-encoded, so that `..` and other scripts are safe."""
    return quote(name, safe="").replace(".", "%2E")


def collection_name(folder: str) -> str:
    """Return the collection's name for a folder name (inverse of `folder_name`)."""
    return unquote(folder)


def own(path: Path) -> IO[str]:
    """Lock the folder for this process; the lock is held while the returned file is open. Raises `FolderError`."""
    path.mkdir(parents=True, exist_ok=True)
    handle = (path / ".lock").open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        handle.close()
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        message = f"{path} is in use by another vector server (process {owner}): stop that one or give another --path"
        raise FolderError(message) from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def sync_tree(path: Path) -> None:
    """Make every file of a folder durable."""
    for root, _, names in walk(path):
        for name in names:
            handle = os.open(Path(root) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(root))


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder whose writer is paused, preserving holes."""
    shutil.copytree(source, target, copy_function=_copy_data)


def size_on_disk(path: Path) -> int:
    """Return the bytes that the files of a folder take on the disk, without their holes."""
    return sum(Path(root, name).stat().st_blocks * 512 for root, _, names in walk(path) for name in names)


def remove_folder(path: Path) -> None:
    """Remove a folder, renaming it first so that a crash midway leaves nothing that looks complete."""
    doomed = path.with_name(f"{path.name}.removed")
    shutil.rmtree(doomed, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        path.replace(doomed)
        shutil.rmtree(doomed)


def _copy_data(source: str, target: str) -> str:
    with Path(source).open("rb") as reader, Path(target).open("wb") as writer:
        size = os.fstat(reader.fileno()).st_size
        position = 0
        while position < size:
            try:
                position = os.lseek(reader.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break
                raise
            end = os.lseek(reader.fileno(), position, os.SEEK_HOLE)
            reader.seek(position)
            writer.seek(position)
            while position < end:
                piece = reader.read(min(_CHUNK, end - position))
                writer.write(piece)
                position += len(piece)
        writer.truncate(size)
    return target
