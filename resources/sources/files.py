"""The source `files`: the folders and bucket prefixes of `CONCORDANCE_FILE_ROOTS`, and nothing outside them.

A partition is a root; each sync lists it in full, without reading the files. A file's readers come from its sidecar, otherwise
from its root, otherwise it has none. Files that cannot be indexed are reported with a reason; hidden files and sidecars are
not reported.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from resources.core import domain, permissions
from resources.core.domain import Batch, Item, Refusal, SourceName
from resources.core.errors import AbortSyncError, ConfigurationError, SkipDocumentError
from resources.core.filetypes import MIME_TYPES, declared, mime_type
from resources.core.moments import of_seconds
from resources.core.ports import Source
from resources.settings import FileRoot, Settings
from resources.settings.urls import local_folder
from resources.sources import books, sidecars
from resources.sources.buckets import Bucket
from resources.sources.folders import LocalFolder
from resources.sources.spec import Capabilities, SourceSpec
from resources.sources.tree import FileEntry, FilePage, Tree, UnreadablePath

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BATCH = 1000
"""Documents with which a batch ends: it has up to a page more."""
UNCHANGED = 10_000
"""Documents by which a batch without any ends, so that progress shows."""
LISTING_VERSION = 1
"""Part of each key (`Source.known_keys`). Raise it if the same files are to give other items: the next sync then compares all of them."""
NO_KEY = 0
MAX_ID_BYTES = 2000
"""Longest path: Postgres indexes at most 2,704 bytes. Source: PostgreSQL, nbtree.h, BTMaxItemSize."""
_SHOWN = 200


class Files(Source):
    """`resources.core.ports.Source` over the configured roots. Thread-safe.

    `stores` provides the object store of a root by its name, instead of opening the root's url (other credentials, a test).
    """

    def __init__(self, settings: Settings, stores: Mapping[str, ObjectStore] | None = None) -> None:
        self._settings = settings
        self._stores = stores or {}
        self._roots = {root.name: root for root in settings.file_roots}
        self._describers = {name: _Describer(root) for name, root in self._roots.items()}

    @property
    def name(self) -> SourceName:
        return SourceName.FILES

    def partitions(self) -> list[str]:
        return sorted(self._roots)

    def retired(self, known: list[str]) -> list[str]:
        """Return the known partitions whose root is no longer configured."""
        return sorted(set(known) - set(self._roots))

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:  # noqa: ARG002 - a full listing needs no cursor
        """Yield the whole root; the last batch says `complete` unless a part of it could not be listed, and which folders are closed to us.

        Raises `AbortSyncError` if the root is unknown or cannot be listed.
        """
        describer = self._describers.get(partition)
        if describer is None:
            raise AbortSyncError(
                f"There is no root called {partition!r}; CONCORDANCE_FILE_ROOTS names: "
                f"{', '.join(self.partitions()) or 'none'}."
            )
        taken: set[str] = set()
        closed: list[str] = []
        hidden, unchanged, batch = False, 0, _batch(partition)
        for page in self._tree(partition).walk():
            key = describer.key(page.facts) if page.facts and self.known_keys is not None else NO_KEY
            if key != NO_KEY and self._is_known(describer, page, key, taken):
                unchanged += len(page.names)
            else:
                for entry in page.entries():
                    if isinstance(entry, UnreadablePath) and entry.closed:
                        closed.append(describer.source_id(entry.path))
                    else:
                        hidden |= isinstance(entry, UnreadablePath) and entry.hides
                    _add(batch, describer, entry, key, taken)
            if len(batch.seen) + len(batch.refused) >= BATCH or unchanged >= UNCHANGED:
                yield msgspec.structs.replace(batch, unchanged=unchanged)
                unchanged, batch = 0, _batch(partition)
        if batch.seen or batch.refused or unchanged:
            yield msgspec.structs.replace(batch, unchanged=unchanged)
        yield Batch(partition=partition, listing="page" if hidden else "complete", closed=[] if hidden else closed)

    def _is_known(self, describer: _Describer, page: FilePage, key: int, taken: set[str]) -> bool:
        """Return True if the page is as it was listed last. `taken` has the ids before it that could be those of two files.

        Two names on disk can become equal once composed (NFC) or made printable.
        """
        ids: list[str] = []
        if _is_ambiguous(page.prefix + "".join(page.names)):
            paths = (page.prefix + name for name in page.names)
            ids = [describer.source_id(path) for path in paths if _is_ambiguous(path)]
        if self.known_keys is None or not taken.isdisjoint(ids) or not self.known_keys.listed(key, len(page.names)):
            return False
        taken.update(ids)
        return True

    def look(self, partition: str, path: str) -> Item | Refusal | None:
        """Return one file as a listing would show it, or None.

        Raises `SkipDocumentError` for a path that leads outside the root, or `RetryLaterError`.
        """
        found = self._tree(partition).look(path) if partition in self._roots else None
        return None if found is None else self._describers[partition].describe(found)

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield a file's bytes in pieces of about 1 MB after checking that the first ones match its name.

        Raises `SkipDocumentError`, `FailedDocumentError`, also if the file is not the one listed, or `RetryLaterError`.
        """
        if item.partition not in self._roots:
            raise SkipDocumentError(f"Its root {item.partition!r} is no longer in CONCORDANCE_FILE_ROOTS.")
        first = True
        for piece in self._tree(item.partition).read(item.locator, item.version):
            if first:
                mime_type(item.locator.rpartition("/")[2], piece)
                first = False
            yield piece
        if first:
            raise SkipDocumentError("The file is empty.")

    def look_again(self, item: Item) -> Item | None:
        found = self.look(item.partition, item.locator)
        return found if isinstance(found, Item) and found.locator == item.locator else None

    def _tree(self, partition: str) -> Tree:
        root = self._roots[partition]
        limit = self._settings.max_file_bytes
        store = self._stores.get(partition)
        if store is None and root.url.startswith("file://"):
            return LocalFolder(local_folder(root.url), max_bytes=limit, avoid=self._settings.home)
        return Bucket(store or _open(root), name=root.name, max_bytes=limit)


