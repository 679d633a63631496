"""The 95th percentile of search times over the last minutes, from the histogram of `/metrics`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from serving.http.metrics_sum import MetricFamily

WINDOW_SECONDS = 600.0
QUANTILE = 0.95
LATENCY = "rag_search_latency_ms"


class RecentLatency:
    """Remembers the histogram as it was during the window."""

    def __init__(
        self, families: Callable[[], Sequence[MetricFamily]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._families = families
        self._clock = clock
        self._seen: deque[tuple[float, Mapping[float, float]]] = deque()

    def percentile(self) -> float | None:
        """Look at the histogram and return the percentile in ms; None if nothing was searched during the window."""
        now, buckets = self._clock(), _buckets(self._families())
        self._seen.append((now, buckets))
        while len(self._seen) > 1 and self._seen[1][0] <= now - WINDOW_SECONDS:
            self._seen.popleft()
        earlier = self._seen[0][1]
        return quantile({bound: count - earlier.get(bound, 0.0) for bound, count in buckets.items()})


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


def _buckets(families: Sequence[MetricFamily]) -> dict[float, float]:
    return {
        float(dict(sample.labels)["le"]): sample.value
        for family in families
        if family.name == LATENCY
        for sample in family.samples
        if sample.name == f"{LATENCY}_bucket"
    }
