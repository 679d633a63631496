"""Ranking measures against hand-computed values, and reading of BEIR folders with error messages."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestration.evaluation.collection import Row, parse_row, read_collection
from orchestration.evaluation.measures import QueryScores, compare, score, summarise
from orchestration.evaluation.quality import Configuration, configuration
from orchestration.evaluation.report import (
    EvaluationReport,
    Latency,
    compared,
    read_earlier,
    third,
    thirds,
    together,
    with_earlier,
)
from resources.core.errors import InvalidRequestError
from resources.settings import Settings

JUDGEMENTS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1}}


def test_a_ranking_is_worth_what_one_counts_by_hand() -> None:
    scores = score(JUDGEMENTS, {"q1": ["c", "a", "x"], "q2": ["d"]})
    first = scores["q1"]
    assert first.ndcg_10 == pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert (first.recall_10, first.recall_50, first.reciprocal_rank) == (0.5, 0.5, 0.5)
    assert scores["q2"].ndcg_10 == scores["q2"].reciprocal_rank == 1


@pytest.mark.parametrize(
    ("grades", "ranking", "ndcg_10", "recall_5", "recall_10", "recall_50", "reciprocal_rank"),
    [
        pytest.param({"a": 3, "b": 2, "c": 1, "d": 0}, "cxabd", 0.7058908628246313, 1, 1, 1, 1, id="graded"),
        pytest.param({"a": 1, "b": 1}, "xya", 0.3065735963827292, 0.5, 0.5, 0.5, 1 / 3, id="not judged"),
        pytest.param({"a": 2, "b": -1, "c": 1}, "bca", 0.6199062332840657, 1, 1, 1, 0.5, id="below 0"),
        pytest.param({"a": 0}, "ab", 0, 0, 0, 0, 0, id="no relevant document"),
        pytest.param({"a": 1, "b": 1}, "xaab", 0.6934264036172708, 1, 1, 1, 0.5, id="a document twice"),
        pytest.param({"a": 1}, "", 0, 0, 0, 0, 0, id="no results"),
        pytest.param(
            {f"d{number}": 1 + number % 2 for number in range(0, 60, 4)},
            [f"d{number}" for number in reversed(range(60))],
            0.16421958630632802, 1 / 15, 2 / 15, 0.8, 0.25,
            id="more relevant documents than ranks",
        ),
    ],
)  # fmt: skip
def test_the_measures_are_those_of_trec_eval(
    grades: dict[str, int], ranking: list[str], ndcg_10: float, recall_5: float, recall_10: float, recall_50: float,
    reciprocal_rank: float,
) -> None:  # fmt: skip
    """The values are what pytrec-eval 0.5.11 computed for these cases."""
    expected = msgspec.structs.asdict(QueryScores(ndcg_10, recall_5, recall_10, recall_50, reciprocal_rank))
    assert msgspec.structs.asdict(score({"q": grades}, {"q": ranking})["q"]) == pytest.approx(expected, abs=1e-12)


def test_the_order_counts_and_not_the_names() -> None:
    assert score(JUDGEMENTS, {"q2": ["z", "d"]})["q2"].reciprocal_rank == 0.5
    assert score({"q": {"z": 1}}, {"q": ["a", "z"]})["q"].reciprocal_rank == 0.5


def test_recall_is_cut_at_its_depth() -> None:
    ranking = [f"x{number}" for number in range(20)] + ["d"]
    found = score(JUDGEMENTS, {"q2": ranking})["q2"]
    assert (found.recall_5, found.recall_10, found.recall_50, found.ndcg_10) == (0, 0, 1, 0)


def test_a_query_without_results_counts_as_nothing_found() -> None:
    scores = score(JUDGEMENTS, {"q2": ["d"], "q1": []})
    assert list(scores) == ["q1", "q2"]
    assert summarise(scores).ndcg_10 == 0.5


def test_the_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    judgements = {f"q{number}": {"a": 1} for number in range(30)}
    rankings = {f"q{number}": ["a"] if number % 3 else ["b", "a"] for number in range(30)}
    found = summarise(score(judgements, rankings))
    low, high = found.ci95
    assert low < found.ndcg_10 < high
    assert summarise(score(judgements, rankings)) == found


@pytest.mark.parametrize("queries", [1, 5])
def test_equal_scores_have_an_interval_without_width(queries: int) -> None:
    judgements = {f"q{number}": {"a": 1} for number in range(queries)}
    assert summarise(score(judgements, {query: ["a"] for query in judgements})).ci95 == (1, 1)


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(ValueError):
        summarise({})
    with pytest.raises(ValueError):
        compare({}, {})


def test_a_clear_difference_is_distinguished_from_chance() -> None:
    judgements = {f"q{number}": {"a": 1} for number in range(40)}
    good = score(judgements, {query: ["a"] for query in judgements})
    bad = score(judgements, {query: ["b", "a"] if number < 36 else ["a"] for number, query in enumerate(judgements)})
    mixed = score(judgements, {query: ["b", "a"] if number == 0 else ["a"] for number, query in enumerate(judgements)})
    found = compare(good, bad)
    assert (found.better, found.worse) == (36, 0)
    assert found.difference > 0
    assert found.p < 0.01
    assert compare(bad, good).difference == -found.difference
    assert compare(good, mixed).p > 0.5
    assert compare(good, good).p == 1


def write(folder: Path, qrels: str = "qrels.tsv", **files: Any) -> Path:
    rows: dict[str, Any] = {
        "corpus": [{"_id": "1", "title": "Whales", "text": "They sing."}, {"_id": 2, "title": None, "text": "Boats."}],
        "queries": [{"_id": "q1", "text": "song"}, {"_id": "q2", "text": "never judged"}, {"_id": "q3", "text": "x"}],
    } | files
    folder.mkdir(exist_ok=True)
    for name in ("corpus", "queries"):
        lines = [json.dumps(row) for row in rows[name]]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n\n")
    target = folder / qrels
    target.parent.mkdir(exist_ok=True)
    target.write_text(rows.get("judged", "query-id\tcorpus-id\tscore\nq1\t1\t2\nq1\t2\t0\nq3\t2\t0\n"))
    return folder


@pytest.mark.parametrize("qrels", ["qrels.tsv", "qrels/test.tsv"])
def test_a_folder_in_beir_layout(tmp_path: Path, qrels: str) -> None:
    found = read_collection(write(tmp_path / "sea", qrels))
    assert found.name == "sea"
    assert found.documents == [Row("1", "They sing.", "Whales"), Row("2", "Boats.")]
    assert [query.id for query in found.queries] == ["q1"]  # the others have no relevant document
    assert found.judgements == {"q1": {"1": 2, "2": 0}}


def test_judgements_need_no_header(tmp_path: Path) -> None:
    assert read_collection(write(tmp_path, judged="q1\t1\t1\n")).judgements == {"q1": {"1": 1}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"judged": "q1\t1\t1\nq1\t1\n"}, "qrels.tsv, line 2"),
        ({"judged": "q1\t1\t0\n"}, "no query with a relevant document"),
        ({"corpus": [{"_id": "1"}, {"_id": "1"}]}, "line 2: duplicate _id '1'"),
        ({"corpus": [{"text": "no id"}]}, "corpus.jsonl, line 1"),
        ({"corpus": []}, "holds no documents"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        read_collection(write(tmp_path, **files))


def test_an_invalid_folder_gets_an_error_naming_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"lacks corpus\.jsonl, queries\.jsonl, qrels\.tsv"):
        read_collection(tmp_path)


def test_a_document_is_its_title_above_its_text() -> None:
    parsed = parse_row(Row("1", "One.\n\nTwo.", "  Of  whales "))
    assert parsed.text == "Of whales\n\nOne.\n\nTwo."
    assert [block.kind for block in parsed.blocks] == ["heading", "paragraph", "paragraph"]
    assert parsed.blocks[1].section_path == ("Of whales",)
    assert parse_row(Row("1")).blocks == []


def test_configurations_are_read_and_written(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, fusion="dbsf", search_depth=40, dense_weight=0.6, agreement=0.2)
    assert configuration(settings) == Configuration("hybrid", "dbsf", 40, 0.6, 0.2)
    assert configuration(settings, "rrf", depth=80).label == "rrf/80/0.6/0.2"
    assert configuration(settings, "weighted/100/0.25/0") == Configuration("hybrid", "weighted", 100, 0.25, 0)
    assert configuration(settings, "vector").label == "vector/40"
    for wrong in ("magic", "rrf/x", "rrf/50/2", "rrf/5"):
        with pytest.raises(InvalidRequestError):
            configuration(settings, wrong)


def test_shortest_and_longest_queries_are_a_third_each() -> None:
    texts = {"a": "one two three", "b": "one", "c": "one two", "d": "one  two", "e": "one two three four"}
    assert thirds(texts) == ({"b": 1}, {"e": 4})
    assert thirds(texts | {"f": "one two"}) == ({"b": 1, "c": 2}, {"a": 3, "e": 4})
    assert thirds({"a": "one", "b": "two"}) == ({}, {})


def test_a_third_has_the_measures_of_its_queries_only() -> None:
    scores = score(JUDGEMENTS, {"q1": ["c", "a", "x"], "q2": ["d"]})
    found = third({"q2": 7}, {"dense": scores, "keyword": scores, "hybrid": scores})
    assert found is not None
    assert (found.queries, found.words, found.hybrid.ndcg_10) == (1, (7, 7), 1)
    assert third({}, {}) is None


def report(collection: str, ndcg: dict[str, float]) -> EvaluationReport:
    measures = summarise({"q": QueryScores(0, 0, 0, 0, 0)})
    return EvaluationReport(
        collection=collection,
        documents=1,
        queries=len(ndcg),
        dense=measures,
        keyword=measures,
        hybrid=measures,
        latency_ms=Latency(1, 2),
        ndcg_10_by_query={"hybrid": ndcg, "rrf": dict.fromkeys(ndcg, 0.5)},
    )


def test_an_evaluation_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    before = [report("sea", {"1": 0.5, "2": 1.0}), report("land", {"1": 0.25})]
    now = [report("sea", {"1": 1.0, "2": 1.0}), report("land", {"1": 0.5}), report("air", {"1": 0.0})]
    for name, saved in (("one", before[0]), ("all", together(before, "now", [], []))):
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(saved) + b"\n")
    one, both = [read_earlier(tmp_path / f"{name}.json", ["sea"]) for name in ("one", "all")]
    with pytest.raises(InvalidRequestError, match="other collections: sea, land"):
        read_earlier(tmp_path / "all.json", ["air"])

    compared = with_earlier(now[0], "now", [one, both]).compare
    assert [(found.first, found.second, found.result.difference) for found in compared] == [
        ("now", one.name, 0.25),
        ("now", both.name, 0.25),
    ]
    assert with_earlier(now[1], "now", [one]).compare == []

    rrf, sea, all_queries = together(now, "now", ["rrf"], [one, both]).compare
    assert (rrf.second, rrf.first_ndcg_10, rrf.second_ndcg_10) == ("rrf", 0.625, 0.5)
    assert (sea.second, sea.first_ndcg_10, sea.second_ndcg_10) == (str(tmp_path / "one.json"), 1.0, 0.75)
    assert (all_queries.first_ndcg_10, all_queries.second_ndcg_10) == (0.8333, 0.5833)
    assert (all_queries.result.better, all_queries.result.worse) == (2, 0)


@pytest.mark.parametrize(
    ("content", "message"), [("not json", "cannot be read"), ('{"collection": "sea"}', "no scores by query")]
)
def test_a_file_without_scores_is_not_compared(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "old.json").write_text(content)
    with pytest.raises(InvalidRequestError, match=message):
        read_earlier(tmp_path / "old.json", ["sea"])
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        read_earlier(tmp_path / "missing.json", ["sea"])


def test_evaluations_without_a_common_query_are_not_compared() -> None:
    with pytest.raises(InvalidRequestError, match=r"old\.json contains none of the queries"):
        compared("now", {"1": 1.0}, "old.json", {"2": 1.0})
