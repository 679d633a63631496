"""A list on disk of recent permission changes by owners and Slack events, for searches without Postgres.

A deletion or a narrowed permission reaches the index with the next sync. Until then Postgres hides the document, and this list does so
while Postgres is down. A change is on disk before its transaction commits. All serving processes of a HOME share the list. It can
only restrict: it grants nothing that the index does not grant.
"""

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
"""After growing by this much, the list is rewritten without expired and superseded entries."""
KEEP_FACTOR = 2
"""Entries are kept for this multiple of the age at which permissions expire: by then the fallback withholds the document anyway, unless a
later sync, which saw the change, has checked it."""

log = logger("serving")


class RightsEntry(msgspec.Struct, frozen=True, array_like=True):
    """The principals that may read a document since `at` (Unix time); none if it was deleted."""

    doc_id: str
    at: float
    permissions: list[str]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RightsEntry)


class Rights:
    """The list of permission changes, in a folder below HOME."""

    def __init__(self, folder: Path, max_age: timedelta) -> None:
        self._folder = folder
        self._file = folder / "uploads.jsonl"
        self._keep = max_age.total_seconds() * KEEP_FACTOR
        self._compacted = 0
        self._read: tuple[tuple[int, int], dict[str, frozenset[str]]] = ((0, 0), {})

    def note(self, doc_id: str, permissions: Iterable[str]) -> None:
        """Store durably who may read a document from now on. Call it last in the transaction that changes it. Blocking.

        Raises `RetryLaterError` when it cannot be written; the transaction must not commit then.
        """
        self._append(RightsEntry(doc_id, time.time(), sorted(permissions)))

    def withhold(self, doc_ids: Iterable[str]) -> None:
        """Store that no one may read these documents from now on, like `note`."""
        now = time.time()
        self._append(*(RightsEntry(doc_id, now, []) for doc_id in doc_ids))

    def narrow(self, readers: Mapping[str, Iterable[str]]) -> None:
        """Store who may read each of these documents from now on, like `note`."""
        now = time.time()
        self._append(*(RightsEntry(doc_id, now, sorted(permissions)) for doc_id, permissions in readers.items()))

    def _append(self, *entries: RightsEntry) -> None:
        line = b"".join(_encoder.encode(entry) + b"\n" for entry in entries)
        try:
            with self._locked():
                with _private(self._file, os.O_RDWR | os.O_APPEND) as file:
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(0, end - 1))
                    if file.read() not in (b"", b"\n"):
                        line = b"\n" + line  # a crash truncated the previous line
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                if end > self._compacted + COMPACT_BYTES:
                    self._compact()
        except OSError as error:
            log.error("rights_not_written", error=str(error))
            raise RetryLaterError(
                f"The change could not be written to disk ({error.strerror}), so it was not made."
            ) from error

    def current(self) -> Mapping[str, frozenset[str]]:
        """Return the principals that may read each listed document, by its latest entry. Rereads the file if it has changed."""
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return {}
        version = (stat.st_ino, stat.st_size)
        if version != self._read[0]:
            latest = {entry.doc_id: frozenset(entry.permissions) for entry in self._entries()}
            self._read = (version, latest)
        return self._read[1]

    def _entries(self) -> Generator[RightsEntry]:
        oldest = time.time() - self._keep
        with self._file.open("rb") as file:
            for line in file:
                try:
                    entry = _decoder.decode(line)
                except msgspec.MsgspecError:
                    continue  # truncated by a crash: its change was never committed
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
    """Open a file that only the owner may read, creating it if needed."""
    mode = "rb+" if flags & os.O_RDWR else "wb"
    return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600), mode)
