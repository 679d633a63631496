"""A local folder as a root of the source `files`: read through directory handles, so that no path leads outside.

Every step down is an `openat` that rejects links, both when listing and again when reading, so a link created in between
is rejected as well.
"""

import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from operator import attrgetter, itemgetter
from pathlib import Path

import msgspec

from resources.core.errors import (
    AbortSyncError,
    ChangedDocumentError,
    FailedDocumentError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.filetypes import declared
from resources.sources.sidecars import MAX_BYTES, SUFFIX
from resources.sources.tree import (
    EMPTY,
    PIECE,
    FileEntry,
    FilePage,
    UnreadablePath,
    cut,
    folded,
    left_out,
    miscased,
    miscased_reason,
    page_of,
    parts_of,
    sidecar_names,
    too_large,
)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_INNER = _FOLDER | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking, since opening a FIFO for reading would wait for a writer for ever."""
_READABLE_BY_ALL = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
LOOKED_AT = 1000
"""A folder with up to this number of files is listed again for their sidecars; in a larger one, each is looked for."""
_UNREADABLE = "Permission denied: let the account that runs Concordance read it."
_KEPT = "Documents in it that are indexed are kept, but held back after CONCORDANCE_ACL_MAX_AGE: see concordance prune list."
_AGES = (
    "nothing in this root is treated as deleted and no permissions in it count as checked: all of it is held back after "
    "CONCORDANCE_ACL_MAX_AGE."
)


class LocalFolder:
    """A folder on this machine. `avoid` is a folder whose content is never listed (our own state)."""

    def __init__(self, root: Path, *, max_bytes: int, avoid: Path | None = None) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._avoid = avoid
        self._root_user = os.geteuid() == 0

    def walk(self) -> Iterator[FilePage]:
        """Yield the files of each folder, ordered by name. A file's version depends on its times and size, not on its sidecar."""
        try:
            top = os.open(self._root, _FOLDER)
        except OSError as error:
            raise AbortSyncError(
                f"The folder {self._root} cannot be listed ({error.strerror}). Mount it or fix its permissions, "
                "or remove it from CONCORDANCE_FILE_ROOTS."
            ) from error
        try:
            avoid = self._identity(self._avoid)
            pending = [""]
            while pending:
                folder = pending.pop()
                inner: list[str] = []
                yield from self._list(top, folder, avoid, inner)
                pending.extend(reversed(inner))
        finally:
            os.close(top)

    def _list(self, top: int, folder: str, avoid: tuple[int, int] | None, inner: list[str]) -> Iterator[FilePage]:
        prefix = f"{folder}/" if folder else ""
        try:
            with _opened(top, folder.split("/") if folder else [], _INNER) as handle:
                if avoid is not None and _identity_of(os.fstat(handle)) == avoid:
                    return
                files: list[os.DirEntry[str]] = []
                with os.scandir(handle) as listing:
                    for entry in sorted(listing, key=attrgetter("name")):
                        if left_out(entry.name):
                            continue
                        if entry.is_dir(follow_symlinks=False) and _is_utf8(entry.name):
                            inner.append(prefix + entry.name)
                        else:
                            files.append(entry)
                for page, exists in _with_status(handle, files):
                    yield self._page(handle, prefix, page, exists)
        except FileNotFoundError:
            # moved or removed during the listing: its files may be elsewhere now, so their absence means nothing
            moved = "It was moved or removed during the listing; the next sync looks again."
            yield page_of(UnreadablePath(folder, moved, hides=True))
        except OSError as error:
            if not folder:
                raise AbortSyncError(f"The folder {self._root} cannot be listed: {error.strerror}.") from error
            closed = error.errno in {errno.EACCES, errno.EPERM}
            reason = (
                f"{_UNREADABLE} {_KEPT}" if closed else f"It cannot be listed: {error.strerror}. Until then, {_AGES}"
            )
            yield page_of(UnreadablePath(folder, reason, hides=True, closed=closed))

    def _page(
        self,
        handle: int,
        prefix: str,
        page: Sequence[tuple[str, os.stat_result | OSError]],
        exists: Callable[[str], bool],
    ) -> FilePage:
        """Return files whose status has been read. Those that are more than a readable file without a sidecar are facts in full."""
        special: dict[str, FileEntry | UnreadablePath] = {}
        facts: list[object] = [prefix, self._max_bytes]
        hides = False
        for name, info in page:
            if isinstance(info, OSError) or self._is_special(handle, name, info, exists):
                found = special[name] = self._look(handle, prefix, name, info, exists)
                hides = hides or (isinstance(found, UnreadablePath) and found.hides)
                facts.append((name, found))
            else:
                facts.append((name, info.st_mtime_ns, info.st_ctime_ns, info.st_size))

        def entries() -> Iterator[FileEntry | UnreadablePath]:
            for name, info in page:
                yield special.get(name) or self._look(handle, prefix, name, info, None)

        return FilePage(prefix, [name for name, _ in page], b"" if hides else _encoded(facts), entries)

    def _is_special(self, handle: int, name: str, info: os.stat_result, exists: Callable[[str], bool]) -> bool:
        try:
            return (
                not stat.S_ISREG(info.st_mode)
                or not self._is_readable(handle, name, info)
                or (exists(name + SUFFIX) if name.isascii() else any(map(exists, sidecar_names(name))))
            )
        except (OSError, SkipDocumentError):
            return True  # its sidecar cannot be looked for, or has another case

    def look(self, path: str) -> FileEntry | UnreadablePath | None:
        """Return the file at one path; None if it is missing, excluded, or behind a link or a closed folder."""
        *above, name = parts_of(path)
        if any(map(left_out, (*above, name))):
            return None
        try:
            top = os.open(self._root, _FOLDER)
        except OSError as error:
            raise RetryLaterError(f"The folder {self._root.name} cannot be read now: {error.strerror}.") from error
        try:
            avoid = self._identity(self._avoid)
            for depth in range(len(above) + 1):
                with _opened(top, above[:depth], _INNER) as handle:
                    if avoid is not None and _identity_of(os.fstat(handle)) == avoid:
                        return None
                    if depth == len(above):
                        return self._named(handle, "/".join(above), name)
        except OSError:
            pass  # nothing there, or a link or a closed folder on the way: the caller cannot tell these apart
        finally:
            os.close(top)
        return None

    def _named(self, handle: int, folder: str, name: str) -> FileEntry | UnreadablePath | None:
        with os.scandir(handle) as listing:
            entries = {unicodedata.normalize("NFC", entry.name): entry for entry in listing if _is_utf8(entry.name)}
            wanted = unicodedata.normalize("NFC", name)
            entry = entries.get(wanted)
            if entry is None or entry.is_dir(follow_symlinks=False):
                return None
            prefix = f"{folder}/" if folder else ""
            exists = _sidecar_alone(handle, miscased([one.name for one in entries.values()]))
            return self._look(handle, prefix, entry.name, _status(entry), exists)

    def _look(
        self, handle: int, prefix: str, name: str, info: os.stat_result | OSError, exists: Callable[[str], bool] | None
    ) -> FileEntry | UnreadablePath:
        """Return a file whose status has been read; `exists` then finds its sidecar by its name.

        None: the file is known to be readable and to have no sidecar.
        """
        if not _is_utf8(name):
            shown = os.fsencode(prefix + name).decode("utf-8", "backslashreplace")
            return UnreadablePath(shown, "Its name is not valid UTF-8; rename it.")
        path = prefix + name
        try:
            if isinstance(info, OSError):
                raise info
            if stat.S_ISLNK(info.st_mode):
                return UnreadablePath(path, self._link_reason(path))
            if not stat.S_ISREG(info.st_mode):
                return UnreadablePath(path, "It is a device, pipe or socket, not a file.")
            declared(name)
            fault = self._fault(info)
            if fault is None and exists is not None and not self._is_readable(handle, name, info):
                fault = _UNREADABLE
            if fault:
                return UnreadablePath(path, fault, _version(info))
            sidecar = None if exists is None else self._sidecar(handle, name, exists)
        except SkipDocumentError as error:
            return UnreadablePath(path, str(error))
        except OSError as error:
            return UnreadablePath(
                path, f"It cannot be accessed ({error.strerror}); the next sync tries again.", hides=True
            )
        # Linux does not report when a file was created, but it was not later than either of these times
        created = min(info.st_mtime, info.st_ctime)
        return FileEntry(path, info.st_size, _version(info), created, info.st_mtime, sidecar)

    def _fault(self, info: os.stat_result) -> str | None:
        if info.st_size > self._max_bytes:
            return too_large(info.st_size, self._max_bytes)
        return EMPTY if info.st_size == 0 else None

    def _is_readable(self, handle: int, name: str, info: os.stat_result) -> bool:
        return (
            self._root_user
            or info.st_mode & _READABLE_BY_ALL == _READABLE_BY_ALL
            or os.access(name, os.R_OK, dir_fd=handle)
        )

    @staticmethod
    def _sidecar(handle: int, name: str, exists: Callable[[str], bool]) -> bytes | None:
        """Return the sidecar's bytes, None if there is none."""
        name = next(filter(exists, sidecar_names(name)), "")
        if not name:
            return None
        broken = f"Its sidecar ({SUFFIX}) cannot be read, so no one may see it"
        try:
            with os.fdopen(os.open(name, _FILE, dir_fd=handle), "rb", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise SkipDocumentError(f"{broken}: it is not a file.")
                data = _read_up_to(file.fileno(), MAX_BYTES + 1)
        except OSError as error:
            fault = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise SkipDocumentError(f"{broken}: {fault}.") from error
        if len(data) > MAX_BYTES:
            raise SkipDocumentError(f"{broken}: it has more than {MAX_BYTES:,} bytes.")
        return data

    def _link_reason(self, path: str) -> str:
        target = Path(os.path.realpath(self._root / path))
        if target.is_relative_to(os.path.realpath(self._root)):
            return "It is a link within the root; what it leads to is indexed in its own place."
        return "It is a link that leads out of the root, so it is not read."

    def read(self, path: str, version: str) -> Iterator[bytes]:
        """Yield a file's bytes; refuses one that is too large, was replaced by a link or has another version."""
        parts = parts_of(path)
        with ExitStack() as stack:
            try:
                top = os.open(self._root, _FOLDER)
                stack.callback(os.close, top)
                handle = stack.enter_context(_opened(top, parts, _FILE))
                before = os.fstat(handle)
            except OSError as error:
                raise _read_error(error) from error
            if not stat.S_ISREG(before.st_mode):
                raise SkipDocumentError("It is a folder, device, pipe or socket, not a file.")
            if before.st_size > self._max_bytes:
                raise SkipDocumentError(too_large(before.st_size, self._max_bytes))
            if _version(before) != version:
                raise ChangedDocumentError
            done = 0
            while True:
                try:
                    piece = os.read(handle, PIECE)
                except OSError as error:
                    raise _read_error(error) from error
                if not piece:
                    break
                done += len(piece)
                if done > self._max_bytes:
                    raise SkipDocumentError(too_large(done, self._max_bytes))
                yield piece
            if done != before.st_size or _version(os.fstat(handle)) != version:
                raise ChangedDocumentError

    @staticmethod
    def _identity(path: Path | None) -> tuple[int, int] | None:
        try:
            return None if path is None else _identity_of(path.stat())
        except OSError:
            return None  # our own state does not exist yet, so it is in no root


@contextmanager
def _opened(top: int, parts: list[str], flags: int) -> Generator[int]:
    """Open what `parts` lead to below the handle `top`, step by step, following no link; `top` itself if `parts` is empty."""
    handle = os.open(".", _INNER, dir_fd=top)
    try:
        for number, part in enumerate(parts):
            inner = os.open(part, flags if number == len(parts) - 1 else _INNER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _read_up_to(handle: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(handle, min(PIECE, limit))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _read_error(error: OSError) -> Exception:
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return SkipDocumentError("A part of its path is a link, so it is not read.")
    if error.errno in {errno.EACCES, errno.EPERM}:  # the listing showed it, so this may pass
        return FailedDocumentError(_UNREADABLE)
    if error.errno in {errno.ENOENT, errno.ENAMETOOLONG}:
        return FailedDocumentError("It is no longer there; the next sync looks again.")
    return RetryLaterError(f"It cannot be read just now: {error.strerror}.")


def _with_status(
    handle: int, files: Sequence[os.DirEntry[str]]
) -> Iterator[tuple[list[tuple[str, os.stat_result | OSError]], Callable[[str], bool]]]:
    """Yield pages of a folder's files with their status, and what then finds the sidecars."""
    if len(files) <= LOOKED_AT:
        looked = [(file.name, _status(file)) for file in files]
        exists = _sidecars(handle)
        yield from ((page, exists) for page in cut(looked, itemgetter(0)))
    else:
        exists = _sidecar_alone(handle, miscased(os.listdir(handle)))
        for page in cut(files, attrgetter("name")):
            yield [(file.name, _status(file)) for file in page], exists


def _sidecars(handle: int) -> Callable[[str], bool]:
    """Return what finds sidecars in a folder whose files have been looked at: it has those that came with their content."""
    names = os.listdir(handle)
    found = {name for name in names if name.endswith(SUFFIX)}
    loose = miscased(names)
    return (lambda name: name in found or _refuse_miscased(name, loose)) if loose else found.__contains__


def _sidecar_alone(handle: int, loose: Set[str]) -> Callable[[str], bool]:
    """Return what looks for a sidecar by itself, for a single file, or in a folder with too many to list them again for each page.

    One that cannot be looked for raises `OSError`: without its sidecar, a file would have the readers of its root.
    """

    def exists(name: str) -> bool:
        try:
            os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENAMETOOLONG}:
                return _refuse_miscased(name, loose)
            raise
        return True

    return exists


def _refuse_miscased(name: str, loose: Set[str]) -> bool:
    """Return False, as there is no sidecar. Raises `SkipDocumentError` if there is one whose name differs in case alone."""
    if loose and folded(name) in loose:
        raise SkipDocumentError(miscased_reason(name))
    return False


def _status(entry: os.DirEntry[str]) -> os.stat_result | OSError:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError as error:
        return error


def _encoded(facts: object) -> bytes:
    try:
        return msgspec.msgpack.encode(facts)
    except (UnicodeEncodeError, OverflowError):  # a name that is not valid UTF-8, or a time beyond the year 2554
        return b""


def _version(info: os.stat_result) -> str:
    # ctime too: it detects a file that was overwritten with its old modification time restored
    return f"{info.st_mtime_ns:x}-{info.st_ctime_ns:x}-{info.st_size:x}"


def _identity_of(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _is_utf8(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)
