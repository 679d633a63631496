"""The 95th percentile of search times, and shares of what failed, over the last minutes, from the figures of `/metrics`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from serving.http.metrics_sum import MetricFamily

WINDOW_SECONDS = 600.0
QUANTILE = 0.95
LATENCY = "rag_search_latency_ms"
PROBED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are asked by machines, however many people use the service."""
FEW_REQUESTS, FEW_ANSWERS = 20, 5

T = TypeVar("T", float, str)


class _Window(Generic[T]):
    """Remembers counts as they were during the window."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, Mapping[T, float]]] = deque()

    def rise(self, counts: Mapping[T, float]) -> dict[T, float]:
        """Return by how much each count rose during the window, given what they are now."""
        now = self._clock()
        self._seen.append((now, counts))
        while len(self._seen) > 1 and self._seen[1][0] <= now - WINDOW_SECONDS:
            self._seen.popleft()
        earlier = self._seen[0][1]
        return {name: count - earlier.get(name, 0.0) for name, count in counts.items()}


class RecentLatency:
    """The histogram of searches."""

    def __init__(
        self, families: Callable[[], Sequence[MetricFamily]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._families = families
        self._window = _Window[float](clock)

    def percentile(self) -> float | None:
        """Look at the histogram and return the percentile in ms; None if nothing was searched during the window."""
        return quantile(self._window.rise(_buckets(self._families())))


class RecentShare:
    """The share of what failed: `count` returns, of the figures, how many failed and how many there were."""

    def __init__(
        self,
        families: Callable[[], Sequence[MetricFamily]],
        count: Callable[[Sequence[MetricFamily]], Mapping[str, float]],
        few: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With fewer than `few` during the window, the share that fails is not meaningful."""
        self._families = families
        self._count = count
        self._few = few
        self._window = _Window[str](clock)

    def share(self) -> float | None:
        """Look at the counts and return the share that failed; None if there were few during the window."""
        risen = self._window.rise(self._count(self._families()))
        return risen["failed"] / risen["all"] if risen["all"] >= self._few else None


def requests(families: Sequence[MetricFamily]) -> Mapping[str, float]:
    """Return the number of requests, and of those answered with 5xx."""
    counts = {"failed": 0.0, "all": 0.0}
    for labels, count in _samples(families, "http_requests"):
        if labels["route"] not in PROBED:
            counts["failed"] += count * labels["status"].startswith("5")
            counts["all"] += count
    return counts


def model_answers(families: Sequence[MetricFamily]) -> Mapping[str, float]:
    """Return the number of answers that the language model was asked for, and of those that it did not write."""
    failed = sum(count for _, count in _samples(families, "llm_failures"))
    written = sum(
        count
        for labels, count in _samples(families, "rag_answers")
        if (labels["mode"], labels["cached"]) == ("model", "false")
    )
    return {"failed": failed, "all": failed + written}


def quantile(buckets: Mapping[float, float]) -> float | None:
    """Return the percentile of cumulative counts by upper bound, interpolated as Prometheus does; None without any.

    Source: https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank, below, counted = QUANTILE * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if math.isinf(bound):
                return below
            return below + (bound - below) * (rank - counted) / (buckets[bound] - counted)
        below, counted = bound, buckets[bound]
    return below


def _samples(families: Sequence[MetricFamily], counter: str) -> Iterator[tuple[dict[str, str], float]]:
    for family in families:
        if family.name == counter:
            for sample in family.samples:
                if sample.name == f"{counter}_total":
                    yield dict(sample.labels), sample.value


def _buckets(families: Sequence[MetricFamily]) -> dict[float, float]:
    return {
        float(dict(sample.labels)["le"]): sample.value
        for family in families
        if family.name == LATENCY
        for sample in family.samples
        if sample.name == f"{LATENCY}_bucket"
    }
