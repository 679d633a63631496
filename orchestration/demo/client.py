"""The demonstration's HTTP client, which syncs sources like any other program."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from orchestration.client import Client
from orchestration.supervision.workers import AT_START
from resources import dagster_access
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError
from resources.settings import Settings
from resources.syncs.launch import start_sync

POLL_SECONDS = 0.25
SYNC_SECONDS = 1800
CONCURRENT_SYNCS = AT_START
"""One per warm worker, because another would first start Python on busy cores. The sample's first sync took about 20 s of CPU
two at a time and 40 s all at once (on two busy cores)."""


class DemoClient(Client):
    """A client that can also sync sources, as an administrator."""

    def __init__(self, settings: Settings, email: str) -> None:
        super().__init__(settings, email, admin=True)

    def sync(
        self, sources: Sequence[SourceName], progress: Callable[[SourceName, dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        """Sync sources through Dagster and return the finished jobs.

        If a sync is already running, the request is added to it or waits for its end, and is made again if that sync fails.
        `progress` is called with each polled job. Raises `ConcordanceError` if the syncs take too long.
        """
        waiting = list(sources)
        running: dict[SourceName, tuple[str, bool, bool]] = {}
        done: dict[SourceName, dict[str, Any]] = {}
        deadline = time.monotonic() + SYNC_SECONDS
        while len(done) < len(sources):
            while waiting and len(running) < CONCURRENT_SYNCS:
                source = waiting.pop(0)
                running[source] = self._start(source)
            for source, (job_id, ours, merged) in list(running.items()):
                job = self.body("GET", f"/api/sync/status/{job_id}")
                progress(source, job)
                if job["status"] != "running":
                    del running[source]
                    if ours or (merged and job["status"] == "success"):
                        done[source] = job
                    else:
                        waiting.insert(0, source)
            if time.monotonic() > deadline:
                raise ConcordanceError(
                    f"The sync did not end within {SYNC_SECONDS} s. See {dagster_access.link(self.settings, path='/runs')}"
                )
            if running:
                time.sleep(POLL_SECONDS)
        return [done[source] for source in sources]

    def _start(self, source: SourceName) -> tuple[str, bool, bool]:
        """Return the job's id, whether we started it, and whether the request was added to it."""
        try:
            job = start_sync(self.settings, source, partitions=None, full=False, requested_by="demo")
        except BusyError as error:
            return error.job_id, False, error.merged
        return job.job_id, True, False
