"""The services that routes depend on, created once per app: clients, pool, embedder, key, launcher, metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypedDict

import msgspec
import psycopg
from litestar.datastructures import State
from qdrant_client.http.models import VectorParams

from resources import dagster_access
from resources.core.breaker import Breaker
from resources.core.domain import Access, SourceName
from resources.core.durations import duration
from resources.core.errors import AbortSyncError, ConcordanceError, ServiceUnavailableError
from resources.keys import metrics_token, secret_keys
from resources.logging import logger
from resources.sample_people import sample_people
from resources.servers.addresses import Origins
from resources.servers.shared import Shared
from resources.settings import Settings
from resources.sources import specs
from resources.stores import disk
from resources.stores.blobs import STORE, Blobs
from resources.stores.qdrant import ALIAS, DENSE, async_client, qdrant_errors
from resources.stores.qdrant_search import VectorSearch
from serving.agents.connections import Agents
from serving.answers.model import language_model
from serving.answers.service import Answers
from serving.http.audit import Audit
from serving.http.background import Background
from serving.http.cross_origin import cross_origin
from serving.http.database import Database
from serving.http.metrics import Metrics
from serving.http.monitor import StatusMonitor
from serving.http.origins import serving_rules
from serving.http.rate_limit import RateLimit
from serving.http.request_limits import RequestLimits
from serving.http.sign_ins import SignIns
from serving.identity.directory import Directory
from serving.identity.revoked import FOLDER, RevokedTokens
from serving.identity.rights import Rights
from serving.identity.sign_in.flow import Flow
from serving.identity.sign_in.provider import Provider
from serving.identity.sign_in.sessions import LINK, SAMPLE, Sessions
from serving.search.embedding import EmbedsQueries, QueryEmbedder
from serving.search.remote import for_searches
from serving.search.retrieval.cache import CandidateCache
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.expand import Expander
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.rerank import Reranker, ScoresPairs
from serving.search.retrieval.retriever import Retriever
from serving.search.understanding.filters import Understanding
from serving.search.understanding.grammar import Grammar
from serving.search.understanding.named import NamesInQueries
from serving.search.understanding.names import ReadableNames
from serving.search.understanding.operators import Operators
from serving.sources.slack_events import SlackEvents
from serving.sources.sync_requests import SyncRequests
from serving.widget.visitors import Widgets
from sql.web import WebReads
from sql.web_rows import ActiveModel

CHECK_SECONDS = 3.0
FLOAT_BYTES = 4

log = logger("serving")


class ReadableBy(TypedDict):
    """Parameters of statements that return what a caller may read now."""

    principals: list[str]
    fresh_since: datetime


class StartedSync(Protocol):
    """A sync that was started: the id of its `sync_jobs` row and its start in UTC."""

    @property
    def job_id(self) -> str: ...

    @property
    def started_at(self) -> datetime: ...


class Launcher(Protocol):
    """Starts a sync without waiting for its end. Blocking. Raises `BusyError` or `NotRunningError`."""

    def __call__(
        self, settings: Settings, source: SourceName, *, partitions: Sequence[str] | None, full: bool, requested_by: str
    ) -> StartedSync: ...


def _launch(
    settings: Settings, source: SourceName, *, partitions: Sequence[str] | None, full: bool, requested_by: str
) -> StartedSync:
    from resources.launch import start_sync

    return start_sync(settings, source, partitions=partitions, full=full, requested_by=requested_by)


class Services:
    """Everything that a request may use; routes receive it as `services`."""

    def __init__(
        self,
        settings: Settings,
        *,
        launcher: Launcher | None = None,
        embedder: Callable[[], EmbedsQueries] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        turn: Callable[[], Awaitable[None]] | None = None,
        shared: Shared | None = None,
    ) -> None:
        """`shared` holds the limits of all processes of the service; without it, this is the only one."""
        self.settings = settings
        self.shared = shared or Shared.alone()
        self._turn = turn
        self.keys = secret_keys(settings)
        self.key = self.keys[0]
        self.clock = clock
        self.acl_max_age: timedelta = duration(settings.acl_max_age)
        self.launcher = launcher or _launch
        self.metrics = Metrics(self.shared)
        self.limit = RateLimit(settings.search_rate_limit, self.shared, "search")
        self.origins = Origins(settings.trusted_proxies)
        self.rules = serving_rules(settings)
        self.cross_origin = cross_origin(settings)
        self.request_limits = RequestLimits(settings.search_rate_limit, self.origins, self.metrics, self.shared)
        self.sign_ins = SignIns(settings.sign_in_failures, self.metrics, self.shared)
        self.database = Database(settings.postgres_dsn)
        self.widgets = Widgets(settings.widgets, self.database, self.key)
        self.qdrant = async_client(settings)
        self.metrics_token = metrics_token(settings)
        self.dagster_secrets = dagster_access.secrets_of(settings)
        self.blobs = Blobs(settings.lake_address, Breaker(STORE))
        self._dagster = Breaker("Dagster")
        self.directory = Directory(settings, self.database)
        self.revoked_tokens = RevokedTokens(settings.home / FOLDER)
        self._registry = Database(settings.postgres_dsn, size=1, watch=self.database.watch)
        self._embedder_factory = embedder
        self.embedder = QueryEmbedder(embedder or self._load_embedder, self._active_collection, self._load_embedder_of)
        self.background = Background(self.database, self.metrics, self.shared)
        self.rights = Rights(settings.home / "rights", self.acl_max_age)
        self.audit = Audit(settings.home / "audit", self.database, self.metrics, self.shared)
        self.providers = {one.slug: Provider(one) for one in settings.providers}
        self.sample_people = sample_people(settings)
        known = [*self.providers, LINK, *([SAMPLE] if self.sample_people else [])]
        self.agents = Agents(settings, self.keys, self.database, self.audit, known)
        self.sessions = Sessions(settings, self.database, self.audit, self.providers, self.agents.end_all, known)
        self.sign_in_flow = Flow(settings, self.key, self.database)
        self.sync_requests = SyncRequests(settings, self.database, self.launcher)
        self.slack_events = SlackEvents(self.database, self.rights, self.sync_requests.request)
        self.monitor = StatusMonitor(self.database, self.index_size, partial(disk.faults, settings))
        self.searches = VectorSearch(settings)
        engines = Engines(self.searches, self.database, self.embedder)
        self.reranker = Reranker(self._load_reranker, settings.rerank_depth, settings.rerank_threshold)
        model = language_model(settings, self.shared)
        expander = None
        if model is not None and settings.query_expansion != "off":
            expander = Expander(model, self.embedder, settings.query_expansion_seconds)
        seconds = settings.search_cache_seconds
        self.retriever = Retriever(
            settings,
            engines,
            Registry(self.database),
            self.embedder,
            cache=CandidateCache(self.directory, seconds) if seconds else None,
            rights=self.rights,
            reranker=self.reranker,
            expander=expander,
            clock=clock,
            incomplete=lambda: self.monitor.incomplete,
            passages_per_document=lambda: self.monitor.passages_per_document,
        )
        names, operators = ReadableNames(self.database, self.directory), Operators(specs())
        self.understanding = Understanding(Grammar(specs()), operators, names, clock, self.acl_max_age)
        self.naming = NamesInQueries(names, operators, self.database)
        self.answers = Answers(
            settings,
            self.database,
            self.retriever,
            self.understanding,
            self.embedder,
            self.background,
            self.audit,
            self.metrics,
            clock=clock,
            model=model,
        )

    async def launch(
        self,
        source: SourceName,
        *,
        partitions: Sequence[str] | None = None,
        full: bool = False,
        requested_by: str,
        seconds: float,
    ) -> StartedSync:
        """Start a sync within `seconds`. Raises `BusyError`, `NotRunningError`, and `UnresponsiveError` when Dagster hangs."""
        start = partial(
            self.launcher, self.settings, source, partitions=partitions, full=full, requested_by=requested_by
        )
        return await asyncio.to_thread(self._dagster.call, start, seconds)

    def fresh_since(self) -> datetime:
        """Return the time before which a check of permissions or of a directory is too old to count."""
        return self.clock() - self.acl_max_age

    def readable_by(self, access: Access) -> ReadableBy:
        """Return the parameters that restrict a statement to documents that the caller may read."""
        return ReadableBy(principals=sorted(access.principals), fresh_since=self.fresh_since())

    def _load_embedder(self) -> EmbedsQueries:
        from resources.embedding import embedder

        return for_searches(embedder(self.settings))

    def _load_reranker(self) -> ScoresPairs | None:
        from resources.embedding.cross_encoder import CrossEncoder

        model = self.settings.rerank_model
        return None if model is None else CrossEncoder(model, self.settings.home / "models")

    def _load_embedder_of(self, collection: ActiveModel) -> EmbedsQueries:
        """Return the embedder of a collection: the one passed to the constructor if its model is the same."""
        from resources.embedding import embedder_of

        given = self._embedder_factory() if self._embedder_factory is not None else None
        if given is not None and given.model == collection.model:
            return given
        return for_searches(embedder_of(self.settings, msgspec.structs.asdict(collection)))

    async def index_size(self) -> tuple[int | None, int | None]:
        """Return the number of points and the bytes of their dense vectors; None while Qdrant does not answer."""
        try:
            with qdrant_errors("read the index's size"):
                async with asyncio.timeout(CHECK_SECONDS):
                    collection = await self.qdrant.get_collection(ALIAS)
        except AbortSyncError:  # nothing has been indexed yet
            return 0, 0
        except (TimeoutError, ConcordanceError):
            return None, None
        points = collection.points_count or 0
        vectors = collection.config.params.vectors
        dense: Any = vectors.get(DENSE) if isinstance(vectors, dict) else vectors
        return points, points * dense.size * FLOAT_BYTES if isinstance(dense, VectorParams) else None

    async def _active_collection(self) -> ActiveModel | None:
        """Return the active collection, read over a separate connection so that its failure delays no search."""
        try:
            return await WebReads(self._registry).active_collection()
        except psycopg.Error as error:  # the tables are being created or changed
            raise ServiceUnavailableError(f"The active collection cannot be read: {error}") from error

    async def open(self) -> None:
        """Connect and warm up, wait for this process's turn to serve, then start the background tasks.

        A dependency that is down does not keep the app from starting.
        """
        await self.database.open()
        self.searches.open()
        await self._registry.open()
        await self.embedder.start()
        await self.reranker.start()
        if self._turn is not None:
            await self._turn()
        self.background.start()
        self.audit.start()
        self.monitor.start()
        log.info("serving_started", embedder=self.embedder.model or None)

    async def close(self) -> None:
        """Write what is queued, then close every connection."""
        await self.sync_requests.stop()
        await self.answers.close()
        for provider in self.providers.values():
            await provider.close()
        await self.embedder.stop()
        await self.monitor.stop()
        await self.background.stop()
        await self.audit.stop()
        await self._registry.close()
        await self.database.close()
        await self.searches.close()
        await self.qdrant.close()


def provide_services(state: State) -> Services:
    return state.services
