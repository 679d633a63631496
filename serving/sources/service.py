"""Syncs that the service starts, and the events of Slack that ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from resources.core.breaker import Breaker
from resources.sources.stored import merged
from serving.http.threads import Threads
from serving.sources.slack_events import SlackEvents
from serving.sources.sync_requests import SyncRequests
from sql.source_settings import StoredSettingReads

if TYPE_CHECKING:
    from resources.core.domain import SourceName
    from resources.settings import Settings
    from serving.http.service import HttpServices
    from serving.identity.service import IdentityServices


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
    from resources.syncs.launch import start_sync

    return start_sync(settings, source, partitions=partitions, full=full, requested_by=requested_by)


class SourceServices:
    """Starts syncs. `launcher` replaces Dagster, for tests."""

    def __init__(self, http: HttpServices, identity: IdentityServices, launcher: Launcher | None = None) -> None:
        self.http = http
        self.identity = identity
        self.launcher = launcher or _launch
        self._dagster = Breaker("Dagster")
        self._threads = Threads("dagster")
        self.vendor_threads = Threads("vendors")
        self.sync_requests = SyncRequests(http.database, self.launch)
        self.slack_events = SlackEvents(http.database, identity.withholding, self.sync_requests.request)

    async def settings(self) -> Settings:
        """Return the settings with those of sources that administrators have stored."""
        return merged(self.http.settings, await StoredSettingReads(self.http.database).stored_settings())

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
            self.launcher, self.http.settings, source, partitions=partitions, full=full, requested_by=requested_by
        )
        return await self._threads.run(self._dagster.call, start, seconds)
