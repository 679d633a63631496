"""A bucket prefix (S3, Azure, Google Cloud Storage) as a root of the source `files`.

The prefix of the obstore store is the root; an entry's version is the object's ETag. Stores list in different orders, so the
listing is collected before the first entry is yielded: only then is it known which files have a sidecar. It is collected on disk
(`resources.sources.bucket_listing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from resources.core.errors import (
    AbortSyncError,
    ChangedDocumentError,
    FailedDocumentError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.filetypes import declared
from resources.sources.bucket_listing import PAGE, BucketListing, BucketObject, open_listing
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

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_SIDECARS_AT_ONCE = 16
_REJECTED = (
    "ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "AuthenticationFailed"
)  # fmt: skip
"""Codes with which stores reject credentials by 403, as they refuse single objects.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
https://learn.microsoft.com/en-us/rest/api/storageservices/common-rest-api-error-codes
"""
_SENT = re.compile(r"Error performing [A-Z]+ \w+://([^/?\s]+)\S* in .*? - (.+)", re.DOTALL)
_REFUSED = re.compile(r"Server returned non-2xx status code: (\d+[\w ]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_ODD_KEY = (
    "the key of an object in it has an empty part (//), a part . or .., or a control character. Rename or remove that object; "
    "until then nothing of this root is read."
)
_BROKEN = f"Its sidecar ({SUFFIX}) cannot be read, so no one may see it"


class _Sidecar(NamedTuple):
    """The content of a sidecar, or why there is none. `version` is empty if the store gave no answer to the question."""

    content: bytes = b""
    fault: str = ""
    version: str = ""


class Bucket:
    """Objects below the store's own prefix. `name` is the root's name in messages."""

    def __init__(self, store: ObjectStore, *, name: str, max_bytes: int) -> None:
        self._store = store
        self._name = name
        self._max_bytes = max_bytes

    def walk(self) -> Iterator[FilePage]:
        """Yield objects ordered by key; an empty listing counts as a failed one."""
        with open_listing() as listing:
            self._list(listing)
            if listing.empty:
                empty = "The bucket is empty at this prefix, which may be mistyped: check the url."
                yield page_of(UnreadablePath("", empty, hides=True))
                return
            objects = (one for page in listing.pages() for one in page)
            shown = (
                one for one in objects if not _is_folder_marker(one) and not any(map(left_out, one.path.split("/")))
            )
            with ThreadPoolExecutor(_SIDECARS_AT_ONCE) as pool:
                for page in cut(shown, attrgetter("path")):
                    names = [sidecar_names(found.path) for found in page]
                    there = listing.versions([one for forms in names for one in forms])
                    sidecars = [next((one for one in forms if one in there), "") for forms in names]
                    facts = [(found, there.get(sidecar)) for found, sidecar in zip(page, sidecars, strict=True)]
                    loose = listing.miscased([one for (one, *_), key in zip(names, sidecars, strict=True) if not key])
                    yield FilePage(
                        "",
                        [found.path for found in page],
                        msgspec.msgpack.encode((self._max_bytes, facts, *sorted(loose))),
                        partial(self._entries, page, sidecars, there, loose, pool),
                    )

    def _entries(
        self,
        page: Sequence[BucketObject],
        sidecars: Sequence[str],
        versions: Mapping[str, str],
        loose: Set[str],
        pool: ThreadPoolExecutor,
    ) -> Iterator[FileEntry | UnreadablePath]:
        faults = [_fault(found, self._max_bytes, loose) for found in page]
        wanted = [key for key, fault in zip(sidecars, faults, strict=True) if key and fault is None]
        read = dict(zip(wanted, pool.map(self._sidecar, wanted), strict=True))
        for found, key, fault in zip(page, sidecars, faults, strict=True):
            yield _entry(found, fault, read.get(key), versions.get(key, ""))

    def _list(self, listing: BucketListing) -> None:
        try:
            for page in self._store.list(chunk_size=PAGE):
                listing.add(map(_object, page))
        except _store_errors() as error:
            advice = _ODD_KEY if _is_odd_key(error) else f"{_brief(error)} Check its url and its credentials."
            raise AbortSyncError(f"The root {self._name} cannot be listed: {advice}") from error

    def _sidecar(self, key: str) -> _Sidecar:
        try:
            result = self._store.get(key)
            version = _object(result.meta).version
            if result.meta["size"] > MAX_BYTES:
                return _Sidecar(fault=f"{_BROKEN}: it has more than {MAX_BYTES:,} bytes.", version=version)
            return _Sidecar(bytes(result.bytes()), version=version)
        except FileNotFoundError:
            return _Sidecar(fault=f"{_BROKEN}: it was removed during the listing; the next sync looks again.")
        except _store_errors() as error:
            if _denied(error):
                return _Sidecar(fault=f"{_BROKEN}: permission denied.")
            raise self._unread(error) from error

    def _unread(self, error: Exception) -> AbortSyncError:
        advice = "Check its credentials." if _rejected(error) else "Sync again later."
        return AbortSyncError(f"The root {self._name} cannot be read: {_brief(error)} {advice}")

    def look(self, path: str) -> FileEntry | UnreadablePath | None:
        if any(map(left_out, parts_of(path))):
            return None
        found = self._head(path)
        if found is None or _is_folder_marker(found):
            return None
        key = next((one for one in sidecar_names(path) if self._head(one) is not None), None)
        if key is not None:
            return _entry(found, _fault(found, self._max_bytes), self._sidecar(key))
        wanted = found.path + SUFFIX
        loose = {wanted} if folded(wanted) in miscased(self._names_beside(path)) else frozenset[str]()
        return _entry(found, _fault(found, self._max_bytes, loose), None)

    def _names_beside(self, path: str) -> list[str]:
        """Return the paths of the objects in the folder of one."""
        try:
            found = self._store.list_with_delimiter(path.rpartition("/")[0] or None)
        except _store_errors() as error:
            raise self._passing(error) from error
        return [one["path"] for one in found["objects"]]

    def _head(self, path: str) -> BucketObject | None:
        try:
            found = self._store.head(path)
        except FileNotFoundError:
            return None
        except _store_errors() as error:
            raise self._passing(error) from error
        return _object(found)._replace(path=path)

    def _passing(self, error: Exception) -> RetryLaterError:
        """Also for a refusal: without its sidecar, a document would have the readers of its root."""
        return RetryLaterError(f"The root {self._name} cannot be read just now: {_brief(error)}")

    def read(self, path: str, version: str) -> Iterator[bytes]:
        """Yield an object's bytes; refuses one that is larger than allowed or has another version."""
        parts_of(path)
        done = 0
        try:
            result = self._store.get(path)
            if result.meta["size"] > self._max_bytes:
                raise SkipDocumentError(too_large(result.meta["size"], self._max_bytes))
            tag = result.meta["e_tag"]
            if tag is not None and _bare(tag) != _bare(version):
                raise ChangedDocumentError
            for piece in result.stream(min_chunk_size=PIECE):
                done += len(piece)
                if done > self._max_bytes:
                    raise SkipDocumentError(too_large(done, self._max_bytes))
                yield bytes(piece)
        except FileNotFoundError as error:
            raise FailedDocumentError("It is no longer there; the next sync looks again.") from error
        except _store_errors() as error:
            if _denied(error):  # the listing showed it, so this may pass
                raise FailedDocumentError(
                    "Permission denied: let the account that runs Concordance read it."
                ) from error
            if _rejected(error):
                raise self._unread(error) from error
            raise RetryLaterError(f"It cannot be read just now: {_brief(error)}") from error


