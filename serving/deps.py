"""What the routes need of the outside world, made once an app: clients, pool, embedder, key, launcher, counters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from litestar import Litestar
from litestar.datastructures import State
from qdrant_client import AsyncQdrantClient

from resources.blobs import Blobs
from resources.domain import SourceName
from resources.durations import duration
from resources.keys import secret_key
from resources.logging import logger
from resources.qdrant import async_client
from resources.settings import Settings
from serving.answers.service import Answers
from serving.background import Background
from serving.database import Database
from serving.embedding import EmbedsQueries, QueryEmbedder
from serving.limits import RateLimit
from serving.metrics import Metrics
from serving.retrieval.engines import Engines
from serving.retrieval.retriever import Retriever

log = logger("serving")


class Started(Protocol):
    """A sync that was started."""

    @property
    def job_id(self) -> str:
        """The `sync_jobs` row."""
        ...

    @property
    def started_at(self) -> datetime:
        """When, UTC."""
        ...


class Launcher(Protocol):
    """Starts a sync and returns at once; blocking. Raises `BusyError` or `NotRunningError`."""

    def __call__(
        self, settings: Settings, source: SourceName, *, partitions: Sequence[str] | None, full: bool, requested_by: str
    ) -> Started: ...


def _launch(
    settings: Settings, source: SourceName, *, partitions: Sequence[str] | None, full: bool, requested_by: str
) -> Started:
    from resources.launch import start_sync

    return start_sync(settings, source, partitions=partitions, full=full, requested_by=requested_by)


class Services:
    """Everything that a request may use; handed to routes as `services`."""

    def __init__(
        self,
        settings: Settings,
        *,
        launcher: Launcher | None = None,
        embedder: Callable[[], EmbedsQueries] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings = settings
        self.key = secret_key(settings)
        self.clock = clock
        self.acl_max_age: timedelta = duration(settings.acl_max_age)
        self.launcher = launcher or _launch
        self.metrics = Metrics()
        self.limit = RateLimit(settings.search_rate_limit)
        self.database = Database(settings.postgres_dsn)
        self.qdrant: AsyncQdrantClient = async_client(settings)
        self.blobs = Blobs(settings.lake_address)
        self.embedder = QueryEmbedder(embedder or self._load_embedder)
        self.background = Background(self.database, self.metrics)
        engines = Engines(self.qdrant, self.database, self.embedder)
        self.retriever = Retriever(
            settings, self.database, engines, self.embedder, self.background, self.metrics, clock=clock
        )
        self.answers = Answers(
            settings, self.database, self.retriever, self.embedder, self.background, self.metrics, clock=clock
        )

    def fresh_since(self) -> datetime:
        """Return the moment before which a check of permissions, or of a directory, no longer counts."""
        return self.clock() - self.acl_max_age

    def _load_embedder(self) -> EmbedsQueries:
        from resources.embedding import embedder

        return embedder(self.settings)

    async def open(self) -> None:
        """Connect and warm up; a part that is down does not keep the app from starting."""
        await self.database.open()
        self.background.start()
        await self.embedder.start()
        log.info("serving_started", embedder=self.embedder.model or None)

    async def close(self) -> None:
        """Write what is queued, then close."""
        await self.answers.close()
        await self.background.stop()
        await self.database.close()
        await self.qdrant.close()


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None]:
    """Open the services for as long as the app runs."""
    services: Services = app.state.services
    await services.open()
    try:
        yield
    finally:
        await services.close()


def provide_services(state: State) -> Services:
    """Return the app's services (a Litestar dependency)."""
    return state.services
