"""Deadlines and a circuit breaker for an embedding service in searches, which fall back on keywords.

The client of `resources.embedding` alone is made for syncs: its timeouts apply to each read, and it retries.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resources.core.breaker import Breaker
from resources.embedding.openai_compatible import OpenAICompatible
from serving.search.embedding import EmbedsQueries

QUERY_SECONDS = 5.0
FAULTS = 2
"""Failed calls in a row after which searches do without the service for a while: each costs the client's retries."""
TEXTS_SECONDS = 30.0


class RemoteEmbedder:
    """An embedder whose calls have deadlines. Thread-safe. Also raises `UnresponsiveError`."""

    def __init__(self, embedder: OpenAICompatible) -> None:
        self._embedder = embedder
        self._breaker = Breaker("The embedding service", faults=FAULTS)

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def price_per_million(self) -> float | None:
        """US dollars; None if it is not known."""
        return self._embedder.price_per_million

    def take_query_tokens(self) -> int:
        """Return the tokens of queries since the last call."""
        return self._embedder.take_query_tokens()

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one vector, (dimensions,) float32."""
        return self._breaker.call(lambda: self._embedder.embed_query(text), QUERY_SECONDS)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, in order, L2-normalised."""
        return self._breaker.call(lambda: self._embedder.embed(texts), TEXTS_SECONDS)


def for_searches(embedder: EmbedsQueries) -> EmbedsQueries:
    """Return the embedder, with deadlines if it is a service."""
    return RemoteEmbedder(embedder) if isinstance(embedder, OpenAICompatible) else embedder
