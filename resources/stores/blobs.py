"""Content-addressed store for the bytes of documents, in a local folder or an object store (S3, Azure, GCS).

Blobs are named by their sha256, so storing the same bytes twice is idempotent. Writes are atomic: locally by a rename,
in an object store by a put that only takes effect when it is complete. Credentials come from the usual environment
variables (AWS_*, AZURE_*, GOOGLE_*).
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from resources.core.breaker import Breaker
from resources.core.durable import sync_folder
from resources.core.errors import ConfigurationError, FailedDocumentError, ServiceUnavailableError
from resources.core.paths import walk

if TYPE_CHECKING:
    from obstore.store import ObjectStore

HASH = re.compile(r"[0-9a-f]{64}")
_ABANDONED_SECONDS = 3600.0
LAKE_URL = "CONCORDANCE_LAKE_URL"
STORE = f"The object store of {LAKE_URL}"
CALL_SECONDS = 20.0
"""Deadline of a call that transfers no content; obstore itself retries for up to three minutes."""
LEAST_RATE = 500_000
"""Bytes per second; the deadline of a call that transfers content is extended by its size divided by this rate."""

PARTS = 1
"""Parts of a file that are sent at a time. obstore's twelve, of 5 MiB each, would all have to arrive within 30 seconds."""
PIECE = 1024 * 1024
"""Bytes of a piece of `Blobs.stream`."""

_T = TypeVar("_T")


class Blob(NamedTuple):
    """A blob that was just committed: its sha256 in hex and its size in bytes."""

    content_hash: str
    size: int


class StoredBlob(NamedTuple):
    """A stored blob: its sha256 in hex, its size in bytes and when it was last written."""

    content_hash: str
    size: int
    written_at: datetime


class BlobWriter:
    """Writer for the bytes of one blob; leaving the `with` block without `commit` discards them."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._digest = hashlib.sha256()
        self._done = False
        self._file: IO[bytes] = blobs.open_spool()
        self.size = 0

    def write(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._file.write(piece)
        self.size += len(piece)

    @property
    def content_hash(self) -> str:
        """sha256 in hex of what has been written so far."""
        return self._digest.hexdigest()

    def commit(self) -> Blob:
        """Store what was written and return its hash and size. Idempotent for equal bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        blob = Blob(self._digest.hexdigest(), self.size)
        self._blobs.keep(Path(self._file.name), blob.content_hash)
        self._done = True
        return blob

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if not self._done:
            Path(self._file.name).unlink(missing_ok=True)


