"""Report an evaluation: measures of all queries and of the shortest and longest third, and paired comparisons.

A report in JSON holds each query's nDCG@10, so a later evaluation can be compared with it query by query.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from orchestration.evaluation.measures import Comparison, Measures, QueryScores, compare_ndcg, summarise
from resources.core.errors import InvalidRequestError

HYBRID = "hybrid"

Ndcg = Mapping[str, float]
"""nDCG@10 by query id."""


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds of sequential hybrid searches, from query embedding to grouping."""

    p50: float
    p95: float


class Compared(msgspec.Struct, frozen=True):
    """Comparison of the evaluated hybrid configuration with another one, over the queries that both have."""

    first: str
    second: str
    first_ndcg_10: float = msgspec.field(name="first_ndcg@10")
    second_ndcg_10: float = msgspec.field(name="second_ndcg@10")
    result: Comparison


class Third(msgspec.Struct, frozen=True):
    """Measures of a collection's shortest or longest queries; `words` is how many the shortest and the longest of them have."""

    queries: int
    words: tuple[int, int]
    dense: Measures
    keyword: Measures
    hybrid: Measures


class EvaluationReport(msgspec.Struct, frozen=True, omit_defaults=True):
    collection: str
    documents: int
    queries: int
    dense: Measures
    keyword: Measures
    hybrid: Measures
    latency_ms: Latency
    shortest_queries: Third | None = None
    """None if there are fewer than three queries."""
    longest_queries: Third | None = None
    compare: list[Compared] = []
    ndcg_10_by_query: dict[str, dict[str, float]] = msgspec.field(name="ndcg@10_by_query", default_factory=dict)
    """Query id → nDCG@10, for `dense`, `keyword`, `hybrid` and each compared configuration."""


class EvaluationReports(msgspec.Struct, frozen=True):
    """Several collections, and the comparisons over the queries of all of them."""

    collections: list[EvaluationReport]
    compare: list[Compared]


class _Saved(msgspec.Struct, frozen=True):
    """The part of `EvaluationReport` or `EvaluationReports` that a later evaluation reads."""

    collection: str = ""
    ndcg_10_by_query: dict[str, dict[str, float]] = msgspec.field(name="ndcg@10_by_query", default_factory=dict)
    collections: list[_Saved] = []


class Earlier(msgspec.Struct, frozen=True):
    """An earlier evaluation: nDCG@10 of its hybrid searches by collection and query id."""

    name: str
    collections: dict[str, dict[str, float]]


def thirds(texts: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the words of the shortest and of the longest third of the queries, by query id. Equal lengths keep their order."""
    words = {query: len(text.split()) for query, text in texts.items()}
    ordered = sorted(words, key=words.__getitem__)
    count = len(ordered) // 3
    shortest, longest = ordered[:count], ordered[len(ordered) - count :]
    return {query: words[query] for query in shortest}, {query: words[query] for query in longest}


def third(words: Mapping[str, int], modes: Mapping[str, Mapping[str, QueryScores]]) -> Third | None:
    """Return the measures of these queries; None without queries."""
    if not words:
        return None
    measures = {name: summarise({query: scores[query] for query in words}) for name, scores in modes.items()}
    return Third(len(words), (min(words.values()), max(words.values())), **measures)


def compared(first: str, first_ndcg: Ndcg, second: str, second_ndcg: Ndcg) -> Compared:
    """Return the comparison of two configurations. Raises `InvalidRequestError` if they have no query in common."""
    shared = [query for query in first_ndcg if query in second_ndcg]
    if not shared:
        raise InvalidRequestError(f"{second} contains none of the queries.")
    ours, theirs = (round(sum(one[query] for query in shared) / len(shared), 4) for one in (first_ndcg, second_ndcg))
    return Compared(first, second, ours, theirs, compare_ndcg(first_ndcg, second_ndcg))


def read_earlier(path: Path, collections: Collection[str]) -> Earlier:
    """Read the output of `concordance eval --json`. Raises `InvalidRequestError` if it has none of these collections."""
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidRequestError(
            f"{path}: cannot be read as the output of concordance eval --json: {error}"
        ) from error
    found = {
        one.collection: one.ndcg_10_by_query[HYBRID]
        for one in (saved.collections or [saved])
        if HYBRID in one.ndcg_10_by_query
    }
    if not found:
        raise InvalidRequestError(f"{path} contains no scores by query. Write it with concordance eval --json.")
    if found.keys().isdisjoint(collections):
        raise InvalidRequestError(f"{path}: is of other collections: {', '.join(found)}.")
    return Earlier(str(path), found)


def with_earlier(report: EvaluationReport, label: str, earlier: Sequence[Earlier]) -> EvaluationReport:
    """Return the report, compared with the earlier evaluations of its collection. `label` names its configuration."""
    now = report.ndcg_10_by_query[HYBRID]
    found = [
        compared(label, now, one.name, one.collections[report.collection])
        for one in earlier
        if report.collection in one.collections
    ]
    return msgspec.structs.replace(report, compare=[*report.compare, *found])


def together(
    reports: Sequence[EvaluationReport], label: str, others: Sequence[str], earlier: Sequence[Earlier]
) -> EvaluationReports:
    """Return the reports and the comparisons over all queries; `others` are the labels of the compared configurations."""

    def joined(collections: Mapping[str, Ndcg]) -> dict[str, float]:
        return {f"{name}/{query}": value for name, found in collections.items() for query, value in found.items()}

    now = joined({one.collection: one.ndcg_10_by_query[HYBRID] for one in reports})
    second = {other: joined({one.collection: one.ndcg_10_by_query[other] for one in reports}) for other in others}
    second |= {one.name: joined(one.collections) for one in earlier}
    return EvaluationReports(list(reports), [compared(label, now, name, found) for name, found in second.items()])
