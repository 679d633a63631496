"""What a folder and a bucket have in common for the source `files`: entries, problems, and which names are left out.

A `Tree` lists one root and reads one of its files. It knows paths and bytes; who may read them is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from resources.errors import SkipDocumentError
from resources.sources.sidecars import SUFFIX

PIECE = 1024 * 1024
"""Bytes handed over at a time."""


class Entry(NamedTuple):
    """A file that may be indexed. `path` is relative to the root, with `/`; `sidecar` holds the sidecar's bytes."""

    path: str
    size: int
    version: str
    created_at: datetime | None
    modified_at: datetime | None
    sidecar: bytes | None = None


class Problem(NamedTuple):
    """A file or folder that is not handed over. `hides`: more may lie behind it, so the listing is not complete."""

    path: str
    reason: str
    version: str = ""
    hides: bool = False


class Tree(Protocol):
    """One root that can be listed and read."""

    def walk(self) -> Iterator[Entry | Problem]:
        """Yield what the root holds now. Raises `AbortSyncError` when it can't be listed at all."""
        ...

    def look(self, path: str) -> Entry | Problem | None:
        """Return what is at one path, None when there is nothing that `walk` would show. Raises `RetryLaterError`."""
        ...

    def read(self, path: str) -> Iterator[bytes]:
        """Yield one file's bytes in pieces; raises as `Source.fetch` does. Never reads outside the root."""
        ...


def left_out(name: str) -> bool:
    """Tell whether a name is never a document: hidden, a lock file of an Office program, or a sidecar."""
    return name.startswith((".", "~$")) or name.endswith(SUFFIX)


def parts_of(path: str) -> list[str]:
    """Split a relative path; raises `SkipDocumentError` for one that could lead out of the root."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise SkipDocumentError("Its path leads out of the root, so it is not read.")
    return parts


def too_large(size: int, limit: int) -> str:
    """Return the reason for a file over the limit."""
    return (
        f"It is too large: {size:,} bytes, and CONCORDANCE_MAX_FILE_BYTES allows {limit:,}. "
        "Split it, or raise the limit and sync again."
    )


EMPTY = "It is empty."