class Blobs:
    """The blob store of a lake: `<url>/blobs/ab/cd/<sha256>`. Safe across threads and processes.

    Calls to an object store have a deadline. If `breaker` has a rest period, calls are refused for that long after one timed out.
    """

    def __init__(self, url: str, breaker: Breaker | None = None) -> None:
        self._breaker = breaker or Breaker(STORE, rest=0)
        parts = urlsplit(url)
        self._store: ObjectStore | None = None
        if parts.scheme == "file":
            self._root = Path(unquote(parts.path)) / "blobs"
            self._spool = self._root / ".incoming"
            try:
                self._root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._spool.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(
                    f"CONCORDANCE_LAKE_URL: the folder {self._root} cannot be created: {error.strerror}"
                ) from error
        else:
            self._store = open_store(url)
            self._root = Path()
            self._spool = Path(tempfile.gettempdir())

    def writer(self) -> BlobWriter:
        return BlobWriter(self)

    def put(self, pieces: Iterable[bytes]) -> Blob:
        """Store the bytes that `pieces` yields; nothing is stored if it raises."""
        with self.writer() as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.commit()

    def read(self, content_hash: str) -> bytes:
        """Return the bytes. Raises `FailedDocumentError` if the blob is missing, so that it is fetched again."""
        key = _key(content_hash)
        if self._store is None:
            try:
                return (self._root / key).read_bytes()
            except FileNotFoundError:
                raise FailedDocumentError(unreadable(content_hash, "are missing")) from None
        try:
            found = self._call(partial(self._store.get, f"blobs/{key}"))
            return bytes(self._call(found.bytes, found.meta["size"]))
        except FileNotFoundError:
            raise FailedDocumentError(unreadable(content_hash, "are missing")) from None

    def stream(self, content_hash: str) -> tuple[int, Iterator[bytes]]:
        """Return the size of the blob, and its bytes in pieces. Raises as `read` does."""
        key = _key(content_hash)
        if self._store is None:
            try:
                file = (self._root / key).open("rb")
            except FileNotFoundError:
                raise FailedDocumentError(unreadable(content_hash, "are missing")) from None
            return os.fstat(file.fileno()).st_size, _pieces(file)
        try:
            found = self._call(partial(self._store.get, f"blobs/{key}"))
        except FileNotFoundError:
            raise FailedDocumentError(unreadable(content_hash, "are missing")) from None
        return found.meta["size"], self._received(iter(found.stream(PIECE)))

    def local_path(self, content_hash: str) -> Path | None:
        """Return the path of the blob's file, whether or not it exists; None if the store is not a local folder."""
        key = _key(content_hash)
        return self._root / key if self._store is None else None

    def exists(self, content_hash: str) -> bool:
        key = _key(content_hash)
        if self._store is None:
            return (self._root / key).is_file()
        try:
            self._call(partial(self._store.head, f"blobs/{key}"))
        except FileNotFoundError:
            return False
        return True

    def delete(self, content_hash: str) -> None:
        """Remove the blob; a missing one is not an error."""
        key = _key(content_hash)
        if self._store is None:
            (self._root / key).unlink(missing_ok=True)
            return
        try:
            self._call(partial(self._store.delete, f"blobs/{key}"))
        except FileNotFoundError:
            return

    def stored(self) -> Iterator[StoredBlob]:
        """Yield every stored blob, in no particular order. Raises `ServiceUnavailableError`."""
        if self._store is None:
            for file in self._root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]/*"):
                with suppress(FileNotFoundError):
                    status = file.stat()
                    yield StoredBlob(file.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
            return
        with mapped_errors():
            for page in self._store.list("blobs"):
                for entry in page:
                    yield StoredBlob(entry["path"].rpartition("/")[2], entry["size"], entry["last_modified"])

    def size(self, content_hash: str) -> int | None:
        """Return the number of bytes stored, or None if the blob is missing."""
        key = _key(content_hash)
        if self._store is None:
            try:
                return (self._root / key).stat().st_size
            except FileNotFoundError:
                return None
        try:
            return self._call(partial(self._store.head, f"blobs/{key}"))["size"]
        except FileNotFoundError:
            return None

    def sweep(self, older_than: float = _ABANDONED_SECONDS) -> int:
        """Remove unfinished files of killed processes that have not changed for `older_than` seconds; return how many."""
        removed = 0
        for file in self._spool.glob("concordance-blob-*"):
            with suppress(FileNotFoundError):  # another process removed it, or its writer has just finished
                if time.time() - file.stat().st_mtime > older_than:
                    file.unlink()
                    removed += 1
        return removed

    def lake_size(self) -> int:
        """Return the bytes of the whole lake, tables included. Raises `ServiceUnavailableError`. Reads the name of every file."""
        if self._store is None:
            try:
                return sum(_size(Path(folder, name)) for folder, _, names in walk(self._root.parent) for name in names)
            except OSError as error:
                raise ServiceUnavailableError(f"A folder of {LAKE_URL} cannot be read: {error}") from error
        pages, size = iter(self._store.list()), 0
        while (page := self._call(partial(next, pages, None))) is not None:
            size += sum(one["size"] for one in page)
        return size

    def open_spool(self) -> IO[bytes]:
        """Return a new temporary file for the bytes of one blob; used by `BlobWriter`."""
        return tempfile.NamedTemporaryFile(prefix="concordance-blob-", dir=self._spool, delete=False)

    def keep(self, file: Path, content_hash: str) -> None:
        """Move a finished, fsynced file to its place; used by `BlobWriter`."""
        key = _key(content_hash)
        if self._store is None:
            target = self._root / key
            above = () if target.parent.is_dir() else (target.parent.parent, self._root)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
            for folder in (target.parent, *above):
                sync_folder(folder)
            return
        # even if the same bytes exist: an upload's duration must not reveal whether others have uploaded them
        self._call(partial(self._store.put, f"blobs/{key}", file, max_concurrency=PARTS), file.stat().st_size)
        file.unlink(missing_ok=True)

    def _received(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        while (piece := self._call(partial(next, stream, None), PIECE)) is not None:
            yield bytes(piece)  # it is a buffer of the store

    def _call(self, action: Callable[[], _T], size: int = 0) -> _T:
        """Return the result of a call that transfers `size` bytes. Raises `FileNotFoundError` or `ServiceUnavailableError`."""
        with mapped_errors():
            return self._breaker.call(action, CALL_SECONDS + size / LEAST_RATE)


def stored_folders(url: str, folder: str) -> list[str]:
    """Return the names of the subfolders of a folder of an object store. Raises `ServiceUnavailableError`."""
    with mapped_errors():
        found = open_store(url).list_with_delimiter(f"{folder}/")["common_prefixes"]
    return [prefix.rstrip("/").rpartition("/")[2] for prefix in found]


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE):
            yield piece


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it was removed, or replaced by a compaction
        return 0


def unreadable(content_hash: str, reason: str) -> str:
    """Return what a person reads about bytes that cannot be read. `reason`: a verb phrase."""
    return (
        f"Its stored bytes (blob {content_hash[:12]}…) {reason}. Run `concordance reconcile --deep --apply`, which fetches them again"
        " from the source; an upload must be uploaded again."
    )


def _key(content_hash: str) -> str:
    if not HASH.fullmatch(content_hash):
        raise ValueError(f"{content_hash!r} is not a sha256 in lower-case hex")
    return f"{content_hash[:2]}/{content_hash[2:4]}/{content_hash}"


def open_store(url: str, named_by: str = LAKE_URL) -> ObjectStore:
    """Return the object store at this address, which the setting or argument `named_by` gives. Raises `ConfigurationError`."""
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    try:
        return from_url(url)
    except (BaseError, ValueError) as error:
        raise ConfigurationError(
            f"{named_by}: {url} cannot be opened: {error}. It must be file:///path, s3://bucket/prefix, "
            "az://… or gs://…, "
            "with the credentials in the environment (AWS_*, AZURE_*, GOOGLE_*)."
        ) from error


@contextmanager
def mapped_errors(store: str = STORE) -> Generator[None]:
    """Raise errors of the store that messages call `store` as `ServiceUnavailableError`; a missing object stays a `FileNotFoundError`."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        reason = str(error).splitlines()[0]
        raise ServiceUnavailableError(f"{store} is not responding as expected: {reason}") from error