class _Describer:
    """Turns the entries of one root's tree into items and refusals."""

    def __init__(self, root: FileRoot) -> None:
        self._permissions, self._owner = root.permissions, root.owner
        self._root = root
        self._book = root.kind == "book"
        self._profile = root.profile or domain.DEFAULT_PROFILE
        self._defaults = sidecars.root_tags(root)
        # those who may know the names of folders: sidecars only apply to files
        self._known_to = (*self._permissions, *([self._owner] if self._owner else ()))
        self._context = hashlib.sha256(f"{LISTING_VERSION}\0{MIME_TYPES}\0{root.model_dump_json()}".encode()).digest()
        self._folder: tuple[str, tuple[str, ...], tuple[domain.Folder, ...], dict[str, Any]] | None = None

    @property
    def partition(self) -> str:
        return self._root.name

    def source_id(self, path: str) -> str:
        return f"{self._root.name}/{_composed(path)}"

    def key(self, facts: bytes) -> int:
        """Return a hash of all that decides what `describe` returns for a page."""
        return int.from_bytes(hashlib.blake2b(facts, digest_size=8, key=self._context).digest(), "big", signed=True)

    def describe(self, found: FileEntry | UnreadablePath) -> Item | Refusal:
        """Return the item, or a refusal if there is a reason for one."""
        if isinstance(found, UnreadablePath):
            return self.refuse(found.path, found.reason, version=found.version)
        try:
            sidecar = sidecars.SILENT if found.sidecar is None else sidecars.parse(found.sidecar)
            return self._item(found, sidecar)
        except SkipDocumentError as error:
            return self.refuse(found.path, str(error), version=found.version)

    def refuse(self, path: str, reason: str, *, version: str = "", suffix: str = "") -> Refusal:
        """Return a refusal; `suffix` distinguishes documents whose names look alike. A name that is too long is truncated."""
        path = _composed(path).replace("\0", "\\0")
        if len(path) > _SHOWN and len(path.encode()) > MAX_ID_BYTES:
            path = f"{path[:_SHOWN]}… ({hashlib.sha256(path.encode()).hexdigest()[:16]})"
        return Refusal(
            source_id=f"{self._root.name}/{path}{suffix}" if path else self._root.name,
            partition=self._root.name,
            title=path.rpartition("/")[2] or self._root.name,
            path=path,
            reason=reason,
            version=version,
            owner=self._owner,
        )

    def _item(self, found: FileEntry, sidecar: sidecars.Sidecar) -> Item:
        path = _composed(found.path)
        if self._book and books.is_partial(path):
            raise SkipDocumentError("It is a part of other pages (its path has a name beginning with _), not a page.")
        if "\0" in path or (len(path) > _SHOWN and len(path.encode()) > MAX_ID_BYTES):
            raise SkipDocumentError(
                f"Its path is longer than {MAX_ID_BYTES} bytes or contains a NUL: rename it or move it."
            )
        folder, _, name = path.rpartition("/")
        collections, folders, from_path = self._place(folder)
        tags = sidecars.merge({"kind": "book"} if self._book else {}, sidecar.tags, from_path, self._defaults)
        sidecars.check_required(tags)
        owner = sidecar.owner or self._owner
        readers = self._permissions if sidecar.permissions is None else sidecar.permissions
        return Item(
            source_id=self.source_id(found.path),
            partition=self._root.name,
            title=sidecar.title or name,
            path=path,
            mime_type=declared(name),
            version=found.version,
            permissions=permissions.granted(readers, owner, tags),
            owner=owner,
            author=sidecar.author,
            url=self._url(path),
            size=found.size,
            created_at=sidecar.created_at or _moment(found.created),
            modified_at=sidecar.modified_at or _moment(found.modified),
            collection_ids=collections,
            folders=folders,
            tags=tags,
            description=sidecar.description,
            profile=self._profile,
            locator=found.path,
        )

    def _place(self, folder: str) -> tuple[tuple[str, ...], tuple[domain.Folder, ...], dict[str, Any]]:
        """Return the collections and folders, the root first, and the tags that every file in a folder has.

        The result for the last folder is cached.
        """
        kept = self._folder
        if kept is None or kept[0] != folder:
            above = tuple(folder.split("/")) if folder else ()
            ids = tuple("/".join((self._root.name, *above[:depth])) for depth in range(len(above) + 1))
            folders = tuple(
                # the operator names roots, and anyone who may read a document in one may know its name
                domain.Folder(id=id_, name=name, readers=self._known_to if name else (permissions.PUBLIC,))
                for id_, name in zip(ids, ("", *above), strict=True)
            )
            kept = self._folder = (folder, ids, folders, dict(sidecars.path_tags(self._root, above)))
        return kept[1:]

    def _url(self, path: str) -> str | None:
        if self._root.base_url is None:
            return None
        return books.page_url(self._root.base_url, path) if self._book else books.file_url(self._root.base_url, path)


