"""Embeds search queries with the model of the active collection, loaded and warmed up in advance.

The registry names the active collection. When it changes, the new collection's model is loaded before both are switched together, so
no query vector is compared with vectors of another model. A model that cannot be loaded, or whose service is down, raises
`ServiceUnavailableError`; search then uses keywords only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from resources import tracing
from resources.core.breaker import UnresponsiveError
from resources.core.errors import ConcordanceError, ServiceUnavailableError, TemporaryError
from resources.embedding import check_dimensions
from resources.embedding.background import CosineScale, cosine_scale
from resources.embedding.openai_compatible import PROBE, FailedTextsError, RefusedTextsError
from resources.logging import logger
from resources.stores.qdrant import ALIAS
from serving.http.background import cancel
from serving.http.threads import Threads
from sql.serving_rows import ActiveModel

POLL_SECONDS = 1.0
"""Interval of reading the active collection, a query of 0.2 ms."""
MAX_RETRY_SECONDS = 30.0
"""Longest interval of attempts to load a model that cannot be loaded, or to reach one that failed."""

log = logger("serving")


LETTERS_A_PIECE = 2.5
"""Letters of a word in each piece of a model's vocabulary, at least: of "automobile" 10, of "tokenisation" 6, of "gqymuijchp" 1.4."""


@runtime_checkable
class CountsPieces(Protocol):
    """An embedder whose vocabulary is known."""

    def pieces(self, text: str) -> int:
        """Return the number of pieces that the model reads a text in."""
        ...


class EmbedsQueries(Protocol):
    """The part of an embedder that searches use."""

    @property
    def model(self) -> str: ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one vector, (dimensions,) float32."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, in order, L2-normalised."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A service that counts the tokens of queries."""

    @property
    def price_per_million(self) -> float | None:
        """US dollars; None if it is not known."""
        ...

    def take_query_tokens(self) -> int:
        """Return the tokens of queries since the last call."""
        ...


class ActiveCollection(NamedTuple):
    """The collection to search, its embedder, and the embedder's scale of cosines (None: not measured yet)."""

    collection: str
    embedder: EmbedsQueries
    scale: CosineScale | None
    dimensions: int | None = None
    """Dimensions of the collection's vectors; None before the first sync."""
    reader_ids: bool = False
    """True if every point has the numbers of its readers."""

    def vector(self, text: str) -> NDArray[np.float32]:
        """Return a query's vector. Raises `ConfigurationError` if it does not fit the collection, and what the embedder raises."""
        found = self.embedder.embed_query(text)
        if self.dimensions is not None:
            check_dimensions(self.embedder.model, len(found), self.dimensions)
        return found


