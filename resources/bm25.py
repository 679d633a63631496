"""BM25 for the keyword leg: texts enter, sparse vectors leave, with the token ids and the formula of a Qdrant server.

A document's vector holds the term-frequency half of BM25, a query's the counts of its terms; Qdrant multiplies by
IDF, which it counts over the collection (the sparse vector there is declared with `modifier: idf`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from qdrant_edge import Bm25, Bm25Config

K1 = 1.2
"""Saturation of term frequency. Source: Robertson & Zaragoza, The Probabilistic Relevance Framework (2009), section
3.4; Qdrant's default.
"""
B = 0.75
"""Weight of the length normalisation. Source: as `K1`."""

_FULL_COUNT = 1e9
"""With `k` this large and `b` 0, BM25's term frequency tf·(k+1)/(tf+k) is the plain count, to six digits."""


class SparseVector(NamedTuple):
    """Indices ascending and unique, with one value each; both empty for a text of stopwords."""

    indices: list[int]
    values: list[float]


@cache
def _documents(avg_len: float) -> Bm25:
    return Bm25(Bm25Config(k=K1, b=B, avg_len=avg_len))


@cache
def _counter() -> Bm25:
    return Bm25(Bm25Config(k=_FULL_COUNT, b=0.0, avg_len=1.0))


def encode_documents(texts: Sequence[str], avg_len: float) -> list[SparseVector]:
    """Return one vector a text, in order.

    `avg_len` is the corpus's mean length as `mean_length` counts it, and must be the same for all of a collection.
    Raises `ValueError` if it is not positive.
    """
    model = _documents(float(avg_len))
    return [SparseVector(vector.indices, vector.values) for vector in map(model.embed_document, texts)]


def encode_query(text: str) -> SparseVector:
    """Return the query's terms weighted by how often each occurs: a term said twice counts twice."""
    counts = _counter().embed_document(text)
    return SparseVector(counts.indices, [float(round(value)) for value in counts.values])


def mean_length(texts: Sequence[str]) -> float:
    """Return the mean number of terms in a text (stopwords left out, as in the vectors), at least 1."""
    if not texts:
        return 1.0
    counter = _counter()
    total = sum(round(sum(counter.embed_document(text).values)) for text in texts)
    return max(1.0, total / len(texts))
