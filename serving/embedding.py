"""The embedder as searches use it: a query enters, its vector and the collection that it fits leave; loaded and warmed ahead.

The model belongs to the active collection, which the registry names: when another takes its place, its model is loaded beside the old
one and both change at once, so that no query meets vectors of another model. A model that could not be loaded, or whose service is
down, raises `ServiceUnavailableError`, upon which search goes on with keywords alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from resources.core.breaker import UnresponsiveError
from resources.core.errors import ConcordanceError, ServiceUnavailableError, TemporaryError
from resources.embedding.background import similarity_floor
from resources.logging import logger
from resources.stores.qdrant import ALIAS

LOOK_SECONDS = 1.0
"""Between two looks at which collection is active: a question of 0.2 ms to Postgres."""
LONGEST_REST_SECONDS = 30.0
"""Between two attempts at a model that cannot be loaded."""

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


class Active(NamedTuple):
    """The collection to search, the embedder of its vectors, and that one's cosine of unrelated texts (None: not measured yet)."""

    collection: str
    embedder: EmbedsQueries
    floor: float | None


Row = Mapping[str, Any]


class QueryEmbedder:
    """Runs the embedder in a thread: a local model computes outside the GIL, a remote one waits.

    `load` gives the embedder that the settings name. `look` reads the row of the active collection (None: there is none yet), or raises
    `ServiceUnavailableError`; `load_for` gives the embedder of such a row. Without these two, nothing is followed.
    """

    def __init__(
        self,
        load: Callable[[], EmbedsQueries],
        look: Callable[[], Awaitable[Row | None]] | None = None,
        load_for: Callable[[Row], EmbedsQueries] | None = None,
    ) -> None:
        self._load = load
        self._look = look
        self._load_for = load_for
        self._active: Active | None = None
        self._task: asyncio.Task[None] | None = None
        self.fault: str | None = "not loaded yet"
        self.retry_after: float | None = None
        """Seconds to wait, while queries fail because the service takes no more requests."""

    @classmethod
    def pinned(cls, embedder: EmbedsQueries, collection: str) -> QueryEmbedder:
        """Return one for this collection, whichever is active: to compare two."""
        made = cls(lambda: embedder)
        made._active = Active(collection, embedder, similarity_floor(embedder))
        made.fault = None
        return made

    @property
    def model(self) -> str:
        """The model's name, empty while there is none."""
        return self._active.embedder.model if self._active else ""

    @property
    def collection(self) -> str:
        """What to search. Read it in the same breath as `query` is called, so that both are of one collection."""
        return self._active.collection if self._active else ALIAS

    @property
    def floor(self) -> float:
        """What the model gives to texts that have nothing in common; 0 while that is not known."""
        return (self._active.floor or 0.0) if self._active else 0.0

    async def start(self) -> None:
        """Load and warm the model, then follow the active collection; a failure is logged and searches degrade."""
        row = None
        if self._look is not None:
            with contextlib.suppress(TemporaryError):
                row = await self._look()
        await self._take(row)
        if self._look is not None:
            self._task = asyncio.create_task(self._follow(self._look), name="active-collection")

    async def stop(self) -> None:
        """Follow no longer."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def query(self, text: str) -> list[float]:
        """Return the query's vector. Raises `ServiceUnavailableError`."""
        held = self._active
        if held is None:
            raise ServiceUnavailableError(f"The embedding model is not loaded: {self.fault}")
        try:
            vector = await asyncio.to_thread(held.embedder.embed_query, text)
            if held.floor is None:  # the service did not answer at start
                self._active = held._replace(floor=await asyncio.to_thread(similarity_floor, held.embedder))
        except ConcordanceError as error:
            self.fault = str(error)
            self.retry_after = None
            if isinstance(error, TemporaryError) and not isinstance(error, UnresponsiveError):
                self.retry_after = error.retry_after
            if isinstance(error, ServiceUnavailableError):
                raise
            raise ServiceUnavailableError(f"The embedding model does not answer: {error}") from error
        self.fault = self.retry_after = None
        return vector.tolist()

    async def texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text, L2-normalised, in order. Raises as `query` does."""
        held = self._active
        if held is None:
            raise ServiceUnavailableError(f"The embedding model is not loaded: {self.fault}")
        try:
            return await asyncio.to_thread(held.embedder.embed, texts)
        except ConcordanceError as error:
            if isinstance(error, ServiceUnavailableError):
                raise
            raise ServiceUnavailableError(f"The embedding model does not answer: {error}") from error

    async def _follow(self, look: Callable[[], Awaitable[Row | None]]) -> None:
        rest = LOOK_SECONDS
        while True:
            await asyncio.sleep(rest)
            try:
                row = await look()
            except TemporaryError:
                continue  # said where it was noticed; the last known collection stands
            done = (
                self.collection == (row["name"] if row else ALIAS) and self._active is not None
            ) or await self._take(row)
            rest = LOOK_SECONDS if done else min(LONGEST_REST_SECONDS, rest * 2)

    async def _take(self, row: Row | None) -> bool:
        """Load and warm the model of a collection, and search that one from now on. Returns whether it could be loaded."""
        name = row["name"] if row else ALIAS
        try:
            if row is None or self._load_for is None:
                embedder = await asyncio.to_thread(self._load)
            else:
                embedder = await asyncio.to_thread(self._load_for, row)
        except ConcordanceError as error:
            if self._active is None:
                self.fault = str(error)
            log.warning("embedder_not_ready", collection=name, error=str(error))
            return False
        floor = None
        try:
            await asyncio.to_thread(embedder.embed_query, "warm up")
            floor = await asyncio.to_thread(similarity_floor, embedder)
            self.fault = None
        except ConcordanceError as error:
            self.fault = str(error)
            log.warning("embedder_not_ready", collection=name, error=self.fault)
        if self._active is not None:
            log.info("collection_changed", collection=name, model=embedder.model)
        self._active = Active(name, embedder, floor)
        return True
