"""The check while an answer is written: its caller is still signed in, and may still read every source.

A model may write for a minute. Meanwhile the person may sign out, be deactivated, or lose access to a document that is being answered from.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from resources.core.domain import Access
from resources.core.errors import ServiceUnavailableError
from serving.http.database import Database, RegistryDownError
from serving.identity.withheld import WithheldReads, partition_of
from serving.search.retrieval.passage import Passage
from sql.serving import WebReads

EVERY_SECONDS = 3.0
"""Longest time for which a stream goes on without a check."""

CurrentAccess = Callable[[], Awaitable[Access]]
"""Returns the caller's access as it is now. Raises `UnauthorizedError` for one who is signed out or deactivated."""


class AccessCheck:
    """Checks one answer. Once a check has failed, nothing more of the answer may be shown or stored."""

    def __init__(
        self,
        database: Database,
        withheld: WithheldReads,
        sources: Sequence[Passage],
        current: CurrentAccess,
        fresh_since: Callable[[], datetime],
        *,
        registry: bool,
    ) -> None:
        """`registry`: the sources were read from Postgres."""
        self._reads = WebReads(database)
        self._current = current
        self._fresh_since = fresh_since
        self._withheld = withheld
        self._sources = {one.doc_id: one for one in sources}
        self._registry = registry
        self._checked = time.monotonic()
        self.failed = False

    async def if_due(self) -> None:
        """Check unless that was done a moment ago. Raises as `now` does."""
        if time.monotonic() - self._checked >= EVERY_SECONDS:
            await self.now()

    async def now(self) -> Access:
        """Check, and return the caller's access as it is now.

        Raises `UnauthorizedError`, or `ServiceUnavailableError` if a source is no longer readable or Postgres is down.
        """
        self.failed = True
        access = await self._current()
        if self._sources and self._sources.keys() - await self._readable(access):
            raise ServiceUnavailableError("A source of this answer can no longer be read. Ask again.")
        self._checked, self.failed = time.monotonic(), False
        return access

    async def _readable(self, access: Access) -> set[str]:
        """Return the sources that the caller may read, as Postgres says, or the index for an answer that was begun without Postgres."""
        try:
            found = await self._reads.document(
                doc_ids=sorted(self._sources), principals=sorted(access.principals), fresh_since=self._fresh_since()
            )
        except RegistryDownError:
            if self._registry:
                raise
            points = {
                one.doc_id: {"doc_id": one.doc_id, "source_type": one.source_type, "partition": one.partition}
                for one in self._sources.values()
            }
            withheld = await self._withheld.of(points.values())
            return {
                doc_id
                for doc_id, point in points.items()
                if withheld.permits(doc_id, partition_of(point), access.principals)
            }
        return {one.doc_id for one in found}
