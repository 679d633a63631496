"""A validated search: what is asked, by whom, and every setting that decides its result."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.settings import Settings
from serving.search.quoting import INVISIBLE

MAX_QUERY = 1000
"""Characters of a query, white space collapsed."""
MAX_DEPTH = 2000
"""Candidates of each leg at most."""
MOST_RESULTS = 200
"""Results of a search on all its pages."""
_SPACES = re.compile(r"\s+")


class Narrowing(NamedTuple):
    """Validated filters. `before` is exclusive; None or an empty tuple: not narrowed."""

    source_types: tuple[str, ...] = ()
    collection_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    mime_types: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    tags: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    field: str = "modified_at"
    since: datetime | None = None
    before: datetime | None = None
    include_archived: bool = False
    without: tuple[str, ...] = ()
    """Words and phrases that neither a passage nor its headings may have."""


class Respelled(NamedTuple):
    """A word of a query that no passage holds, and the words that are searched for instead, the likeliest first.

    `beginning`: they begin with it; otherwise they differ from it by one edit.
    """

    word: str
    instead: tuple[str, ...]
    beginning: bool


class LeftOut(NamedTuple):
    """Documents that the permission check left out so far. The engines leave them out too when the search looks deeper."""

    archived: bool = False
    partitions: tuple[tuple[str, str], ...] = ()
    """(source, partition) of documents whose permissions were checked too long ago."""
    chunk_ids: tuple[str, ...] = ()


NOTHING = LeftOut()


class SearchQuery(NamedTuple):
    """Everything that decides the result of a search, the caller's access included."""

    text: str
    access: Access
    mode: str
    fusion: str
    depth: int
    """Candidates taken from each leg."""
    dense_weight: float
    agreement: float
    expansion: str
    narrowing: Narrowing
    limit: int
    """Passages returned at most."""
    deepest: int = MAX_DEPTH
    """A search that finds too few passages takes more candidates, up to this many."""
    threshold: float | None = None
    relevant_only: bool = False
    """Leave out passages that are hardly about the query, unless a reranker or a threshold decides."""
    rerank: bool = False
    group: bool = True
    """Return one passage of each document."""
    neighbours: int = 0
    """Chunks before and after each passage that are returned with it."""
    left_out: LeftOut = NOTHING
    seen: frozenset[str] = frozenset()
    """What earlier pages have passed: documents, or passages if not `group`."""
    respell: bool = False
    """Complete and correct words that no passage holds."""
    also: tuple[Respelled, ...] = ()
    """Words of `text` that have been completed or corrected."""
    counted: bool = False
    """Rank as many results as all pages have, so that they can be counted."""


class SearchDetails(TypedDict, total=False):
    """What a search may ask for beyond its text and scores: fields of `SearchQuery`, which has their defaults."""

    relevant_only: bool
    group: bool
    neighbours: int
    left_out: LeftOut
    seen: frozenset[str]
    respell: bool
    counted: bool


def keywords(query: SearchQuery) -> str:
    """Return the words to search for: the text, and what else the beginning of a word may stand for."""
    return " ".join([query.text, *(other for one in query.also for other in one.instead[1:])])


def composed(query: str) -> str:
    """Return the query as it is searched: in NFC, with white space collapsed, without what is not seen, as documents are."""
    seen = INVISIBLE.sub("", query.replace("\x00", " ")).replace("\xad", "")
    return _SPACES.sub(" ", unicodedata.normalize("NFC", seen)).strip()


def normalise(query: str, field: str = "query") -> str:
    """Return the query as it is searched. Raises `InvalidRequestError` unless it has 1 to 1000 characters.

    `field`: its name in the request.
    """
    text = composed(query)
    if not text:
        raise InvalidRequestError(f"{field}: is empty; ask something of 1 to {MAX_QUERY} characters.")
    if len(text) > MAX_QUERY:
        raise InvalidRequestError(f"{field}: has {len(text)} characters; the limit is {MAX_QUERY}.")
    return text


def search_query(
    text: str,
    access: Access,
    settings: Settings,
    *,
    limit: int,
    mode: str = "hybrid",
    fusion: str | None = None,
    dense_weight: float | None = None,
    depth: int | None = None,
    threshold: float | None = None,
    rerank: bool = False,
    narrowing: Narrowing | None = None,
    **details: Unpack[SearchDetails],
) -> SearchQuery:
    """Validate the text and take from the settings what is not given. Raises `InvalidRequestError`.

    The threshold of the settings does not apply to a reranker, whose scores have another scale and a threshold of their own.
    """
    return SearchQuery(
        text=normalise(text),
        access=access,
        mode=mode,
        fusion=fusion or settings.fusion,
        depth=max(depth or settings.search_depth, limit),
        dense_weight=settings.dense_weight if dense_weight is None else dense_weight,
        agreement=settings.agreement,
        expansion="off" if mode == "keyword" else settings.query_expansion,
        narrowing=narrowing or Narrowing(),
        limit=limit,
        threshold=settings.search_threshold if threshold is None and not rerank else threshold,
        rerank=rerank,
        **details,
    )
