"""Search: the query's reading, both engines, and the permission check, built once per app."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import psycopg

from resources.core.errors import ServiceUnavailableError
from resources.sources import specs
from resources.stores.qdrant_search import VectorSearch
from serving.http.database import Database
from serving.search.embedding import EmbedsQueries, QueryEmbedder
from serving.search.remote import for_searches
from serving.search.retrieval.cache import CandidateCache
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.expand import Completes, Expander
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.rerank import Reranker, ScoresPairs
from serving.search.retrieval.retriever import Retriever
from serving.search.understanding.filters import Understanding
from serving.search.understanding.grammar import Grammar
from serving.search.understanding.named import NamesInQueries
from serving.search.understanding.names import ReadableNames
from serving.search.understanding.operators import Operators
from sql.serving import WebReads
from sql.serving_rows import ActiveModel

if TYPE_CHECKING:
    from serving.http.service import HttpServices
    from serving.identity.service import IdentityServices


class SearchServices:
    """Finds passages that the caller may read."""

    def __init__(
        self,
        http: HttpServices,
        identity: IdentityServices,
        embedder: Callable[[], EmbedsQueries] | None = None,
        model: Completes | None = None,
    ) -> None:
        """`embedder` replaces loading the model, for tests; `model` expands queries, if the settings say so."""
        settings = http.settings
        self.http = http
        self.identity = identity
        self._given = embedder
        self._registry = Database(
            settings.postgres_dsn,
            size=1,
            watch=http.database.watch,
            prepare_threshold=settings.postgres_prepare_threshold,
        )
        self.embedder = QueryEmbedder(embedder or self._load_embedder, self._active_collection, self._load_embedder_of)
        http.monitor.watch("embedding", lambda: self.embedder.fault is None)
        self.embedder.took = lambda seconds: http.metrics.embedding.observe(seconds * 1000)
        self.embedder.used = http.metrics.embedded_query
        self.searches = VectorSearch(settings)
        self.reranker = Reranker(self._load_reranker, settings.rerank_depth, settings.rerank_threshold)
        if settings.rerank_model is not None:
            http.monitor.watch("reranker", lambda: not self.reranker.down)
        expander = None
        if model is not None and settings.query_expansion != "off":
            expander = Expander(model, self.embedder, settings.query_expansion_seconds)
        seconds = settings.search_cache_seconds
        self.retriever = Retriever(
            settings,
            Engines(self.searches, http.database, self.embedder),
            Registry(http.database),
            self.embedder,
            cache=CandidateCache(identity.directory, seconds) if seconds else None,
            withheld=identity.withheld,
            reranker=self.reranker,
            expander=expander,
            clock=http.clock,
            incomplete=lambda: http.monitor.incomplete,
            passages_per_document=lambda: http.monitor.passages_per_document,
        )
        names, operators = ReadableNames(http.database, identity.directory), Operators(specs())
        self.understanding = Understanding(Grammar(specs()), operators, names, http.clock, http.acl_max_age)
        self.naming = NamesInQueries(names, operators, http.database)

    def _load_embedder(self) -> EmbedsQueries:
        from resources.embedding import embedder

        return for_searches(embedder(self.http.settings))

    def _load_embedder_of(self, collection: ActiveModel) -> EmbedsQueries:
        """Return the embedder of a collection: the one passed to the constructor if its model is the same."""
        from resources.embedding import embedder_of

        given = self._given() if self._given is not None else None
        if given is not None and given.model == collection.model:
            return given
        return for_searches(embedder_of(self.http.settings, msgspec.structs.asdict(collection)))

    def _load_reranker(self) -> ScoresPairs | None:
        from resources.embedding.cross_encoder import CrossEncoder

        model = self.http.settings.rerank_model
        return None if model is None else CrossEncoder(model, self.http.settings.home / "models")

    async def _active_collection(self) -> ActiveModel | None:
        """Return the active collection, read over a separate connection so that its failure delays no search."""
        try:
            return await WebReads(self._registry).active_collection()
        except psycopg.Error as error:  # the tables are being created or changed
            raise ServiceUnavailableError(f"The active collection cannot be read: {error}") from error

    async def open(self) -> None:
        """Connect, and load the models."""
        self.searches.open()
        await self._registry.open()
        await self.embedder.start()
        await self.reranker.start()

    async def close(self) -> None:
        await self.embedder.stop()
        await self._registry.close()
        await self.searches.close()
