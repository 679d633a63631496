"""Known items come first, whatever the cosines: identifiers, names, titles, rare words and quoted phrases."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from resources.core import bm25
from resources.core.domain import Access
from resources.settings import Settings
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.known import known_items, with_phrases, without
from serving.search.retrieval.passage import AskedWords, Passage
from serving.search.retrieval.query import search_query
from serving.search.retrieval.rank import rank
from serving.search.retrieval.terms import terms

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Access(email="ann@acme.example", principals=frozenset({"ann@acme.example"}))

TEXTS = {
    "wanted": "Pump PKZ-0821 was replaced by Marta Okafor in spring, and the report is filed.",
    "near": "Pump PKZ-0822 was replaced by Marta Lindqvist in autumn, and the report is filed.",
    "other": "Valve TRX-9000 was replaced by Jonas Okafor; nobody filed the report.",
    **{f"report {number}": f"The report number {number} about pumps is filed in the archive." for number in range(10)},
}
PASSAGES = {
    name: Passage(
        chunk_id=name, doc_id=name, chunk_index=0, chunk_text=text, text_hash=name, section_path=[], anchor=None,
        page_start=None, page_end=None, title="Notes", source_type="files", source_id=name, collection_id=None, path="",
        mime_type="", url=None, owner=None, tags={}, created_at=None, modified_at=None, acl_checked_at=None,
    )
    for name, text in TEXTS.items()
}  # fmt: skip


def product(query: bm25.SparseVector, document: bm25.SparseVector) -> float:
    """Return BM25 with the rarity of each term among the texts, as the index counts it."""
    weights = dict(zip(*query, strict=True))
    return sum(weights.get(index, 0) * value / HOLDERS[index] for index, value in zip(*document, strict=True))


VECTORS = dict(zip(TEXTS, bm25.encode_documents(list(TEXTS.values()), 10.0), strict=True))
HOLDERS = {
    index: sum(index in one.indices for one in VECTORS.values())
    for vector in VECTORS.values()
    for index in vector.indices
}


def order(query: str, first: str) -> list[str]:
    """Return the passages by score, where `first` is much nearer to the query by meaning than all others."""
    vector = bm25.encode_query(query)
    candidates = [
        Candidate(name, 0.9 if name == first else 0.3, keyword=product(vector, VECTORS[name])) for name in TEXTS
    ]
    wanted = search_query(query or ".", ANN, Settings(_env_file=None), limit=20)  # type: ignore[call-arg]
    asked = AskedWords(terms(query))
    return [one.chunk_id for one in rank(known_items(candidates, PASSAGES, query, asked), PASSAGES, wanted, NOW, asked)]


@pytest.mark.parametrize(
    "query",
    [
        "PKZ-0821",
        "pkz-0821",
        "What do we know about PKZ-0821?",
        "Marta Okafor",
        "Which pumps did Marta Okafor replace?",
        "spring",
    ],
)
def test_what_one_passage_holds_comes_first(query: str) -> None:
    assert order(query, "report 3")[:2] == ["wanted", "report 3"]


def test_a_near_miss_does_not_profit() -> None:
    assert order("PKZ-0821", "report 3").index("near") > 1
    assert order("PKZ-0823", "report 3")[0] == "report 3"


@pytest.mark.parametrize("query", ["Where are reports about pumps filed?", "the archive", "", "?!"])
def test_what_many_or_none_hold_changes_nothing(query: str) -> None:
    assert order(query, "report 3")[0] == "report 3"


def held(query: str, passages: dict[str, Passage] = PASSAGES) -> list[str]:
    return [one.chunk_id for one in with_phrases([Candidate(name, 0.5) for name in passages], passages, query)]


def test_quoted_phrases_must_occur_in_their_order() -> None:
    assert held('who was "replaced by Marta Okafor"') == ["wanted"]
    assert held("“REPLACED  by marta”") == ["wanted", "near"]
    assert held('"in spring, and" "is filed"') == ["wanted"]
    assert held("„replaced by marta okafor“") == held("«replaced by marta okafor»") == ["wanted"]
    assert held("„replaced by marta okafor”") == ["wanted"]
    assert held('"Okafor Marta"') == held('"arta Okafor"') == []
    assert held('"number 3 about" ""') == ["report 3"]
    assert len(held('24" or 27" of Marta, 8" x 10"')) == len(held('מה ההבדל בין צה"ל ובין ארה"ב')) == len(TEXTS)
    assert held('查找"replaced by marta okafor"文件') == held('"replaced by marta okafor"를') == ["wanted"]
    assert held('"pkz 0821"') == ["wanted"], "punctuation between words does not count"


def test_words_of_a_phrase_keep_their_vowel_signs() -> None:
    texts = {"wanted": "यह पानी बिल है", "near": "पीना बाल", "longer": "पानी बिला"}
    passages = {
        name: msgspec.structs.replace(PASSAGES["near"], chunk_id=name, chunk_text=text) for name, text in texts.items()
    }
    assert held('"पानी बिल"', passages) == ["wanted"]


def left(texts: list[str], words: list[str]) -> list[str]:
    passages = {text: msgspec.structs.replace(PASSAGES["near"], chunk_id=text, chunk_text=text) for text in texts}
    return [one.chunk_id for one in without([Candidate(text, 0.5) for text in texts], passages, words)]


def test_passages_with_excluded_words_are_left_out() -> None:
    assert left(["the draft", "DRAFTS of it", "Draft, first"], ["draft"]) == ["DRAFTS of it"]
    assert left(["STRASSE 4", "Straßen 5", "273 \u212a", "東京都"], ["straße", "k", "東京"]) == ["Straßen 5"]
    assert left(["the first  draft", "draft, first"], ["first draft", *(f"x{number}" for number in range(300))]) == [
        "draft, first"
    ]


def test_titles_and_headings_count() -> None:
    assert len(held('"Notes"')) == len(TEXTS)


def test_many_phrases_are_not_demanded() -> None:
    assert len(held('"Okafor Marta" ' * 9)) == len(TEXTS)


def test_quotation_marks_in_prose_demand_nothing() -> None:
    prose = 'I would like to know which of the older systems we used to call "what you see is what you get"'
    assert len(held(prose)) == len(TEXTS)
