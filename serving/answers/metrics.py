"""Prometheus metrics of answers."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from resources.core.errors import ConcordanceError, ConfigurationError, RetryLaterError
from serving.answers.schemas import AnswerResponse

KINDS = ("refused", "limited", "unavailable")
BUCKETS_MS = (10, 25, 50, 75, 100, 150, 250, 500, 1000, 2000, 5000, 10_000, 30_000)


class AnswerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter("rag_answers_total", "Answers.", ["mode", "cached"], registry=registry)
        self._latency = Histogram(
            "rag_answer_latency_ms", "Time of an answer in ms, without the language model's own.", buckets=BUCKETS_MS,
            registry=registry,
        )  # fmt: skip
        self._model = Histogram(
            "rag_answer_model_ms", "Time of the language model in ms.", buckets=BUCKETS_MS, registry=registry
        )
        self._sentences = Counter(
            "rag_answer_sentences_total", "Sentences of answers.", ["supported"], registry=registry
        )
        self._removed = Counter(
            "rag_answer_removed_total", "Invented citations and foreign links removed from answers.", ["what"],
            registry=registry,
        )  # fmt: skip

        self._failures = Counter(
            "llm_failures_total", "Answers that the language model did not write, by kind.", ["kind"], registry=registry
        )
        for kind in KINDS:  # at 0: Prometheus takes no first value for a rise
            self._failures.labels(kind)

    def failed(self, error: ConcordanceError) -> None:
        """Count an answer that the language model did not write."""
        kinds: dict[type[ConcordanceError], str] = {ConfigurationError: "refused", RetryLaterError: "limited"}
        self._failures.labels(kinds.get(type(error), "unavailable")).inc()

    def answered(self, answer: AnswerResponse) -> None:
        self._answers.labels(answer.mode, str(answer.cached).lower()).inc()
        self._latency.observe(answer.latency_ms - answer.model_ms)
        if answer.model_ms:
            self._model.observe(answer.model_ms)
        for sentence in answer.sentences:
            self._sentences.labels(str(sentence.supported).lower()).inc()
        self._removed.labels("citation").inc(answer.removed_citations)
        self._removed.labels("link").inc(answer.removed_links)
