"""Backups in an object store. Below the address, each has a folder named by its time, complete once that has `backup.json`; the files of
their lakes are shared (`resources.stores.lake_objects`).
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from resources.core.errors import InvalidRequestError, ServiceUnavailableError
from resources.core.scratch import scratch_folder
from resources.logging import logger
from resources.settings.urls import BUCKETS
from resources.stores.blobs import mapped_errors, open_store
from resources.stores.lake_copy import put_file
from resources.stores.lake_objects import LakeObjects

MANIFEST = "backup.json"
FILES = "files.txt"
"""The list of the files of a backup's lake."""
TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"\d{8}T\d{6}Z")
NAMED = "The object store of the backup"

log = logger("backup")


class BackupStore:
    """The backups at an address such as `s3://bucket/prefix`, or `s3://bucket/prefix/TIME` for a certain one."""

    def __init__(self, address: str) -> None:
        above, _, last = address.rstrip("/").rpartition("/")
        self._chosen = last if _NAME.fullmatch(last) else None
        self._url = above if self._chosen else address.rstrip("/")
        parts = urlsplit(self._url)
        if parts.scheme not in BUCKETS or not parts.netloc:
            raise InvalidRequestError(
                f"{address} is not an address in an object store: write s3://bucket/prefix, az://… or gs://…, or the path of a folder."
            )
        self._store = open_store(self._url, "The address of the backup")
        self.lake = LakeObjects(self._store, NAMED)

    def put(self, stage: Path, made_at: datetime) -> str:
        """Add the files of a folder as the backup of this time, its manifest last, or none of them. Returns the backup's address."""
        name = made_at.strftime(TIME)
        files = sorted(path for path in stage.rglob("*") if path.is_file())
        sent: list[str] = []
        try:
            for file in sorted(files, key=lambda file: file == stage / MANIFEST):
                sent.append(f"{name}/{file.relative_to(stage).as_posix()}")
                with mapped_errors(NAMED):
                    put_file(self._store, sent[-1], file)
        except BaseException:  # the keys are among them
            try:
                with mapped_errors(NAMED):
                    self._store.delete(sent)
            except ServiceUnavailableError as error:
                log.error("backup_not_removed", address=f"{self._url}/{name}", error=str(error))
            raise
        return f"{self._url}/{name}"

    @contextmanager
    def fetched(self) -> Generator[Path]:
        """Copy the chosen or the newest backup without its lake to a temporary folder, for the block.

        Raises `InvalidRequestError` if there is no complete one.
        """
        with scratch_folder() as made:
            self._fetch(made)
            yield made

    def _fetch(self, folder: Path) -> None:
        with mapped_errors(NAMED):
            name = self._complete()
            for path in [found["path"] for page in self._store.list(name) for found in page]:
                place = folder / path.removeprefix(f"{name}/")
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as out:
                    out.writelines(self._store.get(path).stream())

    def _complete(self) -> str:
        """Return the name of the chosen backup, or of the newest complete one."""
        if self._chosen is None:
            folders = self._store.list_with_delimiter()["common_prefixes"]
            names = sorted(filter(_NAME.fullmatch, (folder.strip("/") for folder in folders)), reverse=True)
        else:
            names = [self._chosen]
        for name in names:
            if self._has(f"{name}/{MANIFEST}"):
                return name
        where = "/".join(filter(None, (self._url, self._chosen)))
        raise InvalidRequestError(
            f"There is no complete backup at {where}: it would have {MANIFEST}, which `concordance backup` writes last."
        )

    def _has(self, path: str) -> bool:
        try:
            self._store.head(path)
        except FileNotFoundError:
            return False
        return True
