"""Queries made from examples: nearest, recommend, discover, context and relevance feedback.

An example is a vector or the id of a point whose vector is fetched first.
Source: https://qdrant.tech/documentation/concepts/explore/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import qdrant_edge as edge

from resources.servers.vector.faults import bad_request, format_error
from resources.servers.vector.vectors import Dense, PointId, Sparse, check_id, to_sparse

VectorInput = Dense | int | str | dict[str, Any]
Resolver = Callable[[PointId], Any]


class Recommend(msgspec.Struct, forbid_unknown_fields=True):
    """Positive and negative examples."""

    positive: list[VectorInput] | None = None
    negative: list[VectorInput] | None = None
    strategy: str | None = None


class Context(msgspec.Struct, forbid_unknown_fields=True):
    """One pair that splits the space."""

    positive: VectorInput
    negative: VectorInput


class Discover(msgspec.Struct, forbid_unknown_fields=True):
    """Points near the target, on the positive side of the pairs."""

    target: VectorInput
    context: list[Context] | Context | None = None


class FeedbackItem(msgspec.Struct, forbid_unknown_fields=True):
    """An example with its feedback score."""

    example: VectorInput
    score: float


class Naive(msgspec.Struct, forbid_unknown_fields=True):
    """Coefficients of the naive strategy."""

    a: float
    b: float
    c: float


class Strategy(msgspec.Struct, forbid_unknown_fields=True):
    """The strategy; there is only one."""

    naive: Naive


class Feedback(msgspec.Struct, forbid_unknown_fields=True):
    """A target corrected by scored examples."""

    target: VectorInput
    feedback: list[FeedbackItem]
    strategy: Strategy


class Examples:
    """Turns examples into the engine's queries and records the ids used (`seen`)."""

    def __init__(self, resolve: Resolver, using: str) -> None:
        self._resolve = resolve
        self.using = using
        self.seen: set[PointId] = set()

    def vector(self, example: VectorInput) -> Any:
        """Return the vector itself, or that of the point with this id."""
        if isinstance(example, int | str):
            point_id = check_id(example)
            vector = self._resolve(point_id)
            self.seen.add(point_id)
            return vector
        if isinstance(example, dict):
            if "indices" not in example:
                raise bad_request("inference (document, image, object) is not served here: send vectors")
            return to_sparse(msgspec.convert(example, Sparse))
        return example

    def nearest(self, example: VectorInput) -> Any:
        """Build a nearest-neighbour query."""
        return edge.Query.Nearest(self.vector(example), self.using)

    def recommend(self, body: Recommend) -> Any:
        """Build a recommendation by the average vector (default), the best score or the sum of scores."""
        positive = [self.vector(example) for example in body.positive or ()]
        negative = [self.vector(example) for example in body.negative or ()]
        strategy = body.strategy or "average_vector"
        if strategy == "average_vector":
            return edge.Query.Nearest(_average(positive, negative), self.using)
        kinds = {"best_score": edge.Query.RecommendBestScore, "sum_scores": edge.Query.RecommendSumScores}
        if strategy not in kinds:
            raise format_error(f"unknown strategy {strategy}, expected average_vector, best_score or sum_scores")
        if not positive and not negative:
            raise bad_request("At least one positive or negative vector ID required")
        return kinds[strategy](edge.RecommendQuery(positive, negative), self.using)

    def discover(self, body: Discover) -> Any:
        """Build a discovery query: near a target, constrained by pairs."""
        return edge.Query.Discover(edge.DiscoverQuery(self.vector(body.target), self._pairs(body.context)), self.using)

    def context(self, body: list[Context] | Context) -> Any:
        """Build a context query: by pairs only."""
        return edge.Query.Context(edge.ContextQuery(self._pairs(body)), self.using)

    def feedback(self, body: Feedback) -> Any:
        """Build a relevance feedback query: by a target and scored examples."""
        items = [edge.FeedbackItem(self.vector(item.example), item.score) for item in body.feedback]
        naive = body.strategy.naive
        strategy = edge.NaiveFeedbackStrategy(naive.a, naive.b, naive.c)
        return edge.Query.FeedbackNaive(edge.FeedbackNaiveQuery(self.vector(body.target), items, strategy), self.using)

    def _pairs(self, pairs: list[Context] | Context | None) -> list[edge.ContextPair]:
        given = [] if pairs is None else pairs if isinstance(pairs, list) else [pairs]
        return [edge.ContextPair(self.vector(pair.positive), self.vector(pair.negative)) for pair in given]


def _average(positive: Sequence[Any], negative: Sequence[Any]) -> list[float]:
    """Return avg(+) if there are only positives, otherwise 2·avg(+) - avg(-), as Qdrant computes it."""
    if not positive:
        raise bad_request("At least one positive vector ID required with strategy average_vector")
    if any(
        isinstance(vector, edge.SparseVector) or (vector and isinstance(vector[0], list))
        for vector in (*positive, *negative)
    ):
        raise bad_request(
            "strategy average_vector is served for dense vectors: use best_score or sum_scores for others"
        )
    lengths = {len(vector) for vector in (*positive, *negative)}
    if len(lengths) > 1:
        raise bad_request("the examples have different dimensions")
    average = np.mean(np.asarray(positive, dtype=np.float32), axis=0)
    if negative:
        average = average + average - np.mean(np.asarray(negative, dtype=np.float32), axis=0)
    return average.tolist()
