"""The scores that people see: a query and one passage that they may read enter, figures in 0..1 leave. Pure.

The ranking uses the engines' own scores, and BM25 counts words over the whole collection: such a score tells how many documents hold a
word, hidden ones included. So an engine's keyword score decides the order and nothing else. What is shown, and what a threshold is held
against, follows from the cosine and from the share of the query's words that the passage and its headings hold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from serving.retrieval.cache import Candidate
from serving.retrieval.fuse import clamp
from serving.retrieval.highlight import held, terms
from serving.retrieval.hits import Hit
from serving.retrieval.plan import Plan


class Shown(NamedTuple):
    """The scores of a passage, without the recency boost. `keyword` is None where words were not searched."""

    fused: float
    keyword: float | None


class Scale(NamedTuple):
    """What turns a candidate into scores to show; the default takes a candidate's own score, as the mode `vector` does."""

    mode: str = "vector"
    words: frozenset[str] = frozenset()
    dense_weight: float = 1.0
    floor: float = 0.0
    """The cosine of unrelated texts, a constant of the embedding model."""

    @classmethod
    def of(cls, search: Plan, candidates: Sequence[Candidate], floor: float) -> Scale:
        """Return the scale of a search. Without any cosine, keywords alone were searched."""
        mode = search.mode if any(one.dense_score is not None for one in candidates) else "keyword"
        return cls(mode, terms(search.query), search.dense_weight, floor)

    def shown(self, candidate: Candidate, found: Collection[str], wanted: Collection[str]) -> Shown:
        """Return the scores of a passage that holds `found` of the `wanted` words."""
        if self.mode == "vector":
            return Shown(clamp(candidate.fused), None)
        share = len(found) / len(wanted) if wanted else 0.0
        if self.mode == "keyword":
            return Shown(share, share)
        cosine = clamp(((candidate.dense_score or 0.0) - self.floor) / (1 - self.floor))
        return Shown(self.dense_weight * cosine + (1 - self.dense_weight) * share, share)

    def fused(self, candidate: Candidate, hit: Hit) -> float:
        """Return the score of a passage against the search's own words."""
        found = () if self.mode == "vector" else held(hit.chunk_text, self.words) | held(heading(hit), self.words)
        return self.shown(candidate, found, self.words).fused


OWN = Scale()
"""The scale of candidates whose own score may be shown."""


def heading(hit: Hit) -> str:
    """Return what the passage stands under, in one line."""
    return " ".join([hit.title, *hit.section_path])
