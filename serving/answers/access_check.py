"""The check while an answer is written: its caller is still signed in, and may still read every source.

A model may write for a minute. Meanwhile the person may sign out, be deactivated, or lose access to a document that is being answered from.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from resources.core.domain import Access
from resources.core.errors import ServiceUnavailableError
from serving.answers.question import PreparedQuestion
from serving.http.database import Database
from sql.web import WebReads

EVERY_SECONDS = 3.0
"""Longest time for which a stream goes on without a check."""

CurrentAccess = Callable[[], Awaitable[Access]]
"""Returns the caller's access as it is now. Raises `UnauthorizedError` for one who is signed out or deactivated."""


class AccessCheck:
    """Checks one answer. Once a check has failed, nothing more of the answer may be shown or stored."""

    def __init__(
        self,
        database: Database,
        asked: PreparedQuestion,
        current: CurrentAccess,
        fresh_since: Callable[[], datetime],
    ) -> None:
        self._reads = WebReads(database)
        self._current = current
        self._fresh_since = fresh_since
        # without Postgres, the payloads of the index have decided, and a session would not have been accepted
        self._doc_ids = {one.doc_id for one in asked.sources} if asked.outcome.registry else set[str]()
        self._checked = time.monotonic()
        self.failed = False

    async def if_due(self) -> None:
        """Check unless that was done a moment ago. Raises as `now` does."""
        if time.monotonic() - self._checked >= EVERY_SECONDS:
            await self.now()

    async def now(self) -> None:
        """Check. Raises `UnauthorizedError`, or `ServiceUnavailableError` if a source is no longer readable or Postgres is down."""
        self.failed = True
        access = await self._current()
        if self._doc_ids:
            readable = await self._reads.document(
                doc_ids=sorted(self._doc_ids), principals=sorted(access.principals), fresh_since=self._fresh_since()
            )
            if self._doc_ids - {one.doc_id for one in readable}:
                raise ServiceUnavailableError("A source of this answer can no longer be read. Ask again.")
        self._checked, self.failed = time.monotonic(), False
