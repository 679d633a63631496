"""Copy a lake's folder: to another folder, for a backup, and to an object store, for an installation that moves to servers."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from secrets import randbelow
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, NamedTuple

from resources.core.errors import InvalidRequestError
from resources.core.paths import walk
from resources.stores.blobs import HASH, PARTS, mapped_errors, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ObjectStore

THREADS = 16
"""Concurrent uploads: a lake has many small files, and each upload waits for the store."""
UPLOADED_AT_ONCE = 1000
"""Files whose uploads are planned at a time."""
LARGE_BYTES, MOST_LARGE = 1024 * 1024, 4
"""Of files larger than this, so many are uploaded at a time, so that each part arrives in time on a line of 1 MB/s."""
_large = BoundedSemaphore(MOST_LARGE)
SHARES = 16
"""One of so many blobs that an earlier backup has is read before it is shared, each time others: reading all takes as long as copying."""
LOG = "_delta_log"
COPIES = 3
"""Attempts to copy a table's log: meanwhile a checkpoint may replace entries that are older than a week."""


class Copied(NamedTuple):
    """Bytes that a copy wrote, and those that it shares with an earlier one."""

    new: int = 0
    shared: int = 0


def copy_folder(source: Path, target: Path, earlier: Path | None = None) -> Copied:
    """Copy the files of a folder, if it exists; those that `earlier` has, too, and that never change are linked to it.

    Logs of Delta tables are listed and copied before the files that they name.
    """
    new, shared = copy_logs(source, target), 0
    share = randbelow(SHARES)  # not by the date: backups of every other day would always read the same half
    for file in _files(source, logs=False):
        name = file.relative_to(source)
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if earlier is not None and (size := _linked(earlier / name, file, place, share)) is not None:
            shared += size
            continue
        try:
            new += _copied(file, place)
        except FileNotFoundError:
            continue  # an event that is now in Postgres, or a file that a compaction replaced, which the check of the copy finds
    return Copied(new, shared)


def _files(folder: Path, *, logs: bool) -> Iterator[Path]:
    """Yield the files of tables' logs below a folder, or all others, one folder after another: there may be millions."""
    for place, folders, names in walk(folder):
        folders[:] = sorted(one for one in folders if one != ".incoming")
        if (LOG in Path(place).parts) == logs:
            yield from (file for name in sorted(names) if (file := Path(place, name)).is_file())


def _linked(earlier: Path, file: Path, place: Path, share: int) -> int | None:
    """Share a file of an earlier backup; return its size, None where that has no such file, or a rotten one, or it cannot be shared."""
    try:
        size = file.stat().st_size
        if earlier.stat().st_size != size or _is_rotten(earlier, share):
            return None
        place.hardlink_to(earlier)
    except OSError:
        return None
    return size


def _is_rotten(file: Path, share: int) -> bool:
    """Return True if a blob of this share does not have the bytes whose hash is its name."""
    if not HASH.fullmatch(file.name) or int(file.name[:8], 16) % SHARES != share:
        return False
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() != file.name


def copy_logs(source: Path, target: Path) -> int:
    """Copy the logs of the tables in a folder; return their bytes."""
    logs = sorted(path for path in source.rglob(LOG) if path.is_dir())
    return sum(_copy_log(log, target / log.relative_to(source)) for log in logs)


def _copy_log(log: Path, target: Path) -> int:
    """Copy a table's log; return its bytes. A checkpoint that is written meanwhile removes old entries: then once more.

    The name of the last checkpoint is copied first, so that the copy has the checkpoint.
    """
    target.mkdir(parents=True, exist_ok=True)
    for attempt in range(COPIES):
        try:
            newest = [log / "_last_checkpoint"] if (log / "_last_checkpoint").exists() else []
            copied = sum(_copied(file, target / file.name) for file in newest)
            entries = [file for file in log.iterdir() if file.suffix in {".json", ".parquet"}]
            return copied + sum(_copied(file, target / file.name) for file in sorted(entries))
        except FileNotFoundError:
            if attempt == COPIES - 1:
                raise
    return 0


def _copied(file: Path, place: Path) -> int:
    shutil.copyfile(file, place)
    return place.stat().st_size


def check_empty(url: str) -> None:
    """Raise `InvalidRequestError` if there is an object below the address."""
    with mapped_errors():
        for page in open_store(url).list(chunk_size=1):
            for found in page:
                raise InvalidRequestError(
                    f"{url} already contains data ({found['path']}). Restore into an empty bucket or below another prefix."
                )


def put_file(store: ObjectStore, path: str, file: Path) -> None:
    """Upload a file. Raises `FileNotFoundError` if it is gone, and obstore's errors."""
    with _large if file.stat().st_size > LARGE_BYTES else nullcontext():
        store.put(path, file, max_concurrency=PARTS)


def upload(folder: Path, url: str) -> int:
    """Copy all files of the folder and return their number; logs of tables follow the files that they name. Raises `ConcordanceError`."""
    store = open_store(url)

    def put(file: Path) -> None:
        with mapped_errors():
            put_file(store, file.relative_to(folder).as_posix(), file)

    number = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for logs in (False, True):
            files = _files(folder, logs=logs)
            while part := list(islice(files, UPLOADED_AT_ONCE)):
                number += sum(1 for _ in pool.map(put, part))
    return number


def remove_all(url: str) -> None:
    """Remove all objects below the address."""
    store = open_store(url)
    with mapped_errors():
        for page in store.list(chunk_size=500):
            store.delete([found["path"] for found in page])
