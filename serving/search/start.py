"""What the start page offers below its box: saved searches, recent questions, examples, and what is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from resources.core.domain import Access
from resources.sources import configured, label, managed, names
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.search.saved import saved_searches_of
from serving.search.service import SearchServices
from sql.saved_searches import SavedSearch
from sql.serving import WebReads
from sql.serving_rows import Asked, LatestDocument
from sql.source_rows import SourceRow

QUESTIONS, EXAMPLES = 5, 4
LOOKED = 100
"""Latest documents of each source among which examples are chosen, and latest questions, of which each is shown once."""
LONGEST = 60
"""Characters of an example."""


class ExampleSearch(NamedTuple):
    """A search that finds something the caller may read."""

    query: str
    mime_type: str

    @property
    def address(self) -> str:
        return "/?" + urlencode({"q": self.query})


class ConnectedSource(NamedTuple):
    """A source that can be searched. `read_at`: when it was last read, to the minute; None during its first sync."""

    source: str
    label: str
    read_at: datetime | None


class StartPage(NamedTuple):
    """What the start page shows of a person's own, and of what that person may read."""

    saved: Sequence[SavedSearch]
    questions: Sequence[Asked]
    examples: Sequence[ExampleSearch]
    sources: Sequence[ConnectedSource]


async def start_of(search: SearchServices, access: Access) -> StartPage:
    """Return what the start page offers the caller."""
    reads = WebReads(search.http.database)
    saved, questions, latest, sources = await asyncio.gather(
        saved_searches_of(search, access),
        reads.answers_of(email=access.email, before_at=None, before_id=None, contains=None, most=LOOKED),
        reads.latest_documents(
            sources=[name.value for name in managed()],
            looked=LOOKED,
            most=2 * EXAMPLES,
            **search.http.readable_by(access),
        ),
        reads.sources(sources=[name.value for name in names()]),
    )
    ready = {name.value for name in managed() if configured(search.http.settings, name)}
    return StartPage(
        saved, once(questions), examples(latest), [_connected(row) for row in sources if _shown(row, ready)]
    )


def once(questions: Sequence[Asked]) -> list[Asked]:
    """Return the latest questions, with the latest answer of one that was asked several times."""
    found: dict[str, Asked] = {}
    for one in questions:
        found.setdefault(" ".join(one.query.casefold().split()), one)
    return list(found.values())[:QUESTIONS]


def examples(latest: list[LatestDocument]) -> list[ExampleSearch]:
    """Return the titles of documents as searches, each once: of a conversation how it begins, of long ones the first words."""
    found: dict[str, ExampleSearch] = {}
    for one in latest:
        title = one.title.partition(": ")[2] or one.title if one.mime_type == CONVERSATION else one.title
        words = " ".join(title.split())
        if len(words) > LONGEST:
            words = words[: LONGEST + 1].rpartition(" ")[0] or words[:LONGEST]
        if words:
            found.setdefault(words.casefold(), ExampleSearch(words, one.mime_type))
    return list(found.values())[:EXAMPLES]


def _shown(row: SourceRow, ready: set[str]) -> bool:
    return row.source in ready or row.last_sync_at is not None


def _connected(row: SourceRow) -> ConnectedSource:
    read_at = row.last_sync_at and row.last_sync_at.replace(second=0, microsecond=0)
    return ConnectedSource(row.source, label(row.source), read_at)
