"""Explanation of a score: what each step of the scoring adds to it."""

from __future__ import annotations

from serving.search.retrieval.fuse import clamp
from serving.search.retrieval.passage import SCORE_DIGITS, Passage


def parts(passage: Passage) -> dict[str, float]:
    """Return what each step adds to the passage's relevance, in order; steps that change nothing are left out.

    The sum is the relevance, to its last decimal. `dense` and `keyword` are the two legs, `frequency` is what is taken off for words that
    occur seldom, `expansion` is what the vectors of added texts change, `rerank` replaces the fused score by the reranker's, boosts have
    their own names, and `limit` cuts the score to 0..1.
    """
    added: dict[str, float] = {}
    total = 0.0
    for name, score in _totals(passage).items():
        rounded = round(score, SCORE_DIGITS)
        part = round(rounded - total, SCORE_DIGITS)
        if part:
            added[name] = part
        total = rounded
    return added


def _totals(passage: Passage) -> dict[str, float]:
    """Return the score after each step."""
    scores, scale = passage.scores, passage.scores.scale
    if scale.mode == "vector":
        totals = {"dense": clamp(scores.dense or 0.0), "expansion": passage.shown}
    elif scale.mode == "keyword":
        totals = {"keyword": passage.share or 0.0, "frequency": passage.shown}
    else:
        totals = {"dense": scale.weight * scale.above_floor(scores.dense), "keyword": passage.shown}
    score = passage.shown
    if scores.rerank is not None:
        totals["rerank"] = score = scores.rerank
    boost = 1.0
    for name, factor in scores.boosts.items():
        boost *= factor
        totals[name] = score * boost
    return totals | {"limit": passage.relevance}
