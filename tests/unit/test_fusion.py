"""Fusion, boost and ranking from tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.domain import Access, text_hash
from resources.core.durations import duration
from resources.core.errors import InvalidRequestError
from resources.settings import Settings
from resources.stores.withheld import WithheldNow
from serving.search.retrieval.boost import recency
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.fuse import FUSIONS, Leg, dbsf, fuse, minmax, rrf, weighted
from serving.search.retrieval.passage import AskedWords, Passage
from serving.search.retrieval.query import search_query
from serving.search.retrieval.rank import rank
from serving.search.retrieval.registry import from_payloads
from serving.search.retrieval.terms import terms

NOW = datetime(2025, 11, 20, tzinfo=UTC)
ANN = Access(email="ann@acme.example", principals=frozenset({"ann@acme.example"}))
QUERY = search_query("ferry", ANN, Settings(_env_file=None), limit=5)  # type: ignore[call-arg]


def test_weighted_takes_cosine_and_bm25_over_its_best() -> None:
    fused = weighted(Leg({"a": 0.8, "b": 0.5}), Leg({"b": 10.0, "c": 5.0}), 0.7)
    assert fused == pytest.approx({"a": 0.56, "b": 0.35 + 0.3, "c": 0.15})


def test_weighted_uses_the_true_scores_of_the_other_legs_hits() -> None:
    fused = weighted(Leg({"a": 0.8}, {"c": 0.6}), Leg({"c": 5.0}, {"a": 1.0}), 0.7)
    assert fused == pytest.approx({"a": 0.56 + 0.06, "c": 0.42 + 0.3})


def test_weighted_without_keyword_hits_is_the_cosine_share() -> None:
    assert weighted(Leg({"a": 1.4, "b": -0.2}), Leg({}), 0.7) == pytest.approx({"a": 0.7, "b": 0.0})


def test_rrf_is_one_for_first_in_both_and_counts_ranks_alone() -> None:
    fused = rrf(Leg({"a": 0.9, "b": 0.1}), Leg({"a": 7.0, "c": 6.0}), 0.7)
    assert fused == pytest.approx({"a": 1.0, "b": 0.7 * 61 / 62, "c": 0.3 * 61 / 62})


def test_dbsf_scales_to_three_deviations() -> None:
    # scores 1 and 3: mean 2, deviation 1, bounds -1 and 5
    assert dbsf(Leg({"a": 3.0, "b": 1.0}), Leg({}), 0.7) == pytest.approx({"a": 4 / 6, "b": 2 / 6})


def test_minmax_scales_between_the_lowest_and_the_highest() -> None:
    fused = minmax(Leg({"a": 0.9, "b": 0.5}), Leg({"b": 8.0, "c": 4.0}), 0.7)
    assert fused == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.0})


@pytest.mark.parametrize("fusion", FUSIONS)
@given(
    dense=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 1), max_size=8),
    keyword=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 50), max_size=8),
    weight=st.floats(0, 1),
)
def test_every_fusion_keeps_all_hits_within_bounds_in_order(
    fusion: str, dense: dict[str, float], keyword: dict[str, float], weight: float
) -> None:
    legs = [Leg(dict(sorted(leg.items(), key=lambda pair: -pair[1]))) for leg in (dense, keyword)]
    fused = fuse("hybrid", fusion, *legs, weight)
    assert set(fused) == set(dense) | set(keyword)
    assert all(0 <= score <= 1 + 1e-9 for score in fused.values())
    assert list(fused.values()) == sorted(fused.values(), reverse=True)


def test_modes_of_one_leg_use_its_own_scores() -> None:
    dense, keyword = Leg({"a": 0.4}), Leg({"b": 8.0, "c": 2.0})
    assert fuse("vector", "rrf", dense, keyword, 0.7) == {"a": 0.4}
    assert fuse("keyword", "rrf", dense, keyword, 0.7) == {"b": 1.0, "c": 0.25}


def test_an_unknown_fusion_names_the_known_ones() -> None:
    with pytest.raises(InvalidRequestError, match="weighted, rrf, dbsf, minmax"):
        fuse("hybrid", "magic", Leg({}), Leg({}), 0.7)


@pytest.mark.parametrize(
    ("days", "factor"),
    [(0, 1.10), (6.9, 1.10), (7, 1.05), (29.9, 1.05), (30, 1.0), (4000, 1.0), (-0.9, 1.10), (-1.1, 1.0), (-4000, 1.0)],
)
def test_recency(days: float, factor: float) -> None:
    assert recency(NOW - timedelta(days=days), NOW) == factor


def test_recency_of_an_unknown_date_is_neutral() -> None:
    assert recency(None, NOW) == 1.0


def hit(chunk: str, doc: str, text: str | None = None, modified_at: datetime | None = None) -> Passage:
    return Passage(
        chunk_id=chunk, doc_id=doc, chunk_index=0, chunk_text=text or chunk, text_hash=text or chunk, section_path=[],
        anchor=None, page_start=None, page_end=None, title=doc, source_type="files", source_id=doc, collection_id=None, path="",
        mime_type="", url=None, owner=None, tags={}, created_at=None, modified_at=modified_at, acl_checked_at=None,
    )  # fmt: skip


def test_ranking_boosts_groups_collapses_and_leaves_out_what_is_not_permitted() -> None:
    candidates = [
        Candidate(name, score) for name, score in (("a1", 0.6), ("a2", 0.59), ("b1", 0.57), ("c1", 0.5), ("x", 0.9))
    ]
    hits = {
        "a1": hit("a1", "a"),
        "a2": hit("a2", "a"),
        "b1": hit("b1", "b", "same", NOW - timedelta(days=1)),
        "c1": hit("c1", "c", "same"),
    }
    shown = rank(candidates, hits, QUERY, NOW, AskedWords(terms(QUERY.text)))
    assert [(one.chunk_id, round(one.scores.order, 3)) for one in shown] == [("b1", 0.627), ("a1", 0.6)]
    assert [other.doc_id for other in shown[0].also_in] == ["c"]
    assert [
        one.chunk_id
        for one in rank(
            candidates, hits, QUERY._replace(threshold=0.6, group=False), NOW, AskedWords(terms(QUERY.text))
        )
    ] == [
        "b1",
        "a1",
    ]


def test_an_upload_collapses_with_the_same_text_elsewhere() -> None:
    one, other = "The same  text.", "The same text."
    hits = {
        "a": msgspec.structs.replace(hit("a", "a", one), text_hash=text_hash(one)),
        "b": msgspec.structs.replace(hit("b", "b", other), text_hash="names its owner", source_type="upload"),
    }
    (shown,) = rank([Candidate("a", 0.6), Candidate("b", 0.5)], hits, QUERY, NOW, AskedWords(terms(QUERY.text)))
    assert [other.doc_id for other in shown.also_in] == ["b"]


def test_scores_stay_within_one() -> None:
    shown = rank(
        [Candidate("a", 0.99)],
        {"a": hit("a", "a", None, NOW)},
        QUERY,
        NOW,
        AskedWords(terms(QUERY.text)),
    )
    assert shown[0].scores.order == 1.0


def test_payload_hits_are_held_back_by_age_and_by_rights() -> None:
    base = {"chunk_index": 0, "chunk_text": "t", "title": "T", "permissions": ["ann@acme.com"]}
    new, old = (NOW - timedelta(hours=1)).timestamp(), (NOW - timedelta(days=2)).timestamp()
    payloads = {
        "fresh": base | {"doc_id": "1", "source_type": "files", "partition": "new"},
        "stale": base | {"doc_id": "2", "source_type": "files", "partition": "old"},
        "never": base | {"doc_id": "3", "source_type": "files", "partition": "unknown"},
        "upload": base | {"doc_id": "5", "source_type": "upload", "partition": "old"},
        "other": base | {"doc_id": "4", "source_type": "files", "partition": "new", "permissions": ["bob@acme.com"]},
        "held": base | {"doc_id": "6", "source_type": "files", "partition": "new"},
        "narrowed": base | {"doc_id": "7", "source_type": "files", "partition": "new"},
        "hidden": base | {"doc_id": "8", "source_type": "files", "partition": "hidden"},
    }
    withheld = WithheldNow(
        readers={"7": frozenset({"bob@acme.com"}), "1": frozenset({"ann@acme.com"})},
        checked={"files:new": new, "files:old": old, "upload:old": old, "files:hidden": None},
        held={"6": old},
    )
    access = Access(email="ann@acme.com", principals=frozenset({"ann@acme.com"}))
    hits, held_back = from_payloads(payloads, access, NOW - duration("24h"), withheld, collection_ids=())
    assert (set(hits), held_back) == ({"fresh"}, {"2", "3", "5", "6"})
