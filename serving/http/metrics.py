"""Prometheus metrics: the app's own counters, and figures of the registry and the index."""

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from resources.servers.shared import Shared
from serving.http.metrics_sum import Collected, MetricFamily, Sample, Sums, figures, summed
from sql.serving_rows import Figure

LATENCY_BUCKETS_MS = (2, 5, 10, 15, 20, 25, 35, 50, 75, 100, 150, 200, 300, 500, 1000, 2500, 10_000)
LAG_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
NO_GAUGES: Mapping[str, float] = MappingProxyType({})
NO_DEPENDENCIES: Mapping[str, bool] = MappingProxyType({})
GAUGES = MappingProxyType(
    {
        "home_disk_bytes": "Size of the disk that HOME is on.",
        "home_disk_free_bytes": "Free space of the disk that HOME is on.",
        "home_disk_writable": "1 while all disks and folders of this machine that hold a store accept writes, else 0.",
        "index_limit_vectors": "Most passages that the index may hold.",
        "embedding_budget_usd": "Monthly budget of embedding in US dollars.",
    }
)
"""Figures of an installation, and their texts."""
RESULTS, HIT_RATE, SEARCHES = "rag_search_results_count", "rag_cache_hit_rate", "rag_searches"


class Metrics:
    """The app's counters, in a registry of their own so that several apps in one process do not share them."""

    def __init__(self, shared: Shared | None = None) -> None:
        """`shared` is for the sums over several processes."""
        self._sums = Sums(shared) if shared is not None and shared.workers > 1 else None
        self._searched_at = 0.0
        self.registry = CollectorRegistry()
        self.latency = Histogram(
            "rag_search_latency_ms", "Time of a search in ms.", buckets=LATENCY_BUCKETS_MS, registry=self.registry
        )
        self.results = Gauge(RESULTS, "Results of the latest search.", registry=self.registry)
        self.searches = Counter(f"{SEARCHES}_total", "Searches.", ["mode", "cached"], registry=self.registry)
        self.hit_rate = Gauge(HIT_RATE, "Share of searches answered from the cache.", registry=self.registry)
        self.degraded = Counter(
            "rag_search_degraded_total", "Searches with a warning.", ["code"], registry=self.registry
        )
        self.dropped_writes = Counter(
            "serving_dropped_writes_total",
            "Rows of caches, answers and conversations that were dropped.",
            ["statement"],
            registry=self.registry,
        )
        self.audit_waiting = Gauge(
            "serving_audit_waiting", "Audit events that are not in Postgres yet.", registry=self.registry
        )
        self.audit_missing = Counter(
            "serving_audit_missing_total",
            "Events that could be recorded neither on disk nor in Postgres.",
            registry=self.registry,
        )
        self.rate_limited = Counter(
            "rag_rate_limited_total", "Requests refused by a rate limit.", registry=self.registry
        )
        self.uploads = Counter("uploads_total", "Uploads by outcome.", ["outcome"], registry=self.registry)
        self.pushed = Counter(
            "pushed_documents_total", "Pushed documents by outcome.", ["outcome"], registry=self.registry
        )
        self.sign_in_emails = Counter(
            "sign_in_emails_total",
            "Links for signing in that were asked for by email, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.requests = Counter(
            "http_requests_total", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.embedding = Histogram(
            "rag_query_embedding_ms",
            "Time of embedding a query in ms.",
            buckets=LATENCY_BUCKETS_MS,
            registry=self.registry,
        )
        self.query_tokens = Counter(
            "rag_query_embedding_tokens_total",
            "Tokens of queries that an embedding service counted.",
            registry=self.registry,
        )
        self.query_cost = Counter(
            "rag_query_embedding_cost_usd_total", "Cost of embedding queries in US dollars.", registry=self.registry
        )
        self.model_tokens = Counter(
            "llm_tokens_total", "Tokens that the language model counted.", ["kind"], registry=self.registry
        )
        self.model_cost = Counter(
            "llm_cost_usd_total", "Cost of the language model in US dollars.", registry=self.registry
        )
        self.loop_lag = Histogram(
            "serving_event_loop_lag_seconds",
            "Time by which a timer of the event loop was late.",
            buckets=LAG_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.pool = Gauge(
            "serving_pool_connections", "Connections to Postgres by state.", ["state"], registry=self.registry
        )
        self.pool_waiting = Gauge(
            "serving_pool_waiting", "Statements that wait for a connection to Postgres.", registry=self.registry
        )
        self.lake_bytes = Gauge(
            "lake_bytes", "Size of the lake and of the stored bytes, read once an hour.", registry=self.registry
        )
        self._searched = self._from_cache = 0

    def searched(self, *, mode: str, cached: bool, seconds: float, results: int, warnings: Iterable[str]) -> None:
        self._searched_at = time.monotonic()
        self._searched += 1
        self._from_cache += cached
        self.latency.observe(seconds * 1000)
        self.results.set(results)
        self.searches.labels(mode, str(cached).lower()).inc()
        self.hit_rate.set(self._from_cache / self._searched)
        for code in warnings:
            self.degraded.labels(code).inc()

    def embedded_query(self, tokens: int, cost_usd: float) -> None:
        self.query_tokens.inc(tokens)
        self.query_cost.inc(cost_usd)

    def asked_model(self, read: int, written: int, cost_usd: float) -> None:
        self.model_tokens.labels("prompt").inc(read)
        self.model_tokens.labels("completion").inc(written)
        self.model_cost.inc(cost_usd)

    def publish(self) -> None:
        """Show this process's figures to the others."""
        if self._sums is not None:
            self._sums.publish(figures(self.registry, self._searched_at))

    def families(self) -> list[MetricFamily]:
        """Return the app's own figures, summed over all processes."""
        if self._sums is None:
            return figures(self.registry, self._searched_at).families
        self.publish()
        return _with_hit_rate(summed(self._sums.parts(), RESULTS))

    def render(
        self,
        totals: Iterable[Figure],
        points: int | None,
        size: int | None,
        gauges: Mapping[str, float] = NO_GAUGES,
        dependencies: Mapping[str, bool] = NO_DEPENDENCIES,
    ) -> bytes:
        """Return the exposition: the app's counters of all processes, then figures of the registry (`totals.sql`) and of the index.

        `gauges` are further figures by name; `dependencies` says of each whether it answers.
        """
        own = self.registry
        if self._sums is not None:
            own = CollectorRegistry()
            own.register(Collected(self.families()))  # pyright: ignore[reportArgumentType]
        scraped = CollectorRegistry()
        scraped.register(_Scraped(list(totals), points, size, gauges, dependencies))  # pyright: ignore[reportArgumentType] (a collector by shape)
        return generate_latest(own) + generate_latest(scraped)


def _with_hit_rate(families: list[MetricFamily]) -> list[MetricFamily]:
    """Return the families with the hit rate of all processes, which is no sum."""
    searches = [one for family in families if family.name == SEARCHES for one in family.samples]
    counts = [one for one in searches if one.name == f"{SEARCHES}_total"]
    cached = sum(one.value for one in counts if ("cached", "true") in one.labels)
    rate = cached / (sum(one.value for one in counts) or 1.0)
    return [
        MetricFamily(one.name, one.text, one.kind, [Sample(HIT_RATE, (), rate)]) if one.name == HIT_RATE else one
        for one in families
    ]


class _Scraped:
    def __init__(
        self,
        totals: list[Figure],
        points: int | None,
        size: int | None,
        gauges: Mapping[str, float],
        dependencies: Mapping[str, bool],
    ) -> None:
        self._totals, self._points, self._size = totals, points, size
        self._gauges, self._dependencies = gauges, dependencies

    def _rows(self, what: str) -> list[Figure]:
        return [row for row in self._totals if row.what == what]

    def _counter(self, name: str, text: str, what: str, labels: list[str]) -> Metric:
        family = CounterMetricFamily(name, text, labels=labels)
        for row in self._rows(what):
            family.add_metric([row.source if label == "source" else row.label for label in labels], row.value)
        return family

    def _by_source(self, name: str, text: str) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["source"])
        for row in self._rows(name):
            family.add_metric([row.source], row.value)
        return family

    def collect(self) -> Iterable[Metric]:
        documents = GaugeMetricFamily(
            "postgres_documents_count", "Documents in the registry.", labels=["source", "state"]
        )
        for row in self._rows("documents"):
            documents.add_metric([row.source, row.label], row.value)
        yield documents
        yield self._by_source("source_paused", "1 while syncs of a source are paused until it is repaired, else 0.")
        yield self._by_source("held_deletions", "Deletions that wait for approval because there are too many.")
        yield self._counter("sync_documents", "Documents that syncs handled.", "sync_documents", ["source", "outcome"])
        errors = CounterMetricFamily("sync_errors", "Documents that failed in syncs.", labels=["source"])
        ingested = CounterMetricFamily("ingest_docs", "Documents by outcome, over all sources.", labels=["status"])
        by_status: dict[str, float] = {}
        for row in self._rows("sync_documents"):
            by_status[row.label] = by_status.get(row.label, 0.0) + row.value
            if row.label == "failed":
                errors.add_metric([row.source], row.value)
        for status, value in by_status.items():
            ingested.add_metric([status], value)
        yield errors
        yield ingested
        jobs = CounterMetricFamily("sync_jobs", "Syncs that have ended, by status.", labels=["source", "status"])
        for row in self._rows("sync_jobs"):
            if row.label != "running":  # a number that falls is no counter
                jobs.add_metric([row.source, row.label], row.value)
        yield jobs
        yield self._counter("source_wait_seconds", "Time that calls to sources waited.", "source_waited", ["source"])
        yield self._counter("source_calls", "Calls to sources by outcome.", "source_calls", ["source", "outcome"])
        yield self._by_source(
            "sync_failures_in_a_row", "Syncs of the whole source that failed since the latest good one."
        )
        latest = GaugeMetricFamily(
            "sync_last_success_timestamp_seconds",
            "End of the latest good sync of the whole source, as Unix time.",
            labels=["source"],
        )
        for row in self._rows("latest_sync"):
            latest.add_metric([row.source], row.value)
        yield latest
        awaited = GaugeMetricFamily(
            "sync_awaited_since_timestamp_seconds",
            "End of the latest good sync of the whole source, request of the first, or set-up, as Unix time; none while a sync runs.",
            labels=["source"],
        )
        for row in self._rows("sync_awaited"):
            awaited.add_metric([row.source], row.value)
        yield awaited
        queues = GaugeMetricFamily("queue_size", "What waits, up to 10,000 of each.", labels=["queue"])
        for row in self._rows("queue"):
            queues.add_metric([row.label], row.value)
        yield queues
        tables = GaugeMetricFamily("postgres_table_bytes", "Size of a table with its indexes.", labels=["table"])
        for row in self._rows("table_bytes"):
            tables.add_metric([row.label], row.value)
        yield tables
        full = GaugeMetricFamily(
            "capacity_full_days", "Days until syncs stop, at the growth of the last days.", labels=["what", "place"]
        )
        for row in self._rows("capacity_full"):
            full.add_metric([row.label, row.source], row.value)
        yield full
        yield self._counter("ingest_chunks", "Chunks embedded.", "chunks_embedded", ["source"])
        yield self._counter("embedding_tokens", "Tokens embedded.", "embedding_tokens", ["model"])
        yield self._counter("embedding_cost_usd", "Cost of embedding in US dollars.", "embedding_cost", ["model"])
        for row in self._rows("embedding_month_cost"):
            text = "Cost of embedding this month in US dollars."
            yield GaugeMetricFamily("embedding_month_cost_usd", text, value=row.value)
        yield self._stages()
        yield self._durations()
        if self._points is not None:
            yield GaugeMetricFamily("qdrant_vector_count", "Points in the index.", value=self._points)
        if self._size is not None:
            yield GaugeMetricFamily("qdrant_collection_size", "Bytes of dense vectors in the index.", value=self._size)
        up = GaugeMetricFamily("serving_dependency_up", "1 while a dependency answers, else 0.", labels=["dependency"])
        for dependency, answers in self._dependencies.items():
            up.add_metric([dependency], float(answers))
        yield up
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(name, GAUGES[name], value=value)

    def _stages(self) -> Metric:
        text = "Time in which a stage of a sync was busy; stages overlap."
        family = SummaryMetricFamily("ingest_stage_seconds", text, labels=["source", "stage"])
        syncs = {(row.source, row.label): row.value for row in self._rows("stage_syncs")}
        for row in self._rows("stage_seconds"):
            family.add_metric([row.source, row.label], int(syncs[row.source, row.label]), row.value)
        return family

    def _durations(self) -> Metric:
        family = HistogramMetricFamily("sync_duration_seconds", "Time of a sync.", labels=["source"])
        sums = {row.source: row.value for row in self._rows("sync_seconds_sum")}
        buckets: dict[str, list[tuple[str, float]]] = {}
        for row in self._rows("sync_seconds"):
            buckets.setdefault(row.source, []).append((row.label, row.value))
        for source, counts in buckets.items():
            family.add_metric([source], sorted(counts, key=lambda pair: float(pair[0])), sums.get(source, 0.0))
        return family
