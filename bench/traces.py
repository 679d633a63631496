"""Measure what a span costs: while traces are off, and while they are exported to a collector on loopback.

`python -m bench.traces [--spans 200000]`. A search makes six spans. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from resources import tracing
from tests.fixtures.collector import collecting

SPANS_A_SEARCH = 6


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=200_000)
    arguments = parser.parse_args()
    for name in tracing.ENDPOINTS:
        os.environ.pop(name, None)
    off = _microseconds(arguments.spans)
    with collecting() as collector:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
        tracing.configure("bench")
        on = _microseconds(arguments.spans // 20)
        tracing.stop()
    figures = {
        "off_us_a_span": off,
        "on_us_a_span": on,
        "off_ms_a_search": round(off * SPANS_A_SEARCH / 1000, 4),
        "on_ms_a_search": round(on * SPANS_A_SEARCH / 1000, 4),
    }
    for name, value in figures.items():
        print(f"{name:20} {value}")
    print(json.dumps(figures))


def _microseconds(spans: int) -> float:
    began = time.perf_counter()
    for _ in range(spans):
        with tracing.span("permission_check", candidates=50) as span:
            span.set(readable=30)
    return round((time.perf_counter() - began) / spans * 1e6, 3)


if __name__ == "__main__":
    main()
