"""Scores that are shown: they follow from the query and the passage, never from an engine's keyword score."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from resources.core.domain import Access
from resources.embedding.background import CosineScale
from resources.settings import Settings
from serving.search.results import Result, results
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.passage import K1, USUAL_CHARACTERS, AskedWords, B, Passage, Scale
from serving.search.retrieval.query import search_query
from serving.search.retrieval.rank import rank
from serving.search.retrieval.terms import terms

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Access(email="ann@acme.example", principals=frozenset({"ann@acme.example"}))
PASSAGE = Passage(
    chunk_id="c", doc_id="d", chunk_index=0, chunk_text="The ferry leaves the pier.", text_hash="h", section_path=["Boats"],
    anchor=None, page_start=None, page_end=None, title="Timetable", source_type="files", source_id="s", collection_id=None,
    path="", mime_type="", url=None, owner=None, tags={}, created_at=None, modified_at=None, acl_checked_at=None,
)  # fmt: skip


ONCE = 1 / (1 + K1 * (1 - B + B * len(PASSAGE.chunk_text) / USUAL_CHARACTERS))
"""Frequency of a word that occurs once."""


def shown(query: str, mode: str, *candidates: Candidate, threshold: float | None = None) -> list[Result]:
    search = search_query(query, ANN, Settings(_env_file=None), limit=5, mode=mode, threshold=threshold, group=False)  # type: ignore[call-arg]
    readable = {
        one.chunk_id: msgspec.structs.replace(PASSAGE, chunk_id=one.chunk_id, text_hash=one.chunk_id)
        for one in candidates
    }
    scale = Scale.of(search._replace(dense_weight=0.7), candidates, CosineScale(0.1, 0.5))
    passages = rank(candidates, readable, search, NOW, AskedWords(terms(query)), scale)
    return results(passages, style="inline", base_url="", now=NOW, explain=True)


@pytest.mark.parametrize(("bm25", "fused"), [(0.1, 0.2), (14.0, 0.9)])
@pytest.mark.parametrize(
    ("query", "mode", "score"),
    [
        ("ferry pier", "keyword", 0.5 + 0.4 * ONCE),
        ("ferry budget", "keyword", 0.25 + 0.2 * ONCE),
        ("boats of the timetable", "keyword", 0.5 + 0.4 * ONCE),
        ("ferry budget", "hybrid", 0.7 * (0.46 - 0.1) / 0.9 + 0.3 * 0.5),
        ("???", "hybrid", 0.7 * (0.46 - 0.1) / 0.9),
    ],
)
def test_an_engines_keyword_score_changes_no_figure(
    query: str, mode: str, score: float, bm25: float, fused: float
) -> None:
    cosine = None if mode == "keyword" else 0.46
    (one,) = shown(query, mode, Candidate("a", fused, cosine, 7, bm25, 3))
    assert one.relevance_score == pytest.approx(score, abs=1e-6)
    assert not isinstance(one.explain, msgspec.UnsetType)
    assert (one.explain.dense_rank, one.explain.fused_score) == (None if cosine is None else 1, one.relevance_score)


def by_words(query: str, text: str, **fields: Any) -> float:
    """Return the score of a passage in mode `keyword`."""
    search = search_query(query, ANN, Settings(_env_file=None), limit=5, mode="keyword")  # type: ignore[call-arg]
    candidate = Candidate("c", 1.0, None, None, 9.0, 1)
    passage = msgspec.structs.replace(PASSAGE, chunk_text=text, **fields)
    scale = Scale.of(search, [candidate], None)
    (found,) = rank([candidate], {"c": passage}, search, NOW, AskedWords(terms(query)), scale)
    return found.relevance


def test_of_passages_with_all_words_those_that_hold_them_more_often_and_are_shorter_score_higher() -> None:
    filler = " Nothing else is said here of anything."
    texts = [
        "Ferry pier, ferry pier, ferry pier.",
        "Ferry pier.",
        "Ferry pier." + filler * 10,
        "Ferry pier." + filler * 40,
        "Ferry." + filler,
        "Nothing.",
    ]
    scores = [by_words("ferry pier", text) for text in texts]
    assert scores == sorted(set(scores), reverse=True)
    assert 0.9 > scores[0] > scores[3] > 0.5 > scores[4] > scores[5] == 0


def test_recent_passages_differ_too() -> None:
    recent = {"modified_at": NOW}
    scores = [by_words("ferry pier", "Ferry pier. " * count + "x" * 200, **recent) for count in (1, 2, 3)]
    assert scores == sorted(set(scores))
    assert scores[-1] < 1


def test_the_order_is_that_of_the_ranking_and_the_threshold_holds_against_what_is_shown() -> None:
    candidates = [Candidate("a", 0.9, 0.3, 2, 9.0, 1), Candidate("b", 0.4, 0.8, 1, 2.0, 2)]
    first, second = shown("ferry", "hybrid", *candidates)
    assert first.relevance_score < second.relevance_score
    assert [one.explain.dense_rank for one in (first, second) if one.explain] == [2, 1]
    for threshold in (first.relevance_score, first.relevance_score + 1e-6):
        found = shown("ferry", "hybrid", *candidates, threshold=threshold)
        assert len(found) == (2 if threshold == first.relevance_score else 1)


def test_meaning_alone_shows_the_cosine_and_words_alone_stand_in_for_it() -> None:
    (by_meaning,) = shown("ferry budget", "vector", Candidate("a", 0.46, 0.46, 1))
    (by_words,) = shown("ferry budget", "vector", Candidate("a", 0.97, None, None, 8.0, 1))
    assert by_meaning.relevance_score == 0.46
    assert by_words.relevance_score == pytest.approx(0.25 + 0.2 * ONCE, abs=1e-6)


def test_the_parts_of_an_expanded_search_by_meaning_name_what_the_added_texts_change() -> None:
    (one,) = shown("ferry", "vector", Candidate("a", 0.61, 0.46, 1))
    assert one.explain
    assert one.explain.parts == {"dense": 0.46, "expansion": 0.15}
    assert one.relevance_score == 0.61
