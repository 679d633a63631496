"""Decide whether the passages found answer a question at all. Pure.

A passage counts by how near its meaning is (the cosine that the vector leg gave it) and by how much of the question its words
cover, those that few passages hold counting more: a question about a drone licence is not answered by a page on driving
licences. The gate is calibrated per embedding model, never on scores scaled within one query: those are high for the best of
nothing, too.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from resources.settings import BUNDLED_MODEL
from serving.answers.words import content, holds
from serving.retrieval.passage import Passage

GATES: Mapping[str, float] = {BUNDLED_MODEL: 0.41}
"""Model → gate, from `python -m bench.answer --gate` over the sample company (50 questions with an answer, 10 without): without one
at most 0.377, with one at least 0.439 but for a single question (0.368)."""
COSINES: Mapping[str, float] = {BUNDLED_MODEL: 0.25}
"""Model → least cosine of a relevant passage, 0 for others. From 73 questions with and 37 without an answer over the sample company:
0.25 keeps 95 % of the right passages and ten results a question (0.3: 88 % and five; 0.2: 97 % and seventeen)."""
FLOOR = 0.30
"""Least score of a result that is not padding; it cuts the tail of what passed the gate. Source: NeuroDrive, relevance filtering (30 %)."""
COVERAGE_GATE = 0.45
"""For models that have not been calibrated, and while there are no vectors: words alone decide. From the same run: without an answer
at most 0.43."""
MEANING_SHARE = 0.8
"""A passage that means nearly the same in other words passes with none of the question's: 0.8 times its cosine counts."""
POOL = 30
"""Passages that say which of the question's words are rare."""
TOP = 5
"""Passages of which one must pass."""


class Judged(NamedTuple):
    """Whether to answer, the score that decided it, and the gate that the score had to reach."""

    passed: bool
    score: float
    gate: float


def weights(question: frozenset[str], passages: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return each of the question's words with its weight: the fewer of the passages hold it, the more."""
    counts = {term: sum(holds(words, term) for words in passages) for term in sorted(question)}
    return {term: math.log(1 + (len(passages) + 1) / (count + 0.5)) for term, count in counts.items()}


def coverage(words: frozenset[str], weighed: Mapping[str, float]) -> float:
    """Return the share of the question's words that the passage holds, by weight."""
    total = sum(weighed.values())
    return sum(weight for term, weight in weighed.items() if holds(words, term)) / total if total else 0.0


def gate_of(model: str, setting: float | None) -> float | None:
    """Return the gate for a model: the setting, else the calibrated one, else None (words alone decide)."""
    return setting if setting is not None else GATES.get(model)


def judge(question: str, found: Sequence[Passage], gate: float | None) -> Judged:
    """Return whether one of the first `TOP` passages (best first) may answer the question."""
    pool = [content(f"{one.heading} {one.chunk_text}") for one in found[:POOL]]
    weighed = weights(content(question), pool)
    by_meaning = gate is not None and any(one.scores.dense is not None for one in found[:TOP])
    limit = gate if by_meaning and gate is not None else COVERAGE_GATE
    best = 0.0
    for one, words in zip(found[:TOP], pool, strict=False):
        share = coverage(words, weighed)
        cosine = max(0.0, one.scores.dense or 0.0)
        best = max(best, (cosine + share) / 2, MEANING_SHARE * cosine) if by_meaning else max(best, share)
    return Judged(bool(found) and best >= limit, best, limit)