def _batch(partition: str) -> Batch:
    return Batch(partition=partition, seen=[], refused=[], keys={}, listing="page")


def _add(batch: Batch, describer: _Describer, found: FileEntry | UnreadablePath, key: int, taken: set[str]) -> None:
    """Add what the source says of a file, and the key of its page unless it is to be described each time."""
    outcome = describer.describe(found)
    if _is_ambiguous(outcome.source_id):
        if outcome.source_id in taken:
            outcome = describer.refuse(found.path, _twin(found.path), suffix=f" ({found.path.encode().hex()})")
        taken.add(outcome.source_id)
    if key != NO_KEY and not found.passing and outcome.source_id == describer.source_id(found.path):
        batch.keys[outcome.source_id] = key
    if isinstance(outcome, Item):
        batch.seen.append(outcome)
    else:
        batch.refused.append(outcome)


def _is_ambiguous(name: str) -> bool:
    return not name.isascii() or "\\" in name


def _open(root: FileRoot) -> ObjectStore:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    try:
        return from_url(root.url)
    except (BaseError, ValueError) as error:
        reason = (str(error).strip().splitlines() or ["unknown"])[0]
        raise ConfigurationError(
            f"CONCORDANCE_FILE_ROOTS ({root.name}): the bucket cannot be opened: {reason}. Its credentials come "
            "from the environment (AWS_…, AZURE_STORAGE_…, GOOGLE_…)."
        ) from error


def _moment(time: datetime | float) -> datetime | None:
    return time if isinstance(time, datetime) else of_seconds(time)


def _composed(path: str) -> str:
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def _twin(path: str) -> str:
    return f"Another file's name is the same once composed (Unicode NFC): rename one of the two ({path!r})."


SPEC = SourceSpec(
    name=SourceName.FILES,
    label="Files",
    open=lambda settings, _: Files(settings),
    help="Set CONCORDANCE_FILE_ROOTS (docs/configuration.md).",
    capabilities=Capabilities(keyed_listing=True, named_by_path=True, stored_size=True),
    place=lambda url, anchor: f"{url.partition('#')[0]}#{quote(anchor)}",
)