def _entry(
    found: BucketObject, fault: str | None, sidecar: _Sidecar | None, listed: str = ""
) -> FileEntry | UnreadablePath:
    """`listed`: the version with which the sidecar was listed."""
    passing = sidecar is not None and _bare(sidecar.version) != _bare(listed)
    fault = fault or (sidecar and sidecar.fault)
    if fault:
        return UnreadablePath(found.path, fault, found.version, passing=passing)
    at = found.modified_at
    return FileEntry(found.path, found.size, found.version, at, at, sidecar and sidecar.content, passing)


def _object(found: ObjectMeta) -> BucketObject:
    version = found["e_tag"] or f"{found['last_modified'].isoformat()}-{found['size']}"
    return BucketObject(found["path"], found["size"], version, found["last_modified"])


def _bare(tag: str) -> str:
    """Return an ETag without quotes, which Azure's listing leaves out."""
    return tag.removeprefix("W/").strip('"')


def _fault(found: BucketObject, limit: int, loose: Set[str] = frozenset()) -> str | None:
    """`loose`: names of sidecars that are there in another case."""
    try:
        declared(found.path)
    except SkipDocumentError as error:
        return str(error)
    if (sidecar := found.path + SUFFIX) in loose:
        return miscased_reason(sidecar)
    if found.size > limit:
        return too_large(found.size, limit)
    return EMPTY if found.size == 0 else None


def _is_folder_marker(found: BucketObject) -> bool:
    """Return True for an object that represents a folder, as consoles and hierarchical stores create: empty, no extension."""
    return found.size == 0 and "." not in found.path.rpartition("/")[2]


def _store_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a store and of what it reads. A missing object is a `FileNotFoundError`."""
    from obstore.exceptions import BaseError

    return BaseError, OSError, ValueError


def _denied(error: Exception) -> bool:
    """Return True if the store refuses this object to us; others may be readable."""
    from obstore.exceptions import PermissionDeniedError

    return isinstance(error, PermissionDeniedError | PermissionError) and not _rejected(error)


def _rejected(error: Exception) -> bool:
    """Return True if the store rejects our credentials, and with them every request."""
    from obstore.exceptions import UnauthenticatedError

    return isinstance(error, UnauthenticatedError) or any(f"<Code>{code}</Code>" in str(error) for code in _REJECTED)


def _is_odd_key(error: Exception) -> bool:
    """Return True if a listing ended at a key that obstore does not accept. Its message has the key."""
    from obstore.exceptions import InvalidPathError

    return isinstance(error, InvalidPathError)


def _brief(error: Exception) -> str:
    """Return what a store answered, or the kind of another error; never keys, which name documents, or signatures.

    An address, the sentence before it and the body after it can have the key.
    """
    sent = _SENT.search(str(error))
    if sent is None:
        return f"the store's answer makes no sense ({type(error).__name__})."
    host, answer = sent.groups()
    refused, code = _REFUSED.match(answer), _CODE.search(answer)
    if refused is None:
        return f"{host}: {answer.splitlines()[0].rstrip('.')}."
    return f"{host}: HTTP {refused[1]}{f' ({code[1]})' if code else ''}."
