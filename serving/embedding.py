"""The embedder as searches use it: a query enters, its vector leaves; loaded and warmed once at start.

A model that could not be loaded, or whose service is down, raises `ServiceUnavailableError`, upon which search goes on with
keywords alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resources.errors import ConcordanceError, ServiceUnavailableError
from resources.logging import logger

log = logger("serving")


class EmbedsQueries(Protocol):
    """What a search needs of an embedder."""

    @property
    def model(self) -> str:
        """Name that keys the cache."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one vector, (dimensions,) float32."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, in order, L2-normalised."""
        ...


class QueryEmbedder:
    """Runs the embedder in a thread: a local model computes outside the GIL, a remote one waits."""

    def __init__(self, load: Callable[[], EmbedsQueries]) -> None:
        self._load = load
        self._embedder: EmbedsQueries | None = None
        self.fault: str | None = "not loaded yet"

    @property
    def model(self) -> str:
        """The model's name, empty while there is none."""
        return self._embedder.model if self._embedder else ""

    async def start(self) -> None:
        """Load and warm the model; a failure is logged and searches degrade."""
        try:
            self._embedder = await asyncio.to_thread(self._load)
            await asyncio.to_thread(self._embedder.embed_query, "warm up")
            self.fault = None
        except ConcordanceError as error:
            self.fault = str(error)
            log.warning("embedder_not_ready", error=self.fault)

    async def query(self, text: str) -> list[float]:
        """Return the query's vector. Raises `ServiceUnavailableError` or another `RetryLaterError`."""
        if self._embedder is None:
            raise ServiceUnavailableError(f"The embedding model is not loaded: {self.fault}")
        try:
            vector = await asyncio.to_thread(self._embedder.embed_query, text)
        except ConcordanceError as error:
            self.fault = str(error)
            if isinstance(error, ServiceUnavailableError):
                raise
            raise ServiceUnavailableError(f"The embedding model does not answer: {error}") from error
        self.fault = None
        return vector.tolist()

    async def texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, L2-normalised, in order. Raises as `query` does."""
        held = self._embedder
        if held is None:
            raise ServiceUnavailableError(f"The embedding model is not loaded: {self.fault}")
        try:
            return await asyncio.to_thread(held.embed, texts)
        except ConcordanceError as error:
            if isinstance(error, ServiceUnavailableError):
                raise
            raise ServiceUnavailableError(f"The embedding model does not answer: {error}") from error
