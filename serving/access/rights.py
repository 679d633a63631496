"""Who may read documents as their owners, or events of Slack, last said, on the disk: what a search without Postgres asks beside the index.

The index learns of a deletion, or of rights that were taken away, with the next sync. Until then Postgres hides the document; this
list hides it while Postgres is down. A change is on the disk before its transaction commits, and so before anybody is told of it. All
serving processes of a HOME share the list. An entry can only take away: what the index does not grant, it does not grant either.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

import msgspec

from resources.core.errors import RetryLaterError
from resources.logging import logger

COMPACT_BYTES = 4 * 1024 * 1024
"""A list that has grown by this much is written anew without what is old or was said again."""
SLACK = 2
"""Entries are kept for this many times the age at which permissions no longer count: by then the fallback holds the document back anyway,
unless a later sync, which saw the change, has checked it."""

log = logger("serving")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Who may read a document since a time (seconds since 1970); nobody, when it was deleted."""

    doc_id: str
    at: float
    permissions: list[str]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


class Rights:
    """The list in a folder of HOME."""

    def __init__(self, folder: Path, max_age: timedelta) -> None:
        self._folder = folder
        self._file = folder / "uploads.jsonl"
        self._keep = max_age.total_seconds() * SLACK
        self._compacted = 0
        self._read: tuple[tuple[int, int], dict[str, frozenset[str]]] = ((0, 0), {})

    def note(self, doc_id: str, permissions: Iterable[str]) -> None:
        """Put down who may read a document from now on, durably. Call it last in the transaction that changes it; blocking.

        Raises `RetryLaterError` when the disk does not take it: the transaction must not commit then.
        """
        self._append(Entry(doc_id, time.time(), sorted(permissions)))

    def withhold(self, doc_ids: Iterable[str]) -> None:
        """Put down, durably, that nobody may read some documents from now on; as `note`."""
        now = time.time()
        self._append(*(Entry(doc_id, now, []) for doc_id in doc_ids))

    def narrow(self, readers: Mapping[str, Iterable[str]]) -> None:
        """Put down, durably, who may read some documents from now on; as `note`."""
        now = time.time()
        self._append(*(Entry(doc_id, now, sorted(permissions)) for doc_id, permissions in readers.items()))

    def _append(self, *entries: Entry) -> None:
        line = b"".join(_encoder.encode(entry) + b"\n" for entry in entries)
        try:
            with self._locked():
                with _private(self._file, os.O_RDWR | os.O_APPEND) as file:
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(0, end - 1))
                    if file.read() not in (b"", b"\n"):
                        line = b"\n" + line  # a crash cut the line before short
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                if end > self._compacted + COMPACT_BYTES:
                    self._compact()
        except OSError as error:
            log.error("rights_not_noted", error=str(error))
            raise RetryLaterError(
                f"The change could not be kept on the disk ({error.strerror}), so it was not made."
            ) from error

    def current(self) -> Mapping[str, frozenset[str]]:
        """Return who may read each document of the list, by its latest entry. Reads the file when it has changed."""
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return {}
        version = (stat.st_ino, stat.st_size)
        if version != self._read[0]:
            found = {entry.doc_id: frozenset(entry.permissions) for entry in self._entries()}
            self._read = (version, found)
        return self._read[1]

    def _entries(self) -> Generator[Entry]:
        oldest = time.time() - self._keep
        with self._file.open("rb") as file:
            for line in file:
                try:
                    entry = _decoder.decode(line)
                except msgspec.MsgspecError:
                    continue  # cut short by a crash: its change was never committed
                if entry.at >= oldest:
                    yield entry

    def _compact(self) -> None:
        latest = {entry.doc_id: entry for entry in self._entries()}
        draft = self._file.with_suffix(".new")
        with _private(draft, os.O_WRONLY | os.O_TRUNC) as file:
            file.writelines(_encoder.encode(entry) + b"\n" for entry in latest.values())
            file.flush()
            os.fsync(file.fileno())
            self._compacted = file.tell()
        draft.replace(self._file)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _private(self._folder / "lock", os.O_WRONLY) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _private(path: Path, flags: int) -> IO[bytes]:
    """Open a file that the owner alone may read, made where it is missing."""
    mode = "rb+" if flags & os.O_RDWR else "wb"
    return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600), mode)
