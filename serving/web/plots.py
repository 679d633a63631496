"""Plots as numbers: bars scaled to a height, for the templates, which draw them as SVG next to their figures in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from serving.http.metrics import SEARCHES
from serving.http.metrics_sum import MetricFamily

HEIGHT, STEP, GAP = 36.0, 8, 2
LEAST = 1.5
"""Height of a bar for nothing, so that it can be seen."""


class Bar(NamedTuple):
    """A bar of a plot, and what its tooltip says."""

    x: float
    y: float
    height: float
    title: str
    bad: bool


class Plot(NamedTuple):
    """Bars from left to right; `summary` says the same in words."""

    bars: Sequence[Bar]
    summary: str

    @property
    def width(self) -> int:
        return max(1, len(self.bars) * STEP - GAP)


class Point(NamedTuple):
    """A value of a plot."""

    value: float
    title: str
    bad: bool = False


class Searches(NamedTuple):
    """Searches since the service started."""

    total: int
    cached: float
    """Share that was answered from the cache, 0 to 1."""
    median: str
    """Bound of the median's time, such as `25 ms`."""
    slowest: str
    """Bound of the slowest 5 %."""
    plot: Plot


def plot(points: Sequence[Point], summary: str) -> Plot:
    """Return bars in proportion to the values."""
    most = max((one.value for one in points), default=0) or 1
    heights = [max(LEAST, one.value / most * HEIGHT) for one in points]
    return Plot(
        [
            Bar(number * STEP, HEIGHT - height, height, one.title, one.bad)
            for number, (one, height) in enumerate(zip(points, heights, strict=True))
        ],
        summary,
    )


def searches(families: Sequence[MetricFamily]) -> Searches | None:
    """Return the figures of searches from the service's metrics; None before the first search."""
    counts = _samples(families, SEARCHES, f"{SEARCHES}_total")
    total = int(sum(counts.values()))
    if not total:
        return None
    cached = sum(value for labels, value in counts.items() if ("cached", "true") in labels)
    below = {
        bound: value
        for labels, value in _samples(families, "rag_search_latency_ms", "rag_search_latency_ms_bucket").items()
        if (bound := float(dict(labels)["le"])) < float("inf")
    }
    bounds = sorted(below)
    each = [below[bound] - below.get(before, 0.0) for before, bound in zip([-1.0, *bounds], bounds, strict=False)]
    points = [
        Point(value, f"up to {bound:g} ms: {value:,.0f} searches") for bound, value in zip(bounds, each, strict=True)
    ]
    median, slowest = (_bound(below, total * share) for share in (0.5, 0.95))
    summary = f"Half of the searches took {median}, 95 of 100 took {slowest}."
    return Searches(total, cached / total, median, slowest, plot(points, summary))


def _bound(below: dict[float, float], count: float) -> str:
    """Return the least bound below which that many searches are."""
    found = next((bound for bound in sorted(below) if below[bound] >= count), None)
    return f"at most {found:g} ms" if found is not None else "more than 10 s"


def _samples(families: Sequence[MetricFamily], family: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        one.labels: one.value for known in families if known.name == family for one in known.samples if one.name == name
    }
