"""Score the best passages of a search with a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resources.core.breaker import Breaker, RestingError
from resources.core.errors import ConcordanceError
from resources.logging import logger
from serving.http.threads import Threads
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.passage import Passage, Warning_

RERANK_SECONDS = 10.0
MANY_FAILURES = 3
"""A model that is too slow once, on a busy machine, is not down."""
NO_RERANKER = Warning_("rerank_unavailable", "No reranker is configured: results are in fused order.")
NOT_RERANKED = Warning_(
    "rerank_unavailable", "The reranker failed: results are in fused order. `concordance doctor` says why."
)

log = logger("serving")


class ScoresPairs(Protocol):
    """Cross-encoder as a search needs it."""

    def score(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Return the relevance of each passage, in order, 0..1."""
        ...


class Reranker:
    """Runs the cross-encoder in threads of its own, outside the GIL; without a model it returns no scores."""

    def __init__(
        self,
        load: Callable[[], ScoresPairs | None],
        depth: int,
        threshold: float,
        *,
        seconds: float = RERANK_SECONDS,
    ) -> None:
        """`seconds` bounds the scoring of one search."""
        self._load = load
        self._model: ScoresPairs | None = None
        self._depth = depth
        self._seconds = seconds
        self._breaker = Breaker("The reranker")
        self._threads = Threads("reranker")
        self._failures = 0
        self.fault: str | None = None
        """Why the configured model cannot be used; None if it can, or if there is none."""
        self.threshold = threshold
        """Passages that score lower are left out, unless a request brings a threshold of its own."""

    async def start(self) -> None:
        """Load the model; a failure is logged, and searches keep their fused order and say so."""
        try:
            self._model = await self._threads.run(self._load)
        except ConcordanceError as error:
            self.fault = str(error)
            log.warning("reranker_not_ready", error=self.fault)

    @property
    def ready(self) -> bool:
        return self._model is not None

    @property
    def down(self) -> bool:
        """True if the configured model cannot be used: it is not loaded, or several searches in a row failed."""
        return self.fault is not None and (self._model is None or self._failures >= MANY_FAILURES)

    @property
    def missing(self) -> Warning_:
        """The warning of a search that should have been reranked and was not."""
        return NO_RERANKER if self.fault is None else NOT_RERANKED

    async def scores(
        self, query: str, candidates: Sequence[Candidate], readable: Mapping[str, Passage]
    ) -> dict[str, float] | None:
        """Return the relevance of the first readable candidates, by chunk id; None without a model, or if it fails."""
        if self._model is None:
            return None
        best = [readable[one.chunk_id] for one in candidates if one.chunk_id in readable][: self._depth]
        texts = [
            one.chunk_text if one.chunk_text.startswith(one.title) else f"{one.title}\n{one.chunk_text}" for one in best
        ]
        failures = self._failures
        try:
            score = partial(self._model.score, query, texts)
            found = await self._threads.run(self._breaker.call, score, self._seconds)
        except ConcordanceError as error:
            self.fault = str(error)
            if not isinstance(error, RestingError) and self._failures <= failures:  # searches at once fail once
                self._failures += 1
            log.warning("not_reranked", error=self.fault)
            return None
        self.fault, self._failures = None, 0
        return {one.chunk_id: float(score) for one, score in zip(best, found, strict=True)}
