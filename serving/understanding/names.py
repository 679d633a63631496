"""The names that a question may mean: authors and Slack channels of documents that the caller may read.

Nothing else is known here, so a name of a person or channel that the caller may not know is never understood. Names are kept in this
process for some seconds, by the caller's principals and the version of the index; they serve to read the question, never to decide who
may read what.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from cachetools import TTLCache

from resources.core.domain import Access
from resources.logging import logger
from serving.database import Database, RegistryDownError
from serving.directory import Directory
from serving.understanding.people import words_of
from serving.understanding.phrases import Names
from sql.web import WebReads

KEPT_SECONDS = 60.0
MOST_KEPT = 200_000
"""Names that are kept altogether, some 40 MB."""

log = logger("serving")


def _size(names: Names) -> int:
    return 1 + len(names.authors) + len(names.channels)


class ReadableNames:
    """Reads the names that a caller may know."""

    def __init__(self, database: Database, directory: Directory, clock: Callable[[], float] = time.monotonic) -> None:
        self._reads = WebReads(database)
        self._directory = directory
        self._kept: TTLCache[tuple[frozenset[str], int | None], Names, float] = TTLCache(
            MOST_KEPT, KEPT_SECONDS, clock, _size
        )

    async def of(self, access: Access, fresh_since: datetime) -> Names:
        """Return the names of authors and channels of the documents that the caller may read; none while Postgres is down."""
        key = (access.principals, self._directory.index_version)
        if (kept := self._kept.get(key)) is not None:
            return kept
        try:
            rows = await self._reads.readable_names(principals=sorted(access.principals), fresh_since=fresh_since)
        except RegistryDownError as error:
            log.warning("names_not_read", error=str(error))
            return Names()
        authors = {row.name: words_of(row.name) for row in rows if not row.channel}
        found = Names(authors, frozenset(row.name.lower() for row in rows if row.channel))
        if _size(found) <= MOST_KEPT:
            self._kept[key] = found
        return found
