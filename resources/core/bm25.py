"""BM25 sparse vectors for keyword search, with the same token IDs and formula as a Qdrant server.

A document's vector holds the term-frequency half of BM25 and a query's the counts of its terms; Qdrant multiplies by
IDF, which it counts over the collection (the sparse vector is declared with `modifier: idf`).

A word is indexed as its stem and, where that differs, also as written: a query for "surveys" finds "surveying" too,
but ranks "surveys" first. The weight of the written form is applied to the query, so it can change without a reindex.

An identifier is indexed whole besides its parts: PKZ-0821 is three terms, of which PKZ-0822 shares one.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer

K1 = 1.2
"""Saturation of term frequency. Source: Robertson & Zaragoza, The Probabilistic Relevance Framework (2009), section
3.4; Qdrant's default.
"""
B = 0.75
"""Weight of the length normalisation. Source: same as `K1`."""

FORM = 0.5
"""Weight of a word's written form relative to its stem; 0.2 to 1 all raise the mean nDCG@10 of three collections by 0.004-0.008."""

VERSION = "w3"
"""Version of the keyword vectors; raise it whenever a text may get another vector. The next sync rebuilds them without embedding."""

_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]++(?:[-_./\\:@#+&]++[^\W_]++)+")
"""Begins at a word and never steps back, or a long word without a joint would take quadratic time."""
_JOINTS = re.compile(r"[\W_]+")
_SPECIFIC = re.compile(r"[\d_@.]")
"""What tells an identifier from a hyphenated word."""
_BOND = "\u01c0"
"""Joins an identifier's parts. The tokenizer takes it for a letter, and texts hardly contain it."""

_FULL_COUNT = 1e9
"""With `k` this large and `b` 0, BM25's term frequency tf·(k+1)/(tf+k) is the plain count, to six digits."""


class SparseVector(NamedTuple):
    """Indices (ascending, unique) with one value each; both empty for a text of stopwords only."""

    indices: list[int]
    values: list[float]


class _Words(NamedTuple):
    """Two tokenizations of a text, by stem and as written, with equally many terms. A word that equals its stem has the same ID in both."""

    stems: Bm25
    forms: Bm25


def _words(k: float, b: float, avg_len: float) -> _Words:
    plain = Bm25Config(k=k, b=b, avg_len=avg_len, stemmer=DisabledStemmer())
    return _Words(Bm25(Bm25Config(k=k, b=b, avg_len=avg_len)), Bm25(plain))


@cache
def _documents(avg_len: float) -> _Words:
    return _words(K1, B, avg_len)


@cache
def _counter() -> _Words:
    return _words(_FULL_COUNT, 0.0, 1.0)


def with_identifiers(text: str) -> str:
    """Return the text followed by each identifier in it as one word."""
    found = [one for one in _COMPOUND.findall(text) if _SPECIFIC.search(one)]
    return f"{text} {' '.join(_JOINTS.sub(_BOND, one) for one in found)}" if found else text


def _counts(text: str, reader: Bm25) -> dict[int, float]:
    found = reader.embed_document(text)
    return {index: float(round(value)) for index, value in zip(found.indices, found.values, strict=True)}


def _vector(values: dict[int, float]) -> SparseVector:
    indices = sorted(values)
    return SparseVector(indices, [values[index] for index in indices])


def encode_documents(texts: Sequence[str], avg_len: float) -> list[SparseVector]:
    """Return one vector per text, in order.

    `avg_len` is the corpus's mean length as `mean_length` counts it, and must be the same for the whole collection.
    Raises `ValueError` if it is not positive.
    """
    model = _documents(float(avg_len))
    return [_document(with_identifiers(text), model) for text in texts]


def _document(text: str, model: _Words) -> SparseVector:
    stems, forms = model.stems.embed_document(text), model.forms.embed_document(text)
    values = dict(zip(forms.indices, forms.values, strict=True))
    return _vector(values | dict(zip(stems.indices, stems.values, strict=True)))


def encode_query(text: str) -> SparseVector:
    """Return the query's terms weighted by how often each occurs, and their written forms by `FORM` of that."""
    counter, text = _counter(), with_identifiers(text)
    values = _counts(text, counter.stems)
    for index, count in _counts(text, counter.forms).items():
        values[index] = values.get(index, 0.0) + FORM * count
    return _vector(values)


def mean_length(texts: Sequence[str]) -> float:
    """Return the mean number of words in a text (without stopwords, as in the vectors), at least 1."""
    if not texts:
        return 1.0
    counter = _counter()
    return max(1.0, sum(sum(_counts(with_identifiers(text), counter.stems).values()) for text in texts) / len(texts))
