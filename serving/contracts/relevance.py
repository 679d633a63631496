"""What counts as relevant where a contract leaves irrelevant results out and the caller gives no figure. Pure.

Scores scaled within one query are high for the best of nothing, too: so the gate of answers decides whether anything is relevant
at all, and a floor on the scores only cuts the tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resources.settings import BUNDLED_MODEL
from serving.answers.extractive import headings
from serving.answers.gate import Evidence, judge
from serving.schemas import Result

COSINES: Mapping[str, float] = {BUNDLED_MODEL: 0.25}
"""Model → least cosine of a relevant passage. From 73 questions with and 37 without an answer over the sample company: 0.25 keeps
95 % of the right passages and ten results a question (0.3: 88 % and five; 0.2: 97 % and seventeen)."""
NOT_RERANKED, NOT_EMBEDDED = "rerank_unavailable", "embedding_unavailable"
"""Codes of warnings that change what scores mean; they are part of the interface."""
FLOOR = 0.30
"""Least score of a result that is not padding. Source: NeuroDrive, relevance filtering (30 %)."""


def least_cosine(model: str) -> float:
    """Return the calibrated threshold of a model, 0 for one that nobody has calibrated."""
    return COSINES.get(model, 0.0)


def judged(query: str, found: Sequence[Result], gate: float | None) -> bool:
    """Tell whether one of the best results may answer the query. The results carry their explanations."""
    evidence = [
        Evidence(
            f"{headings(one.title, one.section_path)} {one.chunk_text}",
            one.explain.dense_score if one.explain else None,
        )
        for one in found
    ]
    return judge(query, evidence, gate).passed
