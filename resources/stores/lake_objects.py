"""Files of lakes in an object store that backups share: they never change, so each is stored once, at its path below `lake`.

A backup has a list of its files (`SIZE PATH` on each line) and the logs of its tables, which differ from backup to backup and are kept
elsewhere. A file that a sync has not committed yet is in no log, and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from resources.core.errors import AbortSyncError, ConcordanceError
from resources.core.scratch import scratch_folder
from resources.stores.blobs import mapped_errors, open_store
from resources.stores.lake import Lake
from resources.stores.lake_copy import THREADS, Copied, put_file

if TYPE_CHECKING:
    from obstore.store import ObjectStore

FOLDER = "lake"
BATCH = 1000
"""Files that are given to the threads at a time."""


class ListedFile(NamedTuple):
    """A file of a backup's lake: its path in the lake, and its size in bytes."""

    path: str
    size: int


class LakeObjects:
    """The folder `lake` of a store. Errors call the store `named`."""

    def __init__(self, store: ObjectStore, named: str) -> None:
        self._store = store
        self._named = named

    def add(self, lake: Path, logs: Path, listing: Path) -> tuple[Copied, list[str]]:
        """Upload the files of a lake that the store lacks, and write the list of all. Returns the bytes, and files that are missing.

        `logs` is a copy of the logs of the lake's tables (`copy_logs`), which say what files a table consists of.
        """
        new, shared = 0, 0
        missing: list[str] = []
        with listing.open("w") as lines, ThreadPoolExecutor(THREADS) as pool:
            for folder, paths in _folders(lake, logs):
                there = self._sizes(folder)
                found = list(_present(lake, paths, missing))
                lacking = [file for file in found if there.get(file.path) != file.size]
                arrived = pool.map(partial(self._put, lake), lacking)
                gone = {file.path for file, put in zip(lacking, arrived, strict=True) if not put}
                missing += sorted(gone)
                lines.writelines(f"{file.size} {file.path}\n" for file in found if file.path not in gone)
                sent = sum(file.size for file in lacking)
                new, shared = new + sent, shared + sum(file.size for file in found) - sent
        return Copied(new, shared), missing

    def download(self, listing: Path, lake: Path) -> None:
        """Write the listed files to a folder. Raises `ConcordanceError` if one is missing."""

        def get(file: ListedFile) -> None:
            self._save(file, lake / file.path)

        _each(get, listing)

    def forward(self, listing: Path, url: str) -> None:
        """Copy the listed files to the lake at another address. Raises `ConcordanceError` if one is missing."""
        target = open_store(url)
        with scratch_folder() as scratch:

            def put(file: ListedFile) -> None:
                with TemporaryDirectory(dir=scratch) as folder, mapped_errors():
                    put_file(target, file.path, self._save(file, Path(folder) / "file"))

            _each(put, listing)

    def _sizes(self, folder: str) -> dict[str, int]:
        """Return the sizes of the files that the store has of a folder of the lake, by path."""
        with mapped_errors(self._named):
            return {
                found["path"].removeprefix(f"{FOLDER}/"): found["size"]
                for page in self._store.list(f"{FOLDER}/{folder}")
                for found in page
            }

    def _put(self, lake: Path, file: ListedFile) -> bool:
        """Upload a file and return True, or False if it is no longer there."""
        with mapped_errors(self._named):
            try:
                put_file(self._store, f"{FOLDER}/{file.path}", lake / file.path)
            except FileNotFoundError:
                return False
        return True

    def _save(self, file: ListedFile, place: Path) -> Path:
        done = 0
        place.parent.mkdir(parents=True, exist_ok=True)
        with mapped_errors(self._named), place.open("wb") as out, suppress(FileNotFoundError):
            for piece in self._store.get(f"{FOLDER}/{file.path}").stream():
                done += out.write(piece)
        if done != file.size:
            raise ConcordanceError(
                f"The backup is damaged: {done} of {file.size} bytes of its file {FOLDER}/{file.path} are in the store. "
                "Restore another backup."
            )
        return place


def _folders(lake: Path, logs: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield folders of a lake with the paths of the files that belong to them; a part of the blobs at a time."""
    tables = Lake(logs.as_uri())
    for name in tables.names():
        try:
            table = tables.open(name)
        except AbortSyncError:
            continue  # its log is damaged, which the check of the lake reports
        uris = [] if table is None else table.file_uris()
        yield f"tables/{name}", [f"tables/{name}/{uri.rpartition('/')[2]}" for uri in uris]
    for folder in sorted((lake / "blobs").glob("[0-9a-f][0-9a-f]")):
        files = (file for file in folder.rglob("*") if file.is_file())
        yield f"blobs/{folder.name}", sorted(file.relative_to(lake).as_posix() for file in files)


def _present(lake: Path, paths: Iterable[str], missing: list[str]) -> Iterator[ListedFile]:
    for path in paths:
        try:
            yield ListedFile(path, (lake / path).stat().st_size)
        except FileNotFoundError:
            missing.append(path)


def _each(work: Callable[[ListedFile], None], listing: Path) -> None:
    """Do the work for each listed file, several at a time."""
    with listing.open() as lines, ThreadPoolExecutor(THREADS) as pool:
        files = (ListedFile(path, int(size)) for size, path in (line.rstrip("\n").split(" ", 1) for line in lines))
        while batch := list(islice(files, BATCH)):
            list(pool.map(work, batch))
