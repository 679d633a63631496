"""Decide whether the passages found answer a question: surely, perhaps, or not at all. Pure.

The evidence of relevance says whether the passages are about the question; without any, the answer is "No data found". Whether they
answer it is judged by a language model if there is one. Otherwise an answer is sure only if one passage holds most of the question's
words, those that few passages hold counting more, and all its names and numbers: a question about a drone licence is not answered by
a page on driving licences, nor one about the Kingfisher 9 by a page on the Kingfisher.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from serving.answers.words import content, holds
from serving.search.retrieval.known import naming_words
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.relevance import evidence
from serving.search.retrieval.terms import held

GATE = 0.27
"""Least evidence of an answer in quotes. `python -m bench.questions` prints what it lets through of the sample company's questions."""
MODEL_GATE = 0.20
"""Least evidence if a language model judges whether the passages answer."""
UNKNOWN = 0.2
"""What the evidence loses if no passage found holds any of the question's words."""
COVERAGE_GATE = 0.45
"""While no cosine is known, words alone decide: least share of the question's words in one passage."""
SURE = 0.6
"""Share of the question's words that one passage holds if it surely answers the question."""
SURE_EVIDENCE = 0.7
"""Evidence of such a passage, if cosines are known."""
RERANK_GATE = 0.3
"""Least score of a cross-encoder, which needs no calibration: it was trained to tell answers from other passages."""
SURE_RERANK = 0.5
"""Score from which a cross-encoder takes a passage for an answer rather than not."""
POOL = 30
"""Passages that say which of the question's words are rare."""
TOP = 5
"""Number of passages among which one must answer the question."""

_NUMBERED = re.compile(r"\b[A-Z]\w+ \d[\w.-]*\w|\b[A-Z]\w+ \d\b")


class Judged(NamedTuple):
    """Decision on answering: whether to answer, whether the passages surely do, the score that decided, and the score required."""

    passed: bool
    sure: bool
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


def judge(question: str, found: Sequence[Passage], setting: float | None, *, by_model: bool) -> Judged:
    """Judge the passages, best first; the cross-encoder decides if it scored them.

    `setting` replaces the gate without one; `by_model`: a language model reads the passages next.
    """
    reranked = [(one.scores.rerank, one) for one in found[:TOP] if one.scores.rerank is not None]
    if reranked:
        best = max(score for score, _ in reranked)
        sure = any(score >= SURE_RERANK and names(question, one) for score, one in reranked)
        return Judged(best >= RERANK_GATE, sure, best, RERANK_GATE)
    asked = content(question)
    pool = [content(f"{one.heading} {one.chunk_text}") for one in found[:POOL]]
    weighed = weights(asked, pool)
    shares = [coverage(words, weighed) for words in pool[:TOP]]
    known = [score for one in found[:POOL] if (score := evidence(one)) is not None]
    if known:
        unknown = sum(not any(holds(words, term) for words in pool) for term in asked) / max(1, len(asked))
        score, gate = max(known) - UNKNOWN * unknown, MODEL_GATE if by_model else GATE
    else:
        score, gate = max(shares, default=0.0), COVERAGE_GATE
    gate = gate if setting is None else setting
    passed = bool(found) and score >= gate
    sure = passed and any(
        share >= SURE and (not known or (evidence(one) or 0.0) >= SURE_EVIDENCE) and names(question, one)
        for share, one in zip(shares, found, strict=False)
    )
    return Judged(passed, sure, score, gate)


def together(own: frozenset[str], question: str, found: Sequence[Passage]) -> bool:
    """Return True if one of the best passages holds all of a question's own words and most of those that it borrows."""
    asked = content(question)
    pool = [content(f"{one.heading} {one.chunk_text}") for one in found[:POOL]]
    weighed = weights(asked, pool)
    return any(all(holds(words, term) for term in own) and coverage(words, weighed) >= SURE for words in pool[:TOP])


def names(question: str, passage: Passage) -> bool:
    """Return True if the passage holds each name and number of the question, and numbered names (Kingfisher 9) as they are."""
    text = f"{passage.heading} {passage.chunk_text}"
    naming = naming_words(question)
    flat = " ".join(text.split()).casefold()
    return held(text, naming) == naming and all(name.casefold() in flat for name in _NUMBERED.findall(question))
