"""Nothing in an answer depends on documents hidden from the caller: two installations that differ only in these answer Eve alike."""

from __future__ import annotations

import pytest

from tests.fixtures.twins import SECRET_TEXT, WORDS, Twins

QUERIES = (*WORDS, "heron salary", "ferry budget of the harbour", "layoff of the heron team", SECRET_TEXT)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_no_score_tells_how_many_hidden_documents_hold_a_word(twins: Twins, mode: str) -> None:
    for query in QUERIES:
        for fusion in ("weighted", "rrf", "dbsf", "minmax") if mode == "hybrid" else ("weighted",):
            body = {"query": query, "mode": mode, "fusion": fusion, "top_k": 50, "explain": True}
            twins.ask("POST", "/api/rag/search", json=body)


def test_a_threshold_finds_the_same_whatever_is_hidden(twins: Twins) -> None:
    for query in QUERIES:
        for step in range(1, 20):
            body = {"query": query, "mode": "keyword", "top_k": 50, "threshold": step / 20}
            plain, _ = twins.ask("POST", "/api/rag/search", json=body)
            assert all(one["relevance_score"] >= step / 20 for one in plain.json()["results"])
