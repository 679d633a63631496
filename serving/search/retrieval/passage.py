"""The result of a search: passages with their scores and ranks, and what may be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from resources.core.bm25 import OTHER_LANGUAGES, stem_ids
from resources.core.domain import TextLocation
from resources.embedding.background import CosineScale
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.fuse import clamp
from serving.search.retrieval.query import Respelled, SearchQuery
from serving.search.retrieval.terms import Words, held, occurrences, spans, stems

SCORE_DIGITS = 6
"""Decimals of a score that is shown."""
KNOWN = 8.0
"""Weight of being the one passage that the query names, relative to the other scores. With the exponent of `search.retrieval.known`,
nDCG@10 of known items is 0.99 to 1.00 on three collections, and that of their own queries does not fall; see DECISIONS.md."""


K1, B = 1.2, 0.75
"""Constants of BM25 at their usual values."""
USUAL_CHARACTERS = 1000
"""Length of a passage in which a word counts neither more nor less. It is fixed: the average of all passages depends on hidden ones."""

PRESENT, FREQUENT = 0.5, 0.4
"""Score of a word in a keyword search: for its presence, and for its frequency at most. Even with the largest boost, the sum is below 1."""


class Scale(NamedTuple):
    """Scale on which the scores of a search are shown. The default shows the fused score, as the mode `vector` does."""

    mode: str = "vector"
    weight: float = 1.0
    """Share of the cosine; words have the rest."""
    floor: float = 0.0
    """The cosine that counts as 0: in mode `hybrid` that of unrelated texts, a constant of the embedding model."""
    fusion: str | None = None
    """How both legs were fused into the order of the passages; None for one leg."""
    agreement: float = 0.0
    """The share of similar passages in that order."""
    cosines: CosineScale | None = None
    """The embedding model's scale; None while it is not measured."""

    @classmethod
    def of(cls, query: SearchQuery, candidates: Sequence[Candidate], cosines: CosineScale | None) -> Scale:
        """Return the scale of a search. If no candidate has a cosine, only keywords were searched."""
        mode = query.mode if any(one.dense is not None for one in candidates) else "keyword"
        if mode == "hybrid":
            floor = cosines.floor if cosines is not None else 0.0
            return cls(mode, query.dense_weight, floor, query.fusion, query.agreement, cosines)
        return cls(mode, 1.0 if mode == "vector" else 0.0, cosines=cosines)

    def above_floor(self, cosine: float | None) -> float:
        """Return a cosine between the floor and 1 as a score between 0 and 1."""
        return clamp(((cosine or 0.0) - self.floor) / (1 - self.floor))


OWN = Scale()


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores and ranks that order a passage, each between 0 and 1 but for BM25."""

    fused: float = 0.0
    """The fused score of both legs."""
    agreed: float = 0.0
    """The fused score after the agreement of similar passages."""
    known: float = 0.0
    """How far the passage is the one that the query names."""
    dense: float | None = None
    """The cosine of the query and the passage."""
    dense_rank: int | None = None
    keyword: float | None = None
    keyword_rank: int | None = None
    rerank: float | None = None
    boosts: Mapping[str, float] = {}
    scale: Scale = OWN

    @property
    def boost(self) -> float:
        """The product of all boosts."""
        return math.prod(self.boosts.values())

    @property
    def order(self) -> float:
        """The score that orders the passage; never shown."""
        if self.rerank is not None:
            return clamp(self.rerank * self.boost)
        return clamp(self.agreed * self.boost) + KNOWN * self.known


class Held(NamedTuple):
    """What a passage holds of the words: their positions in its text, in order, and those in the text or above it."""

    places: list[tuple[int, int]]
    words: frozenset[str]


class AskedWords:
    """The words of a search, and where its passages hold them. One object serves one search, which looks through each passage once."""

    def __init__(self, words: Words, text: str = "") -> None:
        """`text`: the query as it is written, for the stemmers of languages."""
        self.words = words
        self._text = text
        self._held: dict[str, Held] = {}
        self._shares: dict[str, float] = {}
        self._inflected: dict[str, list[frozenset[int]]] = {}

    def within(self, passage: Passage) -> Held:
        """Return what the passage holds of the words."""
        found = self._held.get(passage.chunk_id)
        if found is None:
            places = spans(passage.chunk_text, self.words)
            above = held(passage.where, self.words)
            found = self._held[passage.chunk_id] = Held(places, stems(passage.chunk_text, places, self.words) | above)
        return found

    def some(self, passage: Passage, wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted words, some of all, that the passage holds, without a look for the others."""
        found = self._held.get(passage.chunk_id)
        if found is not None:
            return found.words & wanted
        return held(f"{passage.where} {passage.chunk_text}", self.words.only(wanted))

    def share(self, passage: Passage) -> float:
        """Return the share of the words that the passage holds: by light stems, or by those of its own language if that is more."""
        found = self._shares.get(passage.chunk_id)
        if found is None:
            found = len(self.within(passage).words) / len(self.words) if self.words else 0.0
            if found < 1 and passage.language in OTHER_LANGUAGES:
                found = max(found, self._of_language(passage, passage.language))
            self._shares[passage.chunk_id] = found
        return found

    def _of_language(self, passage: Passage, language: str) -> float:
        words = self._inflected.get(language)
        if words is None:
            each = (stem_ids(word, language) for word in self._text.split())
            words = self._inflected[language] = [stems for stems in each if stems]
        ids = stem_ids(f"{passage.where} {passage.chunk_text}", language) if words else frozenset[int]()
        return sum(stems <= ids for stems in words) / len(words) if words else 0.0


