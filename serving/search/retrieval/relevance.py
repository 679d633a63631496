"""Measure whether a passage is about the query at all, on a scale that is the same for every query and embedding model. Pure.

The scores that order passages cannot tell: the best of irrelevant passages comes first, too. The evidence is made of the cosine, on the
model's own scale, and of the share of the query's words. It depends on the query and the passage only, so what is left out reveals
nothing about other documents.
"""

from serving.search.retrieval.known import naming_words
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.terms import held

MEANING = 0.7
"""Share of the cosine in the evidence; the words have the rest, as in the order of passages."""
RELEVANT = 0.30
"""Least evidence of a result that a search shows by default. `python -m bench.relevance` prints what it keeps and leaves out."""


def evidence(passage: Passage) -> float | None:
    """Return the evidence: 0 for unrelated texts, about 0.7 for a paraphrase without a common word; None if no cosine is known."""
    scores, cosines = passage.scores, passage.scores.scale.cosines
    if cosines is None or scores.dense is None:
        return None
    return MEANING * cosines.relative(scores.dense) + (1 - MEANING) * (passage.share or 0.0)


GOOD = 0.55
"""Least evidence of a result that is not weak."""


def weak(passage: Passage) -> bool:
    """Return True for a result that is only just shown: it lacks words of the query and is not near to it either."""
    found = evidence(passage)
    return found is not None and found < GOOD and (passage.share or 0.0) < 1


def relevant(passage: Passage, query: str) -> bool:
    """Return False if the passage is hardly about the query: little evidence, and none of the names and identifiers in the query."""
    found = evidence(passage)
    if found is None or found >= RELEVANT:
        return True
    return bool(held(f"{passage.where} {passage.chunk_text}", naming_words(query)))
