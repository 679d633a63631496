"""Pages of a search: what is left of a ranking after the pages before. Pure.

A page leaves out what earlier pages have shown, so none is repeated, whatever changes in the ranking between two pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from serving.search.retrieval.passage import Passage
from serving.search.retrieval.query import MOST_RESULTS, SearchQuery


class Page(NamedTuple):
    passages: list[Passage]
    """The results of this page, best first."""
    seen: frozenset[str]
    """What this page and those before have passed, irrelevant results included: documents, or passages without grouping."""
    more: bool
    """There may be another page."""


def ranked_for(query: SearchQuery) -> int:
    """Return how many results must be ranked for a page: all within the bound if they are counted."""
    most = max(MOST_RESULTS, query.limit)
    return most if query.counted else min(most, len(query.seen) + query.limit)


def page_of(ranked: Sequence[Passage], shown: Sequence[Passage], query: SearchQuery) -> Page:
    """Return the next page. `ranked` is the whole ranking, `shown` what is relevant of it."""

    def key(passage: Passage) -> str:
        return passage.doc_id if query.group else passage.chunk_id

    rest = [one for one in shown if key(one) not in query.seen]
    page = rest[: query.limit]
    passed = list(ranked)
    if len(page) == query.limit:
        last = next(place for place, one in enumerate(ranked) if key(one) == key(page[-1]))
        passed = passed[: last + 1]
    seen = query.seen.union(map(key, passed))
    more = len(rest) > len(page) or len(ranked) == ranked_for(query)
    return Page(page, seen, more and bool(page) and len(seen) < MOST_RESULTS)
