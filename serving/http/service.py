"""What every room of the service uses: settings, connections, limits, metrics and the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from qdrant_client.http.models import VectorParams

from resources.core.breaker import Breaker
from resources.core.durations import duration
from resources.core.errors import AbortSyncError, ConcordanceError
from resources.keys import metrics_token, secret_keys
from resources.servers.addresses import Origins
from resources.sources import is_set_up
from resources.sources.stored import merged
from resources.stores import disk
from resources.stores.blobs import STORE, Blobs
from resources.stores.qdrant import ALIAS, DENSE, async_client, qdrant_errors
from serving.http.alerting import Alerting
from serving.http.audit import Audit
from serving.http.background import Background
from serving.http.capacity import capacity
from serving.http.cross_origin import cross_origin
from serving.http.database import Database
from serving.http.growth import Sampling
from serving.http.job_webhook import ToldJobs
from serving.http.load import Load
from serving.http.metrics import Metrics
from serving.http.monitor import StatusMonitor
from serving.http.origins import serving_rules
from serving.http.rate_limit import CallerLimits
from serving.http.request_limits import RequestLimits
from serving.http.sign_ins import SignIns
from serving.http.threads import Threads
from sql.source_settings import StoredSettingReads

if TYPE_CHECKING:
    from resources.core.domain import Access
    from resources.servers.shared import Shared
    from resources.settings import Settings

CHECK_SECONDS = 3.0
FLOAT_BYTES = 4


class ReadableBy(TypedDict):
    """Parameters of statements that return what a caller may read now."""

    principals: list[str]
    fresh_since: datetime


class HttpServices:
    """The foundation of all rooms. `shared` holds the limits of all processes of the service."""

    def __init__(self, settings: Settings, clock: Callable[[], datetime], shared: Shared) -> None:
        self.settings = settings
        self.clock = clock
        self.shared = shared
        self.draining = False
        """True if the process is about to end: it answers, and is not ready for more."""
        self.keys = secret_keys(settings)
        self.key = self.keys[0]
        self.metrics_token = metrics_token(settings)
        self.acl_max_age: timedelta = duration(settings.acl_max_age)
        self.database = Database(settings.postgres_dsn, prepare_threshold=settings.postgres_prepare_threshold)
        self.qdrant = async_client(settings)
        self.blobs = Blobs(settings.lake_address, Breaker(STORE))
        self.lake_threads = Threads("lake")
        self.metrics = Metrics(shared)
        self.caller_limits = limits = CallerLimits(shared, self.database, self.key)
        self.limit = limits.limit(settings.search_rate_limit, "search")
        self.origins = Origins(settings.trusted_proxies)
        self.rules = serving_rules(settings)
        self.cross_origin = cross_origin(settings)
        self.request_limits = RequestLimits(settings.search_rate_limit, self.origins, self.metrics, shared, limits)
        self.sign_ins = SignIns(settings.sign_in_failures, self.metrics, shared, limits)
        self.background = Background(self.database, self.metrics, shared)
        self.audit = Audit(settings.home / "audit", self.database, self.metrics, shared)
        self.monitor = StatusMonitor(
            self.database, self.index_size, partial(disk.faults, settings), partial(capacity, settings), self.sources
        )
        first = self.shared.worker == 0
        lake_size = partial(self.lake_threads.run, self.blobs.lake_size)
        self.load = Load(self.database, self.metrics, lake_size if first else None)
        self.sampling = Sampling(settings, self.database, self.index_size)
        self.alerting = Alerting(settings, self.database, self.metrics, self.monitor)
        self.told_jobs = ToldJobs(settings, self.database, clock)

    def fresh_since(self) -> datetime:
        """Return the time before which a check of permissions or of a directory is too old to count."""
        return self.clock() - self.acl_max_age

    def readable_by(self, access: Access) -> ReadableBy:
        """Return the parameters that restrict a statement to documents that the caller may read."""
        return ReadableBy(principals=sorted(access.principals), fresh_since=self.fresh_since())

    async def sources(self) -> Callable[[str], bool]:
        """Return a function that returns True for a source that is set up, in the environment or by an administrator."""
        stored_settings = await StoredSettingReads(self.database).stored_settings()
        return partial(is_set_up, merged(self.settings, stored_settings))

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

    def start(self) -> None:
        """Start the background tasks."""
        self.background.start()
        self.audit.start()
        self.monitor.start()
        self.load.start()
        if self.shared.worker == 0:
            self.alerting.start()
            self.told_jobs.start()
            self.sampling.start()

    async def close(self) -> None:
        """Write what is queued, then close the connections."""
        await self.alerting.stop()
        await self.told_jobs.stop()
        await self.sampling.stop()
        await self.monitor.stop()
        await self.load.stop()
        await self.background.stop()
        await self.audit.stop()
        await self.database.close()
        await self.qdrant.close()
