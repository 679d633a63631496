"""Compute nDCG, recall and reciprocal rank with confidence intervals, and compare two configurations.

The measures are those of trec_eval (`ndcg_cut`, `recall`, `recip_rank`), and the statistics come from SciPy. A ranking is a list of
document ids, best first; judgements map query id → document id → grade (above 0 is relevant, not judged is not relevant).
"""

import math
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
    return {
        query: _scores(grades, list(dict.fromkeys(rankings.get(query, ())))) for query, grades in judgements.items()
    }


def _scores(grades: Mapping[str, int], ranking: Sequence[str]) -> QueryScores:
    gains = [max(0, grades.get(doc, 0)) for doc in ranking]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    if not ideal:
        return QueryScores(0.0, 0.0, 0.0, 0.0, 0.0)
    found = [position for position, gain in enumerate(gains, start=1) if gain]
    return QueryScores(
        ndcg_10=_discounted(gains[:10]) / _discounted(ideal[:10]),
        recall_5=sum(position <= 5 for position in found) / len(ideal),
        recall_10=sum(position <= 10 for position in found) / len(ideal),
        recall_50=sum(position <= 50 for position in found) / len(ideal),
        reciprocal_rank=1 / found[0] if found else 0.0,
    )


def _discounted(gains: Sequence[int]) -> float:
    """Return the discounted cumulative gain.

    Source: Järvelin & Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques" (2002), with the discount of trec_eval's
    m_ndcg_cut.c: the logarithm to base 2 of the rank + 1.
    """
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


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
