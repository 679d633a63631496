"""The interface shared by folders and buckets of the source `files`: entries, problems, and excluded names.

A `Tree` lists one root, in pages, and reads its files. It handles paths and bytes; permissions are decided elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar
from unicodedata import normalize
from zlib import crc32

from resources.core.errors import SkipDocumentError
from resources.sources.sidecars import SUFFIX

PIECE = 1024 * 1024
"""Bytes per piece."""
PAGE = 64
"""Files of a page, on average."""
LARGEST = 16 * PAGE
T = TypeVar("T")


class FileEntry(NamedTuple):
    """A file that may be indexed. `path` is relative to the root, with `/`; `sidecar` holds the sidecar's bytes."""

    path: str
    size: int
    version: str
    created: datetime | float
    """A time, or seconds since 1970."""
    modified: datetime | float
    sidecar: bytes | None = None
    passing: bool = False
    """If True, the next listing may show other content of the sidecar, though the facts of its page are the same."""


class UnreadablePath(NamedTuple):
    """A file or folder that cannot be read. `hides`: there may be more below it, so the listing is incomplete. `closed`: the account may
    not list it."""

    path: str
    reason: str
    version: str = ""
    hides: bool = False
    passing: bool = False
    """If True, it may become readable though the facts of its page are the same."""
    closed: bool = False


class FilePage(NamedTuple):
    """Files that are compared as one, which costs less than comparing each."""

    prefix: str
    names: Sequence[str]
    """Their paths without `prefix`."""
    facts: bytes
    """All that decides what the entries are, besides the settings; empty if that is not known."""
    entries: Callable[[], Iterable[FileEntry | UnreadablePath]]
    """Return the files. To be called before the next page is taken."""


class Tree(Protocol):
    """One root that can be listed and read."""

    def walk(self) -> Iterator[FilePage]:
        """Yield the current content of the root. Raises `AbortSyncError` if it can't be listed at all."""
        ...

    def look(self, path: str) -> FileEntry | UnreadablePath | None:
        """Return what is at one path, or None if `walk` would not show it. Raises `RetryLaterError`."""
        ...

    def read(self, path: str, version: str) -> Iterator[bytes]:
        """Yield one file's bytes in pieces; raises like `Source.fetch`. Never reads outside the root."""
        ...


def page_of(entry: FileEntry | UnreadablePath) -> FilePage:
    """Return a page with one entry that is looked at each time."""
    return FilePage("", [entry.path], b"", lambda: [entry])


def cut(files: Iterable[T], name: Callable[[T], str]) -> Iterator[list[T]]:
    """Yield files in pages that end where the checksum of a name says, so that one file more or less changes one page or two."""
    page: list[T] = []
    for file in files:
        page.append(file)
        if crc32(name(file).encode("utf-8", "surrogatepass")) % PAGE == 0 or len(page) == LARGEST:
            yield page
            page = []
    if page:
        yield page


def left_out(name: str) -> bool:
    """Return True if what has this name is never a document: hidden, an Office lock file, a sidecar, or the folder for what a check of the
    file system recovers, which root alone can read.
    """
    return name.startswith((".", "~$")) or is_sidecar(name) or name == "lost+found"


def is_sidecar(name: str) -> bool:
    """Return True for the name of a sidecar, in whatever case."""
    return name[-len(SUFFIX) :].lower() == SUFFIX


def forms(name: str) -> tuple[str, ...]:
    """Return the names that are the same as this one: they differ only in their form of Unicode (NFC, NFD)."""
    return (name,) if name.isascii() else tuple(dict.fromkeys((name, normalize("NFC", name), normalize("NFD", name))))


def sidecar_names(name: str) -> tuple[str, ...]:
    """Return the names of a file's sidecar."""
    return tuple(one + SUFFIX for one in forms(name))


def folded(path: str) -> str:
    """Return a path that is the same for names that differ in case or in their form of Unicode."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + normalize("NFC", name).casefold()


def miscased(names: Sequence[str]) -> Set[str]:
    """Return the folded names of sidecars without a file of exactly their name: on a share that ignores case, they may have one."""
    sidecars = [name for name in names if is_sidecar(name)]
    if not sidecars:
        return frozenset()
    there = {normalize("NFC", name) for name in names}
    exact = {name for name in sidecars if name.endswith(SUFFIX) and normalize("NFC", name[: -len(SUFFIX)]) in there}
    return {folded(name) for name in sidecars if name not in exact}


def miscased_reason(sidecar: str) -> str:
    """Return why a file is refused if the name of its `sidecar` differs in case."""
    name = sidecar.rpartition("/")[2]
    return f"Its sidecar's name differs in case, so no one may see it: rename it to {name}."


def parts_of(path: str) -> list[str]:
    """Split a relative path; raises `SkipDocumentError` if it could lead outside the root."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise SkipDocumentError("Its path leads out of the root, so it is not read.")
    return parts


def too_large(size: int, limit: int) -> str:
    return (
        f"It is too large: {size:,} bytes, and CONCORDANCE_LIMITS__MAX_FILE_BYTES allows {limit:,}. "
        "Split it, or raise the limit and sync again."
    )


EMPTY = "It is empty."
