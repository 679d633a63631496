"""The names that a query may mean: authors, Slack channels and folders of documents that the caller may read.

Nothing else is known here, so a name of a person or channel that the caller may not know is never understood. Names are kept in this
process by the caller's principals. They serve to read the query, never to decide who may read what. One that a query uses is checked in
Postgres, so that a name is gone with the right to its documents.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cachetools import TTLCache

from resources.core.domain import Access
from resources.core.errors import TemporaryError
from resources.logging import logger
from serving.http.database import Database, RegistryDownError
from serving.identity.directory import Directory
from serving.search.understanding.lookup import NameIndex
from serving.search.understanding.people import words_of
from serving.search.understanding.phrases import Names, Phrase
from sql.serving import WebReads
from sql.serving_rows import ReadableName

FRESH_SECONDS = 60.0
"""How long names are used as they are, if the index stays the same."""
KEPT_SECONDS = 600.0
"""How long they are used by those who check them: longer, so that seldom anyone who types waits for all of them."""
FOLDERS_SECONDS = 2.0
"""How long a search with `in:` waits for the names of folders; without them, the value is the ID of a place."""
MOST_KEPT = 200_000
"""Names that are kept altogether, some 100 MB."""

_ROWS = {"author": "author", "channel": "channel", "place": "folder"}
"""Kinds of names by the kind of filter that they are understood as."""

log = logger("serving")


class _Kept(NamedTuple):
    names: Names
    size: int
    versions: tuple[int, ...] | None
    read_at: float


def _size(kept: _Kept) -> int:
    return kept.size


class ReadableNames:
    """Reads the names that a caller may know."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._reads = WebReads(database)
        self._directory = directory
        self._kept: TTLCache[tuple[frozenset[str], bool], _Kept, float] = TTLCache(
            MOST_KEPT, KEPT_SECONDS, getsizeof=_size
        )
        """By principals, and whether folders are among them."""
        self._listings: dict[frozenset[str], asyncio.Task[Names | None]] = {}
        self._turn = asyncio.Semaphore(1)
        """Listing folders takes time that grows with the documents: it never has more than one connection of the searches."""

    async def of(self, access: Access, fresh_since: datetime, *, folders: bool) -> Names:
        """Return the names in the documents that the caller may read; none while Postgres is down.

        `folders`: also the names of folders, unless they cannot be listed in time.
        """
        for with_folders in {True, folders}:
            kept = self._kept.get((access.principals, with_folders))
            if kept is not None and self._fresh(kept) and kept.versions == self._directory.versions.of():
                return kept.names
        if folders and (found := await self._listed(access, fresh_since)) is not None:
            return found
        try:
            return await self._read(access, fresh_since, folders=False)
        except RegistryDownError as error:
            log.warning("names_not_read", error=str(error))
            return Names()

    async def own(self, access: Access) -> Sequence[str]:
        """Return the caller's address, and what a directory calls the caller."""
        try:
            rows = await self._reads.names_of_people(email=access.email, emails=[access.email])
        except RegistryDownError:
            rows = []
        return [access.email, *(row.name for row in rows)]

    async def still_known(self, names: Names, phrases: Sequence[Phrase], access: Access, fresh_since: datetime) -> bool:
        """Return True if the caller may know the names that these phrases stand for at this moment. Otherwise all are read again."""
        rows = [
            row
            for phrase in phrases
            for value in phrase.values
            if (row := names.lookup.of_value(_ROWS.get(phrase.kind, ""), value or "")) is not None
        ]
        if not rows:
            return True
        try:
            known = await self._reads.names_of(
                doc_ids=[row.doc_id for row in rows], principals=sorted(access.principals), fresh_since=fresh_since
            )
        except RegistryDownError:
            known = []
        if all(row in known for row in rows):
            return True
        for with_folders in (True, False):
            self._kept.pop((access.principals, with_folders), None)
        return False

    async def lately(self, access: Access, fresh_since: datetime) -> Names | None:
        """Return all names of the last ten minutes, which are read again after a minute; None if they cannot be listed.

        Reading goes on if the caller gives up waiting. Names may have been withdrawn meanwhile, so check what is shown.
        """
        kept = self._kept.get((access.principals, True))
        if kept is not None and self._fresh(kept):
            return kept.names
        listing = self._listing(access, fresh_since)
        return await asyncio.shield(listing) if kept is None else kept.names

    def _fresh(self, kept: _Kept) -> bool:
        return time.monotonic() - kept.read_at < FRESH_SECONDS

    async def _listed(self, access: Access, fresh_since: datetime) -> Names | None:
        try:
            async with asyncio.timeout(FOLDERS_SECONDS):
                return await asyncio.shield(self._listing(access, fresh_since))
        except TimeoutError:
            log.warning("folders_not_read", error="It took too long.")
            return None

    def _listing(self, access: Access, fresh_since: datetime) -> asyncio.Task[Names | None]:
        """Return what reads all names of a caller: callers with the same principals wait for the same."""
        listing = self._listings.get(access.principals)
        if listing is None:
            listing = self._listings[access.principals] = asyncio.create_task(self._list(access, fresh_since))
        return listing

    async def _list(self, access: Access, fresh_since: datetime) -> Names | None:
        try:
            async with self._turn:
                return await self._read(access, fresh_since, folders=True)
        except TemporaryError as error:
            log.warning("folders_not_read", error=str(error))
            return None
        finally:
            del self._listings[access.principals]

    async def _read(self, access: Access, fresh_since: datetime, *, folders: bool) -> Names:
        versions, principals = self._directory.versions.of(), sorted(access.principals)
        rows = await self._reads.readable_names(principals=principals, fresh_since=fresh_since)
        if folders:
            rows += await self._reads.readable_folders(principals=principals, fresh_since=fresh_since)
        names = await asyncio.to_thread(_names, rows)
        kept = _Kept(names, 1 + len(rows), versions, time.monotonic())
        if kept.size <= MOST_KEPT:
            self._kept[access.principals, folders] = kept
        return names


def _names(rows: Sequence[ReadableName]) -> Names:
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.kind == "folder":
            for name in (row.name, row.name.rpartition("/")[2]):
                folders[name.casefold()].add(row.value)
    return Names(
        {row.name: words_of(row.name) for row in rows if row.kind == "author"},
        frozenset(row.name.lower() for row in rows if row.kind == "channel"),
        {name: frozenset(ids) for name, ids in folders.items()},
        NameIndex(rows),
    )
