"""The people, channels and folders that a query names while it is typed.

Names are looked up among those that the caller may know and that this process keeps, and what is found is checked in Postgres by the key
of one document each. So the duration depends on no name that the caller may not know, nor on the number of documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import TemporaryError
from resources.logging import logger
from serving.http.database import Database
from serving.search.understanding.filters import Understood, as_filters
from serving.search.understanding.lookup import WORD
from serving.search.understanding.names import ReadableNames
from serving.search.understanding.operators import Operators
from serving.search.understanding.phrases import KINDS, Kind, Names, Phrase
from sql.serving import WebReads
from sql.serving_rows import ReadableName

WAIT_SECONDS = 0.25
"""How long a search waits for names; it has results without them."""
MOST_WORDS = 3
"""Words of a name that are looked up, from the end of the query."""
MOST_NAMES = 3
"""Names of each kind."""

NameKind = Annotated[
    Literal["person", "channel", "folder"], Meta(title="NameKind", description="What a name is the name of.")
]
_KINDS: dict[str, tuple[NameKind, Kind]] = {
    "author": ("person", "author"),
    "channel": ("channel", "channel"),
    "folder": ("folder", "place"),
}

log = logger("serving")


class Named(msgspec.Struct, frozen=True):
    """A person, Slack channel or folder whose name the query ends with, or with the beginning of it."""

    kind: NameKind
    """`person`, `channel` or `folder`."""
    name: str
    """The author as the source names them, the channel without `#`, or the folders that the caller may know."""
    query: str
    """The query with an operator in place of the name, such as `invoices from:"Marta Kolb"`."""
    filters: dict[str, Any]
    """The same filter, in the form of `filters` of a request."""


class NamesInQueries:
    """Finds names in queries."""

    def __init__(self, names: ReadableNames, operators: Operators, database: Database) -> None:
        self._names = names
        self._operators = operators
        self._reads = WebReads(database)

    async def of(
        self, query: str, understood: Sequence[Understood], access: Access, fresh_since: datetime
    ) -> list[Named] | None:
        """Return what the query names at its end, at most three of a kind; None if that cannot be looked up in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                names = await self._names.lately(access, fresh_since)
                if names is None:
                    return None
                start, found = _ending(query, understood, names)
                if not found:
                    return []
                known = await self._reads.names_of(
                    doc_ids=[one.doc_id for one in found],
                    principals=sorted(access.principals),
                    fresh_since=fresh_since,
                )
        except (TimeoutError, TemporaryError) as error:
            log.warning("names_not_looked_up", error=str(error) or "It took too long.")
            return None
        shown = [self._shown(one, query[:start], names) for one in found if one in known]
        return [one for one in shown if one is not None]

    def _shown(self, one: ReadableName, before: str, names: Names) -> Named | None:
        """Return a name with the search that it leads to; None if no operator says it, for example for a person called "Slack"."""
        kind, filtered = _KINDS[one.kind]
        value = one.value.lower() if kind == "channel" else one.value
        written = {"person": one.name, "channel": f"#{value}", "folder": one.name}[kind]
        stated = f'"{written}"' if " " in written else written
        query = f"{before}{'from' if kind == 'person' else 'in'}:{stated}"
        read = self._operators.phrases(query, KINDS, names)
        if not any(phrase.kind == filtered and value in phrase.values for phrase in read):
            return None
        name = value if kind == "channel" else one.name
        return Named(kind, name, query, as_filters(Phrase(filtered, 0, 0, (value,))))


def _ending(query: str, understood: Sequence[Understood], names: Names) -> tuple[int, list[ReadableName]]:
    """Return the names that the query ends with, by as many of its last words as name anything, and where they begin."""
    words = [] if '"' in query else list(WORD.finditer(query))[-MOST_WORDS:]
    for at, first in enumerate(words):
        start = first.start() - query[: first.start()].endswith("#")
        if any(one.end > start for one in understood):
            continue
        found = names.lookup.find([one.group() for one in words[at:]])
        if start < first.start():
            found = [one for one in found if one.kind == "channel"]
        if found:
            return start, [one for kind in _KINDS for one in [each for each in found if each.kind == kind][:MOST_NAMES]]
    return 0, []