class Neighbour(msgspec.Struct, frozen=True):
    """A chunk before or after the result's."""

    chunk_id: str
    """ID of the passage."""
    chunk_index: int
    """Position of the passage in the document, from 0."""
    chunk_text: str
    """The passage."""
    page_start: int | None
    """First page or slide of the passage, from 1; null for documents without pages."""
    page_end: int | None
    """Last page or slide of the passage; null for documents without pages."""


class Passage(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A chunk and its document as they are now, with the scores of the search that found it.

    BM25 weighs words by their frequency in the whole collection, so an engine's keyword score would reveal how many documents hold a word,
    hidden ones included. It decides the order only; what is shown, `relevance`, is made of the cosine and the share of the query's words.
    """

    chunk_id: str
    doc_id: str
    chunk_index: int
    chunk_text: str
    text_hash: str
    section_path: list[str]
    anchor: str | None
    page_start: int | None
    page_end: int | None
    title: str
    source_type: str
    partition: str | None = None
    """Known of passages that the index alone has answered with."""
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    language: str | None = None
    """ISO 639-1; None if it is not known."""
    url: str | None
    owner: str | None
    author: str | None = None
    tags: dict[str, Any]
    created_at: datetime | None
    modified_at: datetime | None
    acl_checked_at: datetime | None
    start_char: int = 0
    places: list[TextLocation] = []
    sketch: str | None = None
    """A small copy of the vector; see `resources.core.sketch`."""
    scores: Scores = Scores()
    also_in: list[Passage] = []
    """The same text in other documents that the caller may read."""
    asked: AskedWords | None = None
    """The words of the search, which are looked for in the text when that is needed; None if it had none."""
    neighbours: list[Neighbour] | None = None
    """None unless asked for."""

    @property
    def heading(self) -> str:
        """The title and the headings above the passage, in one line."""
        return " ".join([self.title, *self.section_path])

    @property
    def where(self) -> str:
        """What the passage is found by beside its text: title, headings above it, and the folders that the caller may know."""
        return f"{self.heading} {self.path}"

    @property
    def headings(self) -> frozenset[str]:
        """The title and the headings above any part of the passage."""
        return frozenset(
            (self.title, *self.section_path, *(one for place in self.places for one in place.section_path))
        )

    def place(self, offset: int) -> TextLocation:
        """Return the place of the character at `offset` of the text; it is the chunk's own where the chunk has only one."""
        whole = TextLocation(
            start_char=self.start_char, page=self.page_start, anchor=self.anchor, section_path=tuple(self.section_path)
        )
        begun = (place for place in reversed(self.places) if place.start_char <= self.start_char + offset)
        return next(begun, whole)

    @property
    def page_starts(self) -> list[int]:
        """Return the offsets in the text at which another page begins."""
        return [
            after.start_char - self.start_char for before, after in pairwise(self.places) if after.page != before.page
        ]

    @property
    def matches(self) -> list[tuple[int, int]]:
        """Return the positions of the query's words in the text."""
        return [] if self.asked is None else self.asked.within(self).places

    @property
    def share(self) -> float | None:
        """The share of the query's words in the passage and its headings; None if words were not searched."""
        if self.scores.scale.mode == "vector":
            return None
        return 0.0 if self.asked is None else self.asked.share(self)

    @cached_property
    def frequency(self) -> float | None:
        """Return how often the query's words occur, 0 to 1, more in a short passage; None unless words alone were searched.

        BM25's term frequency, averaged over the words that occur, without the word's rarity, which would reveal hidden documents. A word
        of the headings counts once. Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, section 3.4.
        """
        if self.scores.scale.mode != "keyword" or self.asked is None:
            return None
        counts = occurrences(self.chunk_text, self.matches)
        counts.update(held(self.heading, self.asked.words))
        usual = K1 * (1 - B + B * len(self.chunk_text) / USUAL_CHARACTERS)
        return sum(count / (count + usual) for count in counts.values()) / len(counts) if counts else 0.0

    @property
    def shown(self) -> float:
        """The fused score that is shown, before boosts."""
        scale, share = self.scores.scale, self.share
        if share is None:
            return clamp(self.scores.agreed)
        if scale.mode == "keyword":
            return share * (PRESENT + FREQUENT * (self.frequency or 0.0))
        return scale.weight * scale.above_floor(self.scores.dense) + (1 - scale.weight) * share

    @property
    def relevance(self) -> float:
        """The score that is shown."""
        score = self.shown if self.scores.rerank is None else self.scores.rerank
        return round(clamp(score * self.scores.boost), SCORE_DIGITS)


class Warning_(msgspec.Struct, frozen=True):  # noqa: N801 (the plain word is a builtin)
    """A limitation of this response; `code` is stable."""

    code: str
    """The stable name of the limitation, such as `embedding_unavailable`."""
    message: str
    """The limitation in words."""


class SearchOutcome(NamedTuple):
    """Passages, best first, and what may be missing from them."""

    passages: list[Passage]
    """The page that was asked for."""
    matches: list[Passage]
    """The results of all pages, if they were to be counted."""
    exact: bool
    """`matches` are all there are."""
    seen: frozenset[str]
    """What the next page is to leave out."""
    more: bool
    """There may be a next page."""
    degradations: list[Warning_]
    held_back: int
    """Documents left out because their permissions were checked too long ago."""
    cached: bool
    registry: bool
    """The permissions were checked in Postgres, so that it may be written to."""
    expansions: list[str]
    """What a language model added to the query."""
    saturated: bool
    """A greater depth may find more."""
    text: str = ""
    """What was searched for."""
    respelled: Sequence[Respelled] = ()
    """Words that were completed or corrected."""
