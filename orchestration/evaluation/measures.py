"""Compute nDCG, recall and reciprocal rank with confidence intervals, and compare two configurations.

The measures come from trec_eval (through ir-measures) and the statistics from SciPy; no formula is implemented here. A ranking is
a list of document ids, best first; judgements map query id → document id → grade (above 0 is relevant).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]

RESAMPLES = 9999
"""Source: Davison & Hinkley, Bootstrap Methods and their Application (1997), section 4.2.2: 999 or more; B+1 divides the levels."""
CONFIDENCE = 0.95
SEED = 20_251_120
"""Fixed, so that the same rankings give the same intervals."""


class QueryScores(msgspec.Struct, frozen=True):
    """Scores of one query's ranking, each between 0 and 1."""

    ndcg_10: float
    recall_5: float
    recall_10: float
    recall_50: float
    reciprocal_rank: float


class Measures(
    msgspec.Struct, frozen=True, rename={"ndcg_10": "ndcg@10", "recall_10": "recall@10", "recall_50": "recall@50"}
):
    """Means over queries, and the 95 % confidence interval of the mean nDCG@10."""

    ndcg_10: float
    recall_10: float
    recall_50: float
    mrr: float
    ci95: tuple[float, float]


class Comparison(msgspec.Struct, frozen=True):
    """Difference between two configurations' nDCG@10 on the same queries."""

    difference: float
    """Mean of first minus second; positive when the first is better."""
    ci95: tuple[float, float]
    p: float
    """Two-sided p-value: how often randomly swapping the two on each query makes a difference at least this large."""
    better: int
    """Queries on which the first configuration is better; the rest are worse or equal."""
    worse: int


def score(judgements: Judgements, rankings: Rankings) -> dict[str, QueryScores]:
    """Return each judged query's scores, in the order of the judgements; a query without a ranking scores 0."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    library: Any = ir_measures  # its types are incomplete

    measures = {
        nDCG @ 10: "ndcg_10", R @ 5: "recall_5", R @ 10: "recall_10", R @ 50: "recall_50", RR: "reciprocal_rank"
    }  # fmt: skip
    # trec_eval sorts by score and breaks ties by name: descending numbers preserve the ranking
    run = {
        query: {doc: -float(rank) for rank, doc in enumerate(dict.fromkeys(docs))} for query, docs in rankings.items()
    }
    qrels = {query: dict(grades) for query, grades in judgements.items()}
    values = {query: dict.fromkeys(QueryScores.__struct_fields__, 0.0) for query in judgements}
    for metric in library.iter_calc(list(measures), qrels, {query: docs for query, docs in run.items() if docs}):
        values[metric.query_id][measures[metric.measure]] = float(metric.value)
    return {query: QueryScores(**found) for query, found in values.items()}


def summarise(scores: Mapping[str, QueryScores]) -> Measures:
    """Return the means and the interval. Raises `ValueError` if there are no queries."""
    if not scores:
        raise ValueError("no judged queries to measure")
    ndcg = np.array([one.ndcg_10 for one in scores.values()])
    return Measures(
        ndcg_10=_rounded(ndcg.mean()),
        recall_10=_rounded(np.mean([one.recall_10 for one in scores.values()])),
        recall_50=_rounded(np.mean([one.recall_50 for one in scores.values()])),
        mrr=_rounded(np.mean([one.reciprocal_rank for one in scores.values()])),
        ci95=_interval(ndcg),
    )


def compare(first: Mapping[str, QueryScores], second: Mapping[str, QueryScores]) -> Comparison:
    """Return the paired comparison of nDCG@10 over the queries that both have. Raises `ValueError` if there are none."""
    return compare_ndcg(ndcg(first), ndcg(second))


def ndcg(scores: Mapping[str, QueryScores]) -> dict[str, float]:
    """Return each query's nDCG@10."""
    return {query: one.ndcg_10 for query, one in scores.items()}


def compare_ndcg(first: Mapping[str, float], second: Mapping[str, float]) -> Comparison:
    """Compare as `compare` does, given each query's nDCG@10."""
    shared = [query for query in first if query in second]
    if not shared:
        raise ValueError("the two configurations have no query in common")
    differences = np.array([first[query] - second[query] for query in shared])
    return Comparison(
        difference=_rounded(differences.mean()),
        ci95=_interval(differences),
        p=_chance(differences),
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the bootstrap interval of the mean; the mean twice if all values are equal or there is only one."""
    if len(values) < 2 or np.ptp(values) == 0:
        return _rounded(values.mean()), _rounded(values.mean())
    from scipy import stats

    library: Any = stats  # has no types
    found = library.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return _rounded(found.low), _rounded(found.high)


def _chance(differences: NDArray[np.float64]) -> float:
    """Return the p-value of the paired randomisation test (signs of the differences flipped at random).

    Source: Smucker, Allan, Carterette, "A Comparison of Statistical Significance Tests for Information Retrieval Evaluation",
    CIKM 2007.
    """
    if not differences.any():
        return 1.0
    from scipy import stats

    library: Any = stats  # has no types
    found = library.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, vectorized=True,
        rng=np.random.default_rng(SEED),
    )  # fmt: skip
    chance: NDArray[np.float64] = found.pvalue
    return _rounded(np.mean(chance))


def _rounded(value: float | np.floating) -> float:
    return round(float(value), 4)
