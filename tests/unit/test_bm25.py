"""The sparse vectors are BM25: the formula, the counts of a query, and one way of counting length."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.bm25 import K1, B, encode_documents, encode_query, mean_length

TERMS = ["fox", "dog", "survey", "budget", "marine"]
"""Words that stemming leaves alone."""
texts = st.lists(st.sampled_from(TERMS), min_size=1, max_size=60)


@given(document=texts, query=texts, avg_len=st.floats(1, 500))
def test_dot_product_is_bm25_without_idf(document: list[str], query: list[str], avg_len: float) -> None:
    counts, asked = Counter(document), Counter(query)
    norm = K1 * (1 - B + B * len(document) / avg_len)
    expected = sum(asked[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in asked)
    stored = encode_documents([" ".join(document)], avg_len)[0]
    weights = dict(zip(*encode_query(" ".join(query)), strict=True))
    score = sum(weights.get(index, 0) * value for index, value in zip(*stored, strict=True))
    assert score == pytest.approx(expected, rel=1e-4)


@given(query=texts)
def test_a_query_keeps_the_count_of_each_term(query: list[str]) -> None:
    vector = encode_query(" ".join(query))
    assert sorted(vector.values) == sorted(Counter(query).values())
    assert vector.indices == sorted(set(vector.indices))


def test_very_long_queries_keep_exact_counts() -> None:
    assert encode_query("fox " * 3000 + "dog").values in ([3000.0, 1.0], [1.0, 3000.0])


def test_forms_of_a_word_are_one_term_and_stopwords_none() -> None:
    assert encode_query("the surveys").indices == encode_query("SURVEY").indices
    assert encode_query("the of and") == ([], [])
    assert encode_documents([""], 10) == [([], [])]


def test_mean_length_counts_what_the_vectors_count() -> None:
    assert mean_length(["the fox and the dog", "fox"]) == 1.5
    assert mean_length([]) == 1.0
    average = mean_length(["fox dog budget"] * 4)
    assert encode_documents(["fox dog budget"], average)[0].values == pytest.approx([1.0] * 3)


def test_the_average_must_be_positive() -> None:
    with pytest.raises(ValueError):
        encode_documents(["fox"], 0)
