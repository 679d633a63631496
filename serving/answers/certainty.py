"""How surely quotes answer a question, 0 to 1. Pure.

A logistic model over what sets a right quote apart: its lead over the others, what it holds of the question's words and names, its meaning.
"""

import math
from collections.abc import Mapping, Sequence

from serving.answers.answer_type import EXACT, expected
from serving.answers.extractive import Quote, score
from serving.answers.gate import coverage, names, weights
from serving.answers.words import content, holds
from serving.search.retrieval.passage import Passage

SURE = 0.7
"""Certainty from which an answer comes without a warning; `python -m bench.answers` counts what that lets through."""
REFUSED = 0.05
"""Certainty below which nothing is quoted: the answer is "No data found". `python -m bench.answers` counts these, too."""
BIAS = -8.54
DOUBT: Mapping[str, float] = {
    "asked": 1.9,
    "lead": 0.42,
    "named": 1.84,
    "near": 1.39,
    "passage": 0.62,
    "together": 1.22,
    "type": 0.62,
    "words": 1.14,
}
"""Weight of each figure, as `python -m bench.answer_weights` prints them."""
CLOSE = 5
"""Pieces that agree if they are from one passage."""


def evidence_of(question: str, pieces: Sequence[Quote], sources: Sequence[Passage]) -> dict[str, float]:
    """Return the figures by which the best of the pieces is trusted; `pieces` are not empty."""
    ranked = sorted(pieces, key=lambda piece: -score(piece))
    best = ranked[0]
    asked = content(question)
    held = [content(f"{one.heading} {one.chunk_text}") for one in sources]
    return {
        "lead": score(best) - score(ranked[1]) if len(ranked) > 1 else 1.0,
        "words": best.features["words"],
        "near": best.features.get("near", 0.0),
        "type": best.features["type"],
        "passage": coverage(held[best.number - 1], weights(asked, held)),
        "named": float(names(question, sources[best.number - 1])),
        "asked": math.log1p(len(asked)),
        "together": sum(piece.number == best.number for piece in ranked[:CLOSE]) / CLOSE,
    }


def certainty(question: str, pieces: Sequence[Quote], sources: Sequence[Passage]) -> float:
    """Return how surely the best of the pieces answers the question; 0 without any, little if it lacks the exact kind that is asked for."""
    if not pieces:
        return 0.0
    figures = evidence_of(question, pieces, sources)
    known = 1 / (1 + math.exp(-BIAS - sum(weight * figures[name] for name, weight in DOUBT.items())))
    if expected(question) in EXACT and not figures["type"]:
        return min(known, REFUSED)  # another piece may hold it
    return known


def holds_own(question: str, own: frozenset[str], source: Passage) -> bool:
    """Return True if a source holds what a question says itself, not only what it borrows from the question before."""
    held = content(f"{source.heading} {source.chunk_text}")
    return names(question, source) and all(holds(held, term) for term in own)