class QueryEmbedder:
    """Runs the embedder in threads of its own.

    `load` returns the embedder that the settings name. `read_active` returns the active collection (None before the first sync)
    or raises `ServiceUnavailableError`, and `load_for` returns the embedder of one. Without these two, changes of the active
    collection are not followed.
    """

    def __init__(
        self,
        load: Callable[[], EmbedsQueries],
        read_active: Callable[[], Awaitable[ActiveModel | None]] | None = None,
        load_for: Callable[[ActiveModel], EmbedsQueries] | None = None,
    ) -> None:
        self._load = load
        self._read_active = read_active
        self._load_for = load_for
        self._active: ActiveCollection | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._doubted = False  # the latest query failed, perhaps only for its text
        self._threads = Threads("query-embedding")
        self.languages: frozenset[str] = frozenset()
        """Languages of the corpus (ISO 639-1), for the keywords of a query; read together with the active collection."""
        self.fault: str | None = "not loaded yet"
        self.retry_after: float | None = None
        """Seconds to wait while the embedding service rejects requests because of its rate limit."""
        self.took: Callable[[float], None] = lambda _: None
        """Called with the seconds of each query."""
        self.used: Callable[[int, float], None] = lambda _tokens, _cost: None
        """Called with the tokens of queries and their cost in US dollars."""

    @classmethod
    def pinned(cls, embedder: EmbedsQueries, collection: str, languages: Iterable[str] = ()) -> QueryEmbedder:
        """Return a `QueryEmbedder` of this collection, whether or not it is active."""
        pinned = cls(lambda: embedder)
        pinned.languages = frozenset(languages)
        pinned._active = ActiveCollection(collection, embedder, cosine_scale(embedder))
        pinned.fault = None
        return pinned

    @property
    def model(self) -> str:
        """The model's name, empty until it is loaded."""
        return self._active.embedder.model if self._active else ""

    @property
    def collection(self) -> str:
        """The collection to search. Read it together with the call of `query`, without awaiting in between, so that both match."""
        return self._active.collection if self._active else ALIAS

    @property
    def reader_ids(self) -> bool:
        """True if every point of the collection to search has the numbers of its readers. Read it together with `collection`."""
        return self._active is not None and self._active.reader_ids

    @property
    def scale(self) -> CosineScale | None:
        """The model's scale of cosines; None until it is measured."""
        return self._active.scale if self._active else None

    @property
    def floor(self) -> float:
        """The model's cosine of unrelated texts; 0 until it is measured."""
        return self.scale.floor if self.scale else 0.0

    async def start(self) -> None:
        """Load and warm up the model, then follow the active collection. A failure is logged and searches degrade."""
        row = None
        if self._read_active is not None:
            with contextlib.suppress(TemporaryError):
                row = await self._read_active()
        self.languages = frozenset(row.languages if row else ())
        await self._activate(row)
        self._tasks = [asyncio.create_task(self._examine(), name="embedder")]
        if self._read_active is not None:
            self._tasks.append(asyncio.create_task(self._follow(self._read_active), name="active-collection"))

    async def stop(self) -> None:
        for task in self._tasks:
            await cancel(task)

    async def query(self, text: str) -> list[float]:
        """Return the query's vector. Raises `ServiceUnavailableError`."""
        active = self._loaded()
        try:
            with tracing.span("generate_embedding", texts=1):
                began = time.perf_counter()
                vector = await self._threads.run(active.vector, text)
                self.took(time.perf_counter() - began)
            if isinstance(active.embedder, CountsTokens) and (tokens := active.embedder.take_query_tokens()):
                self.used(tokens, tokens * (active.embedder.price_per_million or 0.0) / 1_000_000)
            if active.scale is None:  # the service was down when the model was loaded
                scale = await self._threads.run(cosine_scale, active.embedder)
                if self._active is active:  # another collection may be active by now
                    self._active = active._replace(scale=scale)
        except ConcordanceError as error:
            self._doubted = True
            self.retry_after = None
            if isinstance(error, TemporaryError) and not isinstance(error, UnresponsiveError):
                self.retry_after = error.retry_after
            if self.retry_after is None and not isinstance(error, RefusedTextsError | FailedTextsError):
                self.fault = str(error)
            if isinstance(error, ServiceUnavailableError):
                raise
            raise _no_answer(error) from error
        self._recovered()
        return vector.tolist()

    def knows(self, word: str) -> bool:
        """Return True if the model's vocabulary has a word as a whole, so that it is hardly misspelled."""
        embedder = self._active.embedder if self._active else None
        return isinstance(embedder, CountsPieces) and embedder.pieces(word) == 1

    def meaningless(self, words: Collection[str]) -> bool:
        """Return True if these are Latin letters that the model knows no words of; False if its vocabulary is not known."""
        embedder = self._active.embedder if self._active else None
        return isinstance(embedder, CountsPieces) and all(
            word.isascii() and word.isalpha() and len(word) / max(1, embedder.pieces(word)) < LETTERS_A_PIECE
            for word in words
        )

    async def texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, L2-normalised, in order. Raises as `query` does."""
        try:
            return await self._threads.run(self._loaded().embedder.embed, texts)
        except ServiceUnavailableError:
            raise
        except ConcordanceError as error:
            raise _no_answer(error) from error

    def _loaded(self) -> ActiveCollection:
        if self._active is None:
            raise ServiceUnavailableError(f"The embedding model is not loaded: {self.fault}")
        return self._active

    def _recovered(self) -> None:
        self.fault = self.retry_after = None
        self._doubted = False

    async def _examine(self) -> None:
        """Embed a text of our own after a query failed, until that succeeds: the fault ends without another query, and one that a
        query left open, of a service that refused its text or limits the rate, is found.
        """
        interval = POLL_SECONDS
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._active is None or (self.fault is None and not self._doubted):
                interval = POLL_SECONDS
                continue
            await asyncio.sleep(max(interval, self.retry_after or 0.0))
            interval = min(MAX_RETRY_SECONDS, interval * 2)
            if self.fault is None and not self._doubted:
                continue  # a query was answered meanwhile
            try:
                await self.query(PROBE)
            except ServiceUnavailableError as error:
                self.fault = str(error)
            except Exception:  # nothing else would start this task again
                log.exception("embedder_not_examined")

    async def _follow(self, read_active: Callable[[], Awaitable[ActiveModel | None]]) -> None:
        interval = POLL_SECONDS
        while True:
            await asyncio.sleep(interval)
            try:
                row = await read_active()
                self.languages = frozenset(row.languages if row else ())
                current = self._active is not None and self.collection == (row.name if row else ALIAS)
                done = current or await self._activate(row)
            except TemporaryError:
                continue  # already logged; the last known collection stays active
            except Exception:  # likewise, and nothing else would start this task again
                log.exception("active_collection_not_read")
                continue
            interval = POLL_SECONDS if done else min(MAX_RETRY_SECONDS, interval * 2)

    async def _activate(self, row: ActiveModel | None) -> bool:
        """Load and warm up the model of a collection and make it active. Return True if the model could be loaded."""
        name = row.name if row else ALIAS
        try:
            if row is None or self._load_for is None:
                embedder = await self._threads.run(self._load)
            else:
                embedder = await self._threads.run(self._load_for, row)
        except ConcordanceError as error:
            if self._active is None:
                self.fault = str(error)
            log.warning("embedder_not_ready", collection=name, error=str(error))
            return False
        scale, loaded = None, ActiveCollection(name, embedder, None, row.dimensions if row else None)
        loaded = loaded._replace(reader_ids=row is not None and row.reader_ids)
        try:
            await self._threads.run(loaded.vector, PROBE)
            scale = await self._threads.run(cosine_scale, embedder)
            self._recovered()
        except ConcordanceError as error:
            self.fault = str(error)
            log.warning("embedder_not_ready", collection=name, error=self.fault)
        if self._active is not None:
            log.info("active_collection_changed", collection=name, model=embedder.model)
        self._active = loaded._replace(scale=scale)
        return True


def _no_answer(error: ConcordanceError) -> ServiceUnavailableError:
    return ServiceUnavailableError(f"The embedding model does not answer: {error}")
