"""Fuse the scores of the dense and the keyword leg into one score in 0..1 for each chunk.

A leg maps chunk ids to its scores, the best first; `extra` holds true scores of chunks that only the other leg found (a second,
rescoring query), so that a missing hit is not taken for a zero. Higher is better everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from resources.core.errors import InvalidRequestError

Scores = Mapping[str, float]

RRF_K = 60
"""Source: Cormack, Clarke, Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009."""
DBSF_DEVIATIONS = 3.0
"""Source: Qdrant's documentation, "Hybrid queries", distribution-based score fusion: mean plus and minus three deviations."""


class Leg(NamedTuple):
    """One leg's own hits (best first) and the true scores of the other leg's hits."""

    hits: Scores
    extra: Scores = MappingProxyType({})
    floor: float = 0.0
    """The leg's score of passages that are unrelated to the query."""

    def scores(self) -> dict[str, float]:
        """Return all scores that are known."""
        return {**self.extra, **self.hits}

    def ranks(self) -> dict[str, int]:
        """Return the rank (from 1) of each of the leg's own hits."""
        return {chunk_id: rank for rank, chunk_id in enumerate(self.hits, start=1)}


def clamp(score: float) -> float:
    """Return the score within 0..1."""
    return score if 0.0 < score < 1.0 else 1.0 if score >= 1.0 else 0.0


def _candidates(dense: Leg, keyword: Leg) -> list[str]:
    return list(dict.fromkeys([*dense.hits, *keyword.hits]))


def weighted(dense: Leg, keyword: Leg, dense_weight: float) -> dict[str, float]:
    """Return `dense_weight` of the cosine, counted from the model's floor, plus the rest of BM25 over the query's best BM25."""
    best = max(keyword.hits.values(), default=0.0)
    near, words = dense.scores(), keyword.scores()
    fused: dict[str, float] = {}
    for chunk_id in _candidates(dense, keyword):
        cosine = clamp((near.get(chunk_id, 0.0) - dense.floor) / (1 - dense.floor))
        share = clamp(words.get(chunk_id, 0.0) / best) if best > 0 else 0.0
        fused[chunk_id] = dense_weight * cosine + (1 - dense_weight) * share
    return fused


def rrf(dense: Leg, keyword: Leg, dense_weight: float) -> dict[str, float]:
    """Return weighted reciprocal ranks, scaled so that first in both legs is 1."""
    fused: dict[str, float] = {}
    for leg, weight in ((dense, dense_weight), (keyword, 1 - dense_weight)):
        for chunk_id, rank in leg.ranks().items():
            fused[chunk_id] = fused.get(chunk_id, 0.0) + weight * (RRF_K + 1) / (RRF_K + rank)
    return fused


def _scaled(score: float | None, low: float, high: float) -> float:
    if score is None:
        return 0.0
    return clamp((score - low) / (high - low)) if high > low else 1.0 if score >= high else 0.0


def _mean_of_scaled(dense: Leg, keyword: Leg, bounds: Callable[[Scores], tuple[float, float]]) -> dict[str, float]:
    scales = [(leg.scores(), *bounds(leg.hits)) for leg in (dense, keyword) if leg.hits]
    return {
        chunk_id: sum(_scaled(scores.get(chunk_id), low, high) for scores, low, high in scales) / max(1, len(scales))
        for chunk_id in _candidates(dense, keyword)
    }


def _spread(hits: Scores) -> tuple[float, float]:
    mean = sum(hits.values()) / len(hits)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in hits.values()) / len(hits))
    return mean - DBSF_DEVIATIONS * deviation, mean + DBSF_DEVIATIONS * deviation


def dbsf(dense: Leg, keyword: Leg, dense_weight: float) -> dict[str, float]:  # noqa: ARG001 (one signature for all fusions)
    """Return the mean of both legs' scores, each scaled to its mean plus and minus three deviations."""
    return _mean_of_scaled(dense, keyword, _spread)


def minmax(dense: Leg, keyword: Leg, dense_weight: float) -> dict[str, float]:  # noqa: ARG001 (one signature for all fusions)
    """Return the mean of both legs' scores, each scaled between its lowest and its highest hit."""
    return _mean_of_scaled(dense, keyword, lambda hits: (min(hits.values()), max(hits.values())))


FUSIONS: Mapping[str, Callable[[Leg, Leg, float], dict[str, float]]] = {
    "weighted": weighted,
    "rrf": rrf,
    "dbsf": dbsf,
    "minmax": minmax,
}


def fuse(mode: str, fusion: str, dense: Leg, keyword: Leg, dense_weight: float) -> dict[str, float]:
    """Return a score in 0..1 a chunk, best first, ties by chunk id. A mode of one leg uses that leg's own scores.

    Raises `InvalidRequestError` for a fusion that does not exist.
    """
    if fusion not in FUSIONS:
        raise InvalidRequestError(f"fusion: there is no fusion {fusion!r}; choose one of {', '.join(FUSIONS)}.")
    if mode == "vector":
        scores = {chunk_id: clamp(score) for chunk_id, score in dense.hits.items()}
    elif mode == "keyword":
        best = max(keyword.hits.values(), default=0.0)
        scores = {chunk_id: clamp(score / best) if best > 0 else 0.0 for chunk_id, score in keyword.hits.items()}
    else:
        scores = FUSIONS[fusion](dense, keyword, dense_weight)
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))
