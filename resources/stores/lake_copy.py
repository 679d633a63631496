"""Copy a lake's folder to an object store, for an installation that moves from one machine to servers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from resources.core.errors import InvalidRequestError
from resources.stores.blobs import mapped_errors, open_store

THREADS = 16
"""Concurrent uploads: a lake has many small files, and each upload waits for the store."""
LOG = "_delta_log"


def check_empty(url: str) -> None:
    """Raise `InvalidRequestError` if there is an object below the address."""
    with mapped_errors():
        for page in open_store(url).list(chunk_size=1):
            for found in page:
                raise InvalidRequestError(
                    f"{url} already contains data ({found['path']}). Restore into an empty bucket or below another prefix."
                )


def upload(folder: Path, url: str) -> int:
    """Copy all files of the folder and return their number; logs of tables follow the files that they name. Raises `ConcordanceError`."""
    store = open_store(url)

    def put(file: Path) -> None:
        with mapped_errors():
            store.put(file.relative_to(folder).as_posix(), file)

    files = sorted(path for path in folder.rglob("*") if path.is_file() and ".incoming" not in path.parts)
    data = [file for file in files if LOG not in file.parts]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(put, data))
        list(pool.map(put, [file for file in files if LOG in file.parts]))
    return len(files)


def remove_all(url: str) -> None:
    """Remove all objects below the address."""
    store = open_store(url)
    with mapped_errors():
        for page in store.list(chunk_size=500):
            store.delete([found["path"] for found in page])
